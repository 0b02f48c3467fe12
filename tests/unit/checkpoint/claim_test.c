#include "common/fsutil.h"
#include "common/mem.h"
#include "tests/unit/scratch.h"

#include <fcntl.h>
#include <sys/file.h>

#include "checkpoint/claim.h"

static char *fresh(const char *name)
{
    char *dir = scratch_path(name);
    assert_int_equal(fs_mkdirs(dir, 0755, NULL), 0);
    return dir;
}

/* Who may follow whom. */
static void test_order(void **state)
{
    (void)state;
    const struct {
        const char *first_job;
        int64_t first;
        bool done;
        const char *second_job;
        int64_t second;
        enum claim_result result;
    } rows[] = {
        {"7", 1, false, "7", 2, CLAIM_OK},
        {"7", 2, false, "7", 2, CLAIM_OK}, /* the same attempt once more: its rank 0 was started again */
        {"7", 3, false, "7", 2, CLAIM_SUPERSEDED},
        {"7", 3, true, "7", 2, CLAIM_SUPERSEDED},
        {"7", 3, false, "8", 1, CLAIM_OK},
        {"7", 3, false, "", 0, CLAIM_SUPERSEDED},
        {"7", 3, true, "", 0, CLAIM_OK},
        {"", 0, false, "", 0, CLAIM_OK},
        {"", 0, false, "7", 1, CLAIM_OK},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {""};
        struct claim *first, *second;
        char *name = str_printf("order%zu", i), *dir = fresh(name);
        assert_int_equal(claim_take(dir, rows[i].first_job, rows[i].first, &first, &err), CLAIM_OK);
        if (rows[i].done) {
            claim_close(first, true);
            first = NULL;
        }
        enum claim_result rc = claim_take(dir, rows[i].second_job, rows[i].second, &second, &err);
        if (rc != rows[i].result)
            fail_msg("row %zu: %d (%s)", i, rc, err.text);
        if (rc == CLAIM_SUPERSEDED)
            assert_true(err.text[0] && !second);
        if (rc == CLAIM_OK) {
            assert_int_equal(claim_lock(second, &err), CLAIM_OK);
            claim_unlock(second);
        }
        if (first) { /* the first one notices exactly when it lost */
            assert_int_equal(claim_lock(first, &err), rc == CLAIM_OK ? CLAIM_SUPERSEDED : CLAIM_OK);
            if (rc != CLAIM_OK)
                claim_unlock(first);
            else
                assert_contains(err.text, "superseded");
        }
        claim_close(first, false);
        claim_close(second, false);
        free(dir);
        free(name);
    }
}

/* A process that lost its claim must not mark the new owner's as done. */
static void test_loser_leaves_claim_alone(void **state)
{
    (void)state;
    struct err err;
    struct claim *old, *new;
    char *dir = fresh("loser"), *path = str_printf("%s/claim", dir);
    assert_int_equal(claim_take(dir, "7", 1, &old, &err), CLAIM_OK);
    assert_int_equal(claim_take(dir, "7", 2, &new, &err), CLAIM_OK);
    char *before = scratch_read(path);
    claim_close(old, true);
    char *after = scratch_read(path);
    assert_string_equal(before, after);
    claim_close(new, true);
    free(after);
    after = scratch_read(path);
    assert_contains(after, "\"done\": true");
    free(before);
    free(after);
    free(path);
    free(dir);
}

static void test_bad_files(void **state)
{
    (void)state;
    struct err err;
    struct claim *claim;
    char *dir = fresh("bad"), *path = str_printf("%s/claim", dir);
    scratch_write(path, "{\"job\":", 7);
    assert_int_equal(claim_take(dir, "7", 1, &claim, &err), CLAIM_OK); /* with a warning */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(claim_lock(claim, &err), CLAIM_ERROR);
    assert_contains(err.text, "is gone");
    claim_close(claim, true);
    assert_int_equal(claim_take("/nonexistent", "7", 1, &claim, &err), CLAIM_ERROR);
    assert_contains(err.text, "/nonexistent/claim.lock");
    free(path);
    free(dir);
}

/* What an onlooker sees. */
static void test_look(void **state)
{
    (void)state;
    const struct {
        const char *claim;
        bool live;
    } rows[] = {
        {NULL, false},
        {"{\"job\":\"7\",\"attempt\":3,\"done\":false}", true},
        {"{\"job\":\"7\",\"attempt\":3,\"done\":true}", false},
        {"{\"job\":\"\",\"attempt\":0,\"done\":false}", true}, /* nobody can tell */
        {"{\"job\":\"\",\"attempt\":0,\"done\":false,\"process\":{\"pid\":1,\"start\":1,\"boot\":\"another\"}"
         "}",
         true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {""};
        struct claim_view view;
        char *name = str_printf("look%zu", i), *dir = fresh(name), *path = str_printf("%s/claim", dir);
        if (rows[i].claim)
            scratch_write(path, rows[i].claim, strlen(rows[i].claim));
        assert_int_equal(claim_look(dir, &view, &err), 0);
        if (view.live != rows[i].live)
            fail_msg("row %zu: live %d", i, view.live);
        free(path);
        free(dir);
        free(name);
    }
}

/* By hand: as long as the process is there. Of a job: although it is not, until the claim says that the job is done. */
static void test_look_at_processes(void **state)
{
    (void)state;
    struct err err = {""};
    struct claim_view view;
    static const char *const jobs[] = {"", "7"};
    for (size_t i = 0; i < 2; i++) {
        struct claim *claim;
        char *dir = fresh(jobs[i][0] ? "seen7" : "seen"), *path = str_printf("%s/claim", dir), *text, *start;
        assert_int_equal(claim_take(dir, jobs[i], 2, &claim, &err), CLAIM_OK);
        assert_int_equal(claim_look(dir, &view, &err), 0);
        assert_true(view.live && view.attempt == 2);
        assert_string_equal(view.job, jobs[i]);
        text = scratch_read(path);
        start = strstr(text, "\"start\": ");
        assert_non_null(start);
        start[9] = start[9] == '1' ? '2' : '1'; /* this process, had it started at another time */
        scratch_write(path, text, strlen(text));
        assert_int_equal(claim_look(dir, &view, &err), 0);
        assert_int_equal(view.live, jobs[i][0] != '\0');
        claim_close(claim, true);
        assert_int_equal(claim_look(dir, &view, &err), 0);
        assert_false(view.live);
        free(text);
        free(path);
        free(dir);
    }
}

/* Whoever borrows the lock keeps a run from committing, and leaves the claim alone. */
static void test_borrow(void **state)
{
    (void)state;
    struct err err = {""};
    struct claim *claim;
    char *dir = fresh("borrow"), *lock = str_printf("%s/claim.lock", dir);
    assert_int_equal(claim_take(dir, "7", 1, &claim, &err), CLAIM_OK);
    struct claim *borrowed = claim_borrow(dir, &err);
    assert_non_null(borrowed);
    int fd = open(lock, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), -1);
    claim_close(borrowed, false);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    close(fd);
    assert_int_equal(claim_lock(claim, &err), CLAIM_OK);
    claim_close(claim, true);
    assert_null(claim_borrow("/nonexistent", &err));
    assert_contains(err.text, "/nonexistent/claim.lock");
    free(lock);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_loser_leaves_claim_alone),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_look),
        cmocka_unit_test(test_look_at_processes),
        cmocka_unit_test(test_borrow),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
