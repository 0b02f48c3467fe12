/* How often to save: the closed forms against a search, and what follows from them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "planner/saves.h"

/* Daly's exact model (2006, eq. 20): wall time per work when each interval of length t is done again until no failure strikes within t + cost. */
static double wall(double t, double cost, double mttf)
{
    return mttf * (exp((t + cost) / mttf) - 1) / t;
}

static double best(double cost, double mttf)
{
    double at = 0, least = INFINITY;
    for (double t = mttf / 20000; t < 20 * mttf; t *= 1.0005)
        if (wall(t, cost, mttf) < least) {
            least = wall(t, cost, mttf);
            at = t;
        }
    return at;
}

static void test_forms_against_a_search(void **state)
{
    (void)state;
    static const struct {
        double cost, young_off, daly_off; /* cost of mttf 1; how far off at most */
    } rows[] = {
        {1e-5, 0.005, 0.002}, {1e-3, 0.03, 0.002}, {0.01, 0.1, 0.002}, {0.1, 0.4, 0.01}, {0.5, 1.0, 0.05}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double t = best(rows[i].cost, 1);
        assert_true(fabs(saves_young(rows[i].cost, 1) / t - 1) <= rows[i].young_off);
        assert_true(fabs(saves_daly(rows[i].cost, 1) / t - 1) <= rows[i].daly_off);
    }
    assert_true(saves_daly(300, 100) == 100);
}

static void test_time_between_interruptions(void **state)
{
    (void)state;
    double day = 86400;
    /* nothing seen: what so many nodes are expected to come to */
    assert_true(fabs(saves_mttf(1, 0.01, 0, 0) - 100 * day) < 1e-6);
    assert_true(fabs(saves_mttf(100, 0.01, 0, 0) - day) < 1e-6);
    assert_true(saves_mttf(0, 0.01, 0, 0) == saves_mttf(1, 0.01, 0, 0));
    /* a day in which nothing happened, and one with nine interruptions */
    assert_true(fabs(saves_mttf(100, 0.01, 0, day) - 2 * day) < 1e-6);
    assert_true(fabs(saves_mttf(100, 0.01, 9, day) - 0.2 * day) < 1e-6);
    /* a long history says it all */
    assert_true(fabs(saves_mttf(100, 0.01, 1000, 100 * day) / (0.1 * day) - 1) < 0.01);
    assert_true(isinf(saves_mttf(4, 0, 0, day)));
    assert_true(saves_mttf(4, 0, 2, day) == day / 2);
}

static void test_steps(void **state)
{
    (void)state;
    static const struct {
        struct saves_facts facts;
        int64_t every;
    } rows[] = {
        {{50, 0, 1, 10000}, 967},   /* 1000 x (1 + 0.05/3 + 0.0025/9) - 50 */
        {{50, 0, 10, 10000}, 97},   /* in steps */
        {{0.01, 0, 1, 100}, 1},     /* 1.4 s */
        {{1, 0, 1, 1}, 1},          /* saves as long as it lives: after each step */
        {{0.01, 30, 1, 100}, 30},   /* not before the last can be safe */
        {{0.01, 30.5, 1, 100}, 31}, /* whole steps */
        {{0, 0, 1, 100}, 1},        /* costs nothing */
        {{1, 0, 1, (double)INFINITY}, SAVES_STEPS_MAX},
        {{0, 0, 1, (double)INFINITY}, 1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(saves_every(&rows[i].facts), rows[i].every);
}

static void test_words(void **state)
{
    (void)state;
    char text[SAVES_WORDS];
    struct saves_facts f = {.cost_s = 0.8, .step_s = 1.1, .mttf_s = 6.2 * 3600};
    saves_explain(&f, text);
    assert_string_equal(text, "every 171 steps (3m08s): a save costs 800ms, an interruption is expected each "
                              "6h12m, a step takes 1.1s");
    f = (struct saves_facts){.cost_s = 0.001, .durable_s = 90, .step_s = 2, .mttf_s = 3600};
    saves_explain(&f, text);
    assert_string_equal(text, "every 45 steps (1m30s): a save costs 1ms, and it is safe only after 1m30s, an "
                              "interruption is expected each 1h00m, a step takes 2.0s");
    f = (struct saves_facts){.cost_s = 1, .step_s = 1, .mttf_s = (double)INFINITY};
    saves_explain(&f, text);
    assert_true(strlen(text) < SAVES_WORDS - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms_against_a_search),
        cmocka_unit_test(test_time_between_interruptions),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests_name("saves", tests, NULL, NULL);
}
