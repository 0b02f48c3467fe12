/* The streams: repeatable, independent of each other, and with the moments that their names promise. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/random.h"

enum { N = 100000 };

static void test_repeats(void **state)
{
    (void)state;
    struct random_stream a = random_stream(7, 3), b = random_stream(7, 3), c = random_stream(7, 4);
    int same = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t x = random_next(&a);
        assert_int_equal(x, random_next(&b));
        same += x == random_next(&c);
    }
    assert_int_equal(same, 0);
}

static void test_does_not_depend_on_others(void **state)
{
    (void)state;
    struct random_stream a = random_stream(1, 1), other = random_stream(1, 2), b = random_stream(1, 1);
    for (int i = 0; i < 100; i++) {
        uint64_t x = random_next(&a);
        (void)random_next(&other);
        assert_int_equal(x, random_next(&b));
    }
}

static void check_near(double got, double wanted, double relative)
{
    if (fabs(got - wanted) > relative * fabs(wanted))
        fail_msg("got %g, wanted %g", got, wanted);
}

static void test_moments(void **state)
{
    (void)state;
    struct random_stream s = random_stream(5, 9);
    double uniform = 0, exponential = 0, square = 0, normal2 = 0;
    for (int i = 0; i < N; i++) {
        double u = random_uniform(&s), e = random_exponential(&s, 10), n = random_normal(&s);
        assert_true(u > 0 && u <= 1);
        uniform += u;
        exponential += e;
        square += e * e;
        normal2 += n * n;
    }
    check_near(uniform / N, 0.5, 0.01);
    check_near(exponential / N, 10, 0.02);
    check_near(square / N, 200, 0.04);
    check_near(normal2 / N, 1, 0.02);
}

static void test_below(void **state)
{
    (void)state;
    struct random_stream s = random_stream(5, 10);
    int counts[7] = {0};
    for (int i = 0; i < 7 * 10000; i++)
        counts[random_below(&s, 7)]++;
    for (int i = 0; i < 7; i++)
        check_near(counts[i], 10000, 0.05);
}

static int64_t median_of(const struct scenario_time *t)
{
    struct random_stream s = random_stream(2, 2);
    int below = 0;
    for (int i = 0; i < N; i++)
        below += random_time(&s, t) < t->ms;
    return below;
}

static void test_times(void **state)
{
    (void)state;
    struct random_stream s = random_stream(2, 1);
    struct scenario_time fixed = {SHAPE_FIXED, 1234, 0}, lognormal = {SHAPE_LOGNORMAL, 3600000, 1},
                         exponential = {SHAPE_EXPONENTIAL, 3600000, 0};
    assert_int_equal(random_time(&s, &fixed), 1234);
    check_near((double)median_of(&lognormal), N / 2.0, 0.02);
    check_near((double)median_of(&exponential), N * (1 - exp(-1)), 0.02);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repeats), cmocka_unit_test(test_does_not_depend_on_others),
        cmocka_unit_test(test_moments), cmocka_unit_test(test_below),
        cmocka_unit_test(test_times),
    };
    return cmocka_run_group_tests_name("sim random", tests, NULL, NULL);
}
