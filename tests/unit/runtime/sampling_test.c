/* Which token comes next: rows worked out by hand, edges, and frequencies over many draws. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/text/sampling.h"

#define DRAWS 200000

/* How often each of n (<= 8) tokens is drawn. */
static void frequencies(const struct sampling *s, const float *logits, size_t n, double *out)
{
    memset(out, 0, 8 * sizeof *out);
    for (uint64_t i = 0; i < DRAWS; i++) {
        int32_t id = sampling_pick(s, logits, n, i % 7, i);
        assert_in_range(id, 0, n - 1);
        out[id] += 1.0 / DRAWS;
    }
}

/* Probabilities 0.5 0.25 0.125 0.125 (and their square roots at temperature 2). */
static const float halves[] = {-0.693147181F, -1.386294361F, -2.079441542F, -2.079441542F};
static const float level[] = {3, 3, 3, 3};
/* The same in another order, shifted by a constant. */
static const float mixed[] = {7.920558458F, 9.306852819F, 7.920558458F, 8.613705639F};

static const struct {
    const char *name;
    const float *logits;
    struct sampling s;
    double expected[4];
} rows[] = {
    {"as they are", halves, {1, 0, 1, 1}, {0.5, 0.25, 0.125, 0.125}},
    {"another order", mixed, {1, 0, 1, 2}, {0.125, 0.5, 0.125, 0.25}},
    {"k 2", mixed, {1, 2, 1, 3}, {0, 2.0 / 3, 0, 1.0 / 3}},
    {"k 3 among equals takes the lower id", mixed, {1, 3, 1, 4}, {1.0 / 7, 4.0 / 7, 0, 2.0 / 7}},
    {"k of the whole vocabulary", halves, {1, 4, 1, 5}, {0.5, 0.25, 0.125, 0.125}},
    {"k beyond the vocabulary", halves, {1, 99, 1, 6}, {0.5, 0.25, 0.125, 0.125}},
    {"k 1", mixed, {1, 1, 1, 7}, {0, 1, 0, 0}},
    {"p just within the first", halves, {1, 0, 0.49, 8}, {1, 0, 0, 0}},
    {"p just beyond the first", halves, {1, 0, 0.51, 9}, {2.0 / 3, 1.0 / 3, 0, 0}},
    {"p 0.8 needs three", halves, {1, 0, 0.8, 10}, {4.0 / 7, 2.0 / 7, 1.0 / 7, 0}},
    {"p just reached", level, {1, 0, 0.5, 18}, {0.5, 0.5, 0, 0}},
    {"p 0", mixed, {1, 0, 0, 11}, {0, 1, 0, 0}},
    {"p 1", mixed, {1, 0, 1, 12}, {0.125, 0.5, 0.125, 0.25}},
    {"p counts within the k", halves, {1, 2, 0.6, 13}, {1, 0, 0, 0}}, /* 2/3 of these two >= 0.6 */
    {"temperature 0", mixed, {0, 0, 1, 14}, {0, 1, 0, 0}},
    {"temperature tiny", mixed, {1e-300, 0, 1, 15}, {0, 1, 0, 0}},
    {"temperature 0.5 squares", halves, {0.5, 0, 1, 16}, {8.0 / 11, 2.0 / 11, 0.5 / 11, 0.5 / 11}},
    {"temperature huge levels", halves, {1e9, 0, 1, 17}, {0.25, 0.25, 0.25, 0.25}},
};

static void draws_as_often_as_it_should(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double found[8];
        frequencies(&rows[i].s, rows[i].logits, 4, found);
        for (size_t j = 0; j < 4; j++) {
            double p = rows[i].expected[j], slack = 5 * sqrt(p * (1 - p) / DRAWS);
            if (fabs(found[j] - p) > slack + 1e-9)
                fail_msg("%s: token %zu came up %.5f of the time, not %.5f", rows[i].name, j, found[j], p);
        }
    }
}

static void equals_go_to_the_lower_id(void **state)
{
    (void)state;
    const float flat[] = {2, 3, 3, 3};
    const struct sampling greedy = {.temperature = 0, .top_p = 1};
    assert_int_equal(sampling_pick(&greedy, flat, 4, 0, 0), 1);
}

static void what_cannot_be_compared_is_refused(void **state)
{
    (void)state;
    const struct {
        float logits[3];
        size_t n;
        int32_t expected;
    } odd[] = {
        {{1, NAN, 0}, 3, -1}, {{1, INFINITY, 0}, 3, -1},          {{-INFINITY, -INFINITY, -INFINITY}, 3, -1},
        {{1, 0, 0}, 0, -1},   {{-INFINITY, -3, -INFINITY}, 3, 1}, {{5, 0, 0}, 1, 0},
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        for (int hot = 0; hot < 2; hot++) {
            const struct sampling s = {.temperature = hot, .top_p = 1};
            assert_int_equal(sampling_pick(&s, odd[i].logits, odd[i].n, 1, 2), odd[i].expected);
        }
}

static void never_chosen_are_never_drawn(void **state)
{
    (void)state;
    const float one_out[] = {0, -INFINITY, 0, -INFINITY};
    const struct sampling s = {.temperature = 1e30, .top_p = 0.9999999, .seed = 3};
    double found[8];
    frequencies(&s, one_out, 4, found);
    assert_true(found[1] == 0 && found[3] == 0);
}

static void the_draw_depends_on_all_three_numbers(void **state)
{
    (void)state;
    double first = sampling_uniform(1, 2, 3);
    assert_true(first == sampling_uniform(1, 2, 3));
    assert_true(first != sampling_uniform(2, 2, 3));
    assert_true(first != sampling_uniform(1, 3, 3));
    assert_true(first != sampling_uniform(1, 2, 4));
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double u = sampling_uniform(9, i / 1000, i % 1000);
        assert_true(u >= 0 && u < 1);
        sum += u;
        squares += u * u;
    }
    assert_true(fabs(sum / DRAWS - 0.5) < 5 * sqrt(1.0 / 12 / DRAWS));
    assert_true(fabs(squares / DRAWS - 1.0 / 3) < 5 * sqrt(4.0 / 45 / DRAWS));
}

static void streams_tell_texts_and_samples_apart(void **state)
{
    (void)state;
    const int32_t a[] = {1, 2, 3}, b[] = {2, 1, 3};
    uint64_t s = sampling_stream(a, 3, 0);
    assert_true(s == sampling_stream(a, 3, 0));
    assert_true(s != sampling_stream(a, 3, 1));
    assert_true(s != sampling_stream(a, 2, 0));
    assert_true(s != sampling_stream(b, 3, 0));
}

static void log_probabilities(void **state)
{
    (void)state;
    assert_true(fabs(sampling_log_probability(mixed, 4, 1) - log(0.5)) < 1e-6);
    assert_true(fabs(sampling_log_probability(mixed, 4, 3) - log(0.25)) < 1e-6);
    const float far[] = {1000, 0};
    assert_true(fabs(sampling_log_probability(far, 2, 1) + 1000) < 1e-6);
    const float bad[] = {NAN, 0};
    assert_true(isnan(sampling_log_probability(bad, 2, 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_as_often_as_it_should),
        cmocka_unit_test(equals_go_to_the_lower_id),
        cmocka_unit_test(what_cannot_be_compared_is_refused),
        cmocka_unit_test(never_chosen_are_never_drawn),
        cmocka_unit_test(the_draw_depends_on_all_three_numbers),
        cmocka_unit_test(streams_tell_texts_and_samples_apart),
        cmocka_unit_test(log_probabilities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
