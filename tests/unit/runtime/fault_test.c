#include "tests/unit/scratch.h"

#include <sys/wait.h>

#include "runtime/fault.h"

static void test_parse(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int rc;
        struct fault fault;
    } rows[] = {
        {NULL, 0, {FAULT_NONE, 0, -1, -1, 1}},
        {"", 0, {FAULT_NONE, 0, -1, -1, 1}},
        {"kill@12", 0, {FAULT_KILL, 12, -1, -1, 1}},
        {"nan@3:rank=1", 0, {FAULT_NAN, 3, 1, -1, 1}},
        {"exit0@3:attempt=2:rank=0", 0, {FAULT_EXIT0, 3, 0, 2, 1}},
        {"nangrad@1", 0, {FAULT_NANGRAD, 1, -1, -1, 1}},
        {"nan@8:times=3", 0, {FAULT_NAN, 8, -1, -1, 3}},
        {"kill", -1, {0}},
        {"kill@", -1, {0}},
        {"kill@x", -1, {0}},
        {"kill@-1", -1, {0}},
        {"die@3", -1, {0}},
        {"kil@3", -1, {0}},
        {"kill@3:node=1", -1, {0}},
        {"kill@3:rank=", -1, {0}},
        {"nan@3:times=", -1, {0}},
        {"kill@3rank=1", -1, {0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {""};
        struct fault f;
        int rc = fault_parse(rows[i].text, &f, &err);
        if (rc != rows[i].rc)
            fail_msg("row %zu: %d (%s)", i, rc, err.text);
        if (rc == 0) {
            assert_int_equal(f.kind, rows[i].fault.kind);
            assert_int_equal(f.step, rows[i].fault.step);
            assert_int_equal(f.rank, rows[i].fault.rank);
            assert_int_equal(f.attempt, rows[i].fault.attempt);
            assert_int_equal(f.times, rows[i].fault.times);
        } else {
            assert_contains(err.text, "BELAY_FAULT");
        }
    }
}

static void test_strikes_only_where_told(void **state)
{
    (void)state;
    struct fault f;
    assert_int_equal(fault_parse("nan@3:rank=1:attempt=2", &f, NULL), 0);
    assert_int_equal(fault_strike(&f, 2, 1, 2), FAULT_NONE);
    assert_int_equal(fault_strike(&f, 3, 0, 2), FAULT_NONE);
    assert_int_equal(fault_strike(&f, 3, 1, 1), FAULT_NONE);
    assert_int_equal(fault_strike(&f, 3, 1, 2), FAULT_NAN);
}

/* After going back a step comes again, without what spoiled it: a step that always fails is asked for with times. */
static void test_strikes_as_often_as_told(void **state)
{
    (void)state;
    struct fault f;
    assert_int_equal(fault_parse("nan@3", &f, NULL), 0);
    assert_int_equal(fault_strike(&f, 3, 0, 0), FAULT_NAN);
    assert_int_equal(fault_strike(&f, 3, 0, 0), FAULT_NONE);
    assert_int_equal(fault_parse("nan@3:times=2", &f, NULL), 0);
    assert_int_equal(fault_strike(&f, 3, 0, 0), FAULT_NAN);
    assert_int_equal(fault_strike(&f, 3, 0, 0), FAULT_NAN);
    assert_int_equal(fault_strike(&f, 3, 0, 0), FAULT_NONE);
}

/* How the process ends: exit code, or minus the signal. */
static int ends(const char *text)
{
    struct fault f;
    int status;
    assert_int_equal(fault_parse(text, &f, NULL), 0);
    pid_t child = fork();
    if (child == 0) {
        fault_strike(&f, 1, 0, 0);
        _exit(99);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void test_endings(void **state)
{
    (void)state;
    assert_int_equal(ends("exit0@1"), 0);
    assert_int_equal(ends("exit1@1"), 1);
    assert_int_equal(ends("segv@1"), -11);
    assert_int_equal(ends("kill@1"), -9);
    assert_int_equal(ends("kill@2"), 99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_strikes_only_where_told),
        cmocka_unit_test(test_strikes_as_often_as_told),
        cmocka_unit_test(test_endings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
