/* Every system call of a save fails once, in turn: the save says so, the older checkpoint stays good, and the next save works. */
#include "common/fsutil.h"
#include "tests/unit/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/claim.h"
#include "checkpoint/shelf.h"

/* The program's own definitions come before libc's: the call number `fail_at` fails. */
static int calls, fail_at;
static const char *failed;

static int due(const char *name)
{
    if (++calls != fail_at)
        return 0;
    failed = name;
    errno = ENOSPC;
    return 1;
}

ssize_t write(int fd, const void *data, size_t len)
{
    return due("write") ? -1 : syscall(SYS_write, fd, data, len);
}

int fsync(int fd)
{
    return due("fsync") ? -1 : (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    return due("rename") ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    return due("renameat2") ? -1 : (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
}

int mkdir(const char *path, mode_t mode)
{
    return due("mkdir") ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

static float values[24];
static struct checkpoint_piece whole = {{0, 0}, {6, 4}, values, 4}, upper = {{0, 0}, {3, 4}, values, 4},
                               lower = {{3, 0}, {6, 4}, values + 12, 4};
#define ARRAY(piece)                                                                                         \
    {                                                                                                        \
        .name = "x", .shape = {6, 4}, .dims = 2, .pieces = &(piece), .n_pieces = 1                           \
    }
static const struct checkpoint_array array = ARRAY(whole), halves[] = {ARRAY(upper), ARRAY(lower)};

static void set_values(float first)
{
    for (size_t i = 0; i < 24; i++)
        values[i] = first + (float)i;
}

/* What two ranks do for one checkpoint. 0, or -1 with a sentence. */
static int save(const char *dir, int64_t step, struct err *err)
{
    struct manifest_file files[2];
    struct checkpoint_record records[2] = {{NULL, 0}, {NULL, 0}};
    struct manifest_state at = {.step = step, .tp = 1, .pp = 1, .cp = 1, .dp = 2, .ep = 1};
    struct claim *claim = NULL;
    char *folder = NULL;
    int rc = -1;
    if (claim_take(dir, "", 0, &claim, err) != CLAIM_OK)
        goto out;
    folder = shelf_begin(dir, step, 0, err);
    if (!folder || checkpoint_write_shard(folder, 0, &halves[0], 1, &files[0], err) != 0 ||
        checkpoint_write_shard(folder, 1, &halves[1], 1, &files[1], err) != 0)
        goto out;
    for (size_t i = 0; i < 2; i++)
        records[i] = checkpoint_describe(&halves[i], 1, &files[i]);
    if (checkpoint_seal(folder, records, NULL, 2, &at, err) != 0 || claim_lock(claim, err) != CLAIM_OK)
        goto out;
    rc = shelf_commit(dir, folder, step, err);
    claim_unlock(claim);
out:
    claim_close(claim, rc == 0);
    free(records[0].bytes);
    free(records[1].bytes);
    free(folder);
    return rc;
}

/* The newest checkpoint on the shelf is good and holds what was saved in that step (10*step, 10*step+1, …). */
static int64_t newest_good(const char *dir)
{
    int64_t *steps, found = 0;
    int64_t n = shelf_list(dir, &steps, NULL);
    assert_true(n > 0);
    for (int64_t i = 0; i < n; i++) {
        struct manifest_state at;
        struct err err;
        char *path = shelf_path(dir, steps[i]);
        if (checkpoint_verify(path, 0, 1, &at, &err) != 0)
            fail_msg("call %d (%s): what is visible must be complete: %s", fail_at, failed, err.text);
        set_values(0);
        assert_int_equal(checkpoint_load(path, &array, 1, &err), CHECKPOINT_OK);
        for (size_t k = 0; k < 24; k++)
            assert_true(values[k] == (float)(10 * steps[i]) + (float)k);
        found = steps[i] > found ? steps[i] : found;
        free(path);
    }
    free(steps);
    return found;
}

static int save_step(const char *dir, int64_t step, int fail, struct err *err)
{
    set_values((float)(10 * step));
    err->text[0] = 0;
    calls = 0;
    failed = NULL;
    fail_at = fail;
    int rc = save(dir, step, err);
    calls = 0;
    fail_at = 0;
    return rc;
}

static void test_each_call_fails_once(void **state)
{
    (void)state;
    struct err err;
    char *dir = scratch_path("torture");
    assert_int_equal(fs_mkdirs(dir, 0755, NULL), 0);
    assert_int_equal(save_step(dir, 1, 0, &err), 0);
    int tried = 0;
    for (int n = 1;; n++) {
        int rc = save_step(dir, 2, n, &err);
        if (!failed) {
            assert_int_equal(rc, 0);
            break;
        }
        tried++;
        if (rc != 0)
            assert_contains(err.text, "No space left on device");
        assert_true(newest_good(dir) >= 1);
        shelf_sweep(dir);
        if (save_step(dir, 2, 0, &err) != 0)
            fail_msg("after call %d failed: %s", n, err.text);
        assert_int_equal(newest_good(dir), 2);
        char *path = shelf_path(dir, 2);
        assert_int_equal(fs_remove_tree(path, NULL), 0);
        free(path);
    }
    print_message("# %d calls\n", tried);
    assert_true(tried > 15);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_call_fails_once)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
