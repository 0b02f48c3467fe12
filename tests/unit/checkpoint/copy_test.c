/* A copy is whole or not there: whatever call fails on the way, whatever stands in its place already. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "checkpoint/copy.h"
#include "checkpoint/shelf.h"
#include "tests/unit/checkpoint/cuts.h"

/* The program's own definitions come before libc's: the call number `fail_at` fails. */
static int calls, fail_at;
static bool failed;

static int due(void)
{
    if (++calls != fail_at)
        return 0;
    failed = true;
    errno = ENOSPC;
    return 1;
}

ssize_t write(int fd, const void *data, size_t len)
{
    return due() ? -1 : syscall(SYS_write, fd, data, len);
}

int fsync(int fd)
{
    return due() ? -1 : (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    return due() ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int mkdir(const char *path, mode_t mode)
{
    return due() ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

static char *source, *there;

static int make(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    source = save("step-00000100", ROWS, 4);
    char *beside = str_printf("%s/tokenizer.json", source);
    scratch_write(beside, "{}", 2);
    free(beside);
    there = scratch_path("there/step-00000100");
    return 0;
}

static int drop(void **state)
{
    free(source);
    free(there);
    return scratch_remove(state);
}

static enum copy_result copy(struct err *err)
{
    char *to = scratch_path("there");
    err->text[0] = '\0';
    enum copy_result rc = copy_checkpoint(source, to, NULL, err);
    free(to);
    return rc;
}

static void remove_there(void)
{
    char *to = scratch_path("there");
    assert_int_equal(fs_remove_tree(to, NULL), 0);
    free(to);
}

/* Names in scratch/there, in any order: how many. */
static size_t entries(void)
{
    char *command = str_printf("ls -A %s/there 2>/dev/null | wc -l", scratch), line[32] = "";
    FILE *ls = popen(command, "re");
    assert_non_null(fgets(line, sizeof line, ls));
    pclose(ls);
    free(command);
    return strtoul(line, NULL, 10);
}

static void assert_whole(void)
{
    struct err err = {""};
    struct manifest_state state;
    if (checkpoint_verify(there, 0, 1, &state, &err) != 0)
        fail_msg("%s", err.text);
    char *beside = str_printf("%s/tokenizer.json", there);
    assert_int_equal(access(beside, F_OK), 0);
    free(beside);
}

static void test_copy_and_again(void **state)
{
    (void)state;
    struct err err;
    remove_there();
    if (copy(&err) != COPY_DONE)
        fail_msg("%s", err.text);
    assert_whole();
    char *to = scratch_path("there");
    assert_int_equal(shelf_latest(to), 100);
    assert_int_equal(entries(), 2);
    free(to);
    assert_int_equal(copy(&err), COPY_THERE);
}

static void test_each_call_fails_once(void **state)
{
    (void)state;
    struct err err;
    int tried = 0;
    for (int n = 1;; n++, tried++) {
        remove_there();
        calls = 0;
        failed = false;
        fail_at = n;
        enum copy_result rc = copy(&err);
        fail_at = 0;
        if (!failed)
            break;
        if (rc == COPY_DONE) { /* only `latest`, which is a hint */
            assert_whole();
            continue;
        }
        assert_int_equal(rc, COPY_ERROR);
        assert_contains(err.text, "No space left on device");
        if (access(there, F_OK) == 0) { /* it has its name, but that may not be on the disk */
            assert_whole();
            assert_int_equal(copy(&err), COPY_THERE);
        } else {
            assert_true(entries() == 0);
            assert_int_equal(copy(&err), COPY_DONE);
        }
    }
    assert_true(tried > 15);
}

static void test_what_is_there_stays(void **state)
{
    (void)state;
    struct err err;
    remove_there();
    assert_int_equal(copy(&err), COPY_DONE);
    char *file = str_printf("%s/rank-00002.safetensors", there),
         *manifest = str_printf("%s/manifest.json", there);
    scratch_flip(file, 300);
    assert_int_equal(copy(&err), COPY_OTHER);
    assert_contains(err.text, "damaged");
    assert_contains(err.text, "rank-00002.safetensors");
    scratch_flip(file, 300);
    assert_int_equal(copy(&err), COPY_THERE);
    scratch_flip(manifest, 20);
    assert_int_equal(copy(&err), COPY_OTHER);
    assert_contains(err.text, "another checkpoint of the same step");
    scratch_flip(manifest, 20);
    assert_int_equal(copy(&err), COPY_THERE);
    free(manifest);
    free(file);
}

static void test_a_damaged_source(void **state)
{
    (void)state;
    struct err err;
    char *file = str_printf("%s/rank-00001.safetensors", source), *to = scratch_path("there");
    remove_there();
    scratch_flip(file, 300);
    assert_int_equal(copy(&err), COPY_ERROR);
    assert_contains(err.text, "rank-00001.safetensors is damaged");
    assert_int_equal(entries(), 0);
    scratch_flip(file, 300);
    assert_int_equal(copy_checkpoint(to, to, NULL, &err), COPY_ERROR);
    assert_contains(err.text, "manifest.json");
    free(to);
    free(file);
}

/* An older step beside a newer one: `latest` goes on naming the newest. */
static void test_latest(void **state)
{
    (void)state;
    struct err err;
    char *to = scratch_path("there"), *newer = shelf_path(to, 200);
    remove_there();
    assert_int_equal(fs_mkdirs(newer, 0755, NULL), 0);
    assert_int_equal(copy(&err), COPY_DONE);
    assert_int_equal(shelf_latest(to), 200);
    free(newer);
    free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy_and_again),
        cmocka_unit_test(test_each_call_fails_once),
        cmocka_unit_test(test_what_is_there_stays),
        cmocka_unit_test(test_a_damaged_source),
        cmocka_unit_test(test_latest),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
