/* When the next save is due. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/interval.h"
#include "schema/job.h"

static void test_a_number_of_steps(void **state)
{
    (void)state;
    struct interval in;
    interval_open(&in, 20, 7, NULL);
    for (int64_t step = 8; step < 100; step++)
        assert_int_equal(interval_due(&in, step), step % 20 == 0);
    interval_open(&in, 0, 0, NULL);
    assert_false(interval_due(&in, 20));
}

static void test_auto(void **state)
{
    (void)state;
    struct interval in;
    interval_open(&in, JOB_EVERY_AUTO, 100, "10000");
    assert_false(interval_due(&in, 109));
    assert_true(interval_due(&in, 110)); /* early, to see what one costs */
    assert_null(interval_news(&in));     /* nothing is known */
    interval_stepped(&in, 60);           /* warms up */
    for (int i = 0; i < 9; i++)
        interval_stepped(&in, 1);
    assert_int_equal(interval_next(&in, 50), 967); /* saves_test has the formula */
    interval_set(&in, 110, 967);
    assert_false(interval_due(&in, 1076));
    assert_true(interval_due(&in, 1077));
    assert_string_equal(interval_news(&in),
                        "every 967 steps (16m07s): a save costs 50.0s, an interruption is "
                        "expected each 2h46m, a step takes 1.0s");
    assert_null(interval_news(&in)); /* told */
    interval_stepped(&in, 2);        /* smoothed: 1.1 s */
    assert_in_range(interval_next(&in, 50), 870, 890);
    assert_null(interval_news(&in));
    assert_in_range(interval_next(&in, 10), 670, 750); /* 30 s */
    assert_non_null(interval_news(&in));
    interval_durable(&in, 5000); /* no save before the last can be safe */
    assert_in_range(interval_next(&in, 10), 4540, 4550);
}

/* A run that saves at its first steps has measured none. */
static void test_asked_at_once(void **state)
{
    (void)state;
    struct interval in;
    interval_open(&in, JOB_EVERY_AUTO, 0, NULL);
    interval_stepped(&in, 1);
    assert_int_equal(interval_next(&in, 0.01), INTERVAL_FIRST);
    assert_null(interval_news(&in));
}

static void test_time_between_interruptions(void **state)
{
    (void)state;
    static const char *const bad[] = {NULL, "", "x", "-5", "0", "10 days", "nan"};
    struct interval in;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        interval_open(&in, JOB_EVERY_AUTO, 0, bad[i]);
        assert_true(in.facts.mttf_s > 150 * 86400.0 && in.facts.mttf_s < 155 * 86400.0);
    }
    interval_open(&in, JOB_EVERY_AUTO, 0, "22320.5");
    assert_true(in.facts.mttf_s == 22320.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_number_of_steps),
        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_asked_at_once),
        cmocka_unit_test(test_time_between_interruptions),
    };
    return cmocka_run_group_tests_name("interval", tests, NULL, NULL);
}
