/* The guard: silent on the curves of ordinary runs, loud at what is none, and still awake after a NaN. */
#include "tests/unit/scratch.h"

#include <math.h>

#include "runtime/engine/guard.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static struct guard *guard_made(enum job_guard action, int64_t window, int64_t patience)
{
    struct job_train t = {
        .guard_action = action, .guard_factor = 3, .guard_window = window, .guard_patience = patience};
    return guard_new(&t);
}

/* Steps first to last of a calm run: loss about 3, norm about 1. */
static void calm(struct guard *g, int64_t first, int64_t last)
{
    for (int64_t step = first; step <= last; step++) {
        struct err why = {""};
        double wave = (double)(step % 7) / 7;
        if (guard_judge(g, step, 2.9 + 0.2 * wave, 0.8 + 0.4 * wave, &why) != GUARD_FINE)
            fail_msg("step %lld: %s", (long long)step, why.text);
    }
}

struct row {
    double loss, norm;
    enum guard_verdict verdict;
    const char *says;
};

static void one_step_after_a_calm_run(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {3, 1, GUARD_FINE, ""},
        {8.9, 1, GUARD_FINE, ""}, /* below 3 x 2.986 */
        {9.1, 1, GUARD_SKIP,
         "step 101: the loss 9.1 is far above the median 2.986 of the last 64 good steps; its update is "
         "skipped"},
        {30, 1, GUARD_SKIP, "(spike 1 of at most 3 within 64 steps)"},
        {3, 29, GUARD_FINE, ""}, /* below 30 x 0.97 */
        {3, 30, GUARD_SKIP, "the gradient norm 30 is far above the median"},
        {NAN, 1, GUARD_SKIP, "step 101: the loss is nan; its update is skipped"},
        {INFINITY, 1, GUARD_SKIP, "the loss is inf"},
        {-INFINITY, 1, GUARD_SKIP, "the loss is -inf"},
        {3, NAN, GUARD_SKIP, "the gradient norm is nan"},
        {3, INFINITY, GUARD_SKIP, "the gradient norm is inf"},
        {0.001, 0, GUARD_FINE, ""}, /* good news is no spike */
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct guard *g = guard_made(JOB_GUARD_SKIP, 64, 3);
        struct err why = {""};
        calm(g, 1, 100);
        enum guard_verdict verdict = guard_judge(g, 101, rows[i].loss, rows[i].norm, &why);
        if (verdict != rows[i].verdict)
            fail_msg("row %zu: verdict %d: %s", i, (int)verdict, why.text);
        assert_contains(why.text, rows[i].says);
        guard_free(g);
    }
}

static void a_nan_then_a_spike_still_fires(void **state)
{
    (void)state;
    struct guard *g = guard_made(JOB_GUARD_SKIP, 16, 10);
    calm(g, 1, 40);
    assert_int_equal(guard_judge(g, 41, NAN, NAN, NULL), GUARD_SKIP);
    assert_int_equal(guard_judge(g, 42, 30, 1, NULL), GUARD_SKIP);
    assert_int_equal(guard_judge(g, 43, NAN, 1, NULL), GUARD_SKIP);
    assert_int_equal(guard_judge(g, 44, 3, NAN, NULL), GUARD_SKIP);
    assert_int_equal(guard_judge(g, 45, 30, 1, NULL), GUARD_SKIP);
    calm(g, 46, 100);
    assert_int_equal(guard_judge(g, 101, 30, 1, NULL), GUARD_SKIP);
    guard_free(g);
}

/* A spike at the very first steps has nothing to be compared with; what is not finite needs no comparison. */
static void the_first_steps_are_only_checked_for_numbers(void **state)
{
    (void)state;
    struct guard *g = guard_made(JOB_GUARD_SKIP, 64, 3);
    assert_int_equal(guard_judge(g, 1, NAN, 1, NULL), GUARD_SKIP);
    calm(g, 2, 8);
    assert_int_equal(guard_judge(g, 9, 100, 100, NULL), GUARD_FINE); /* 7 are known */
    assert_int_equal(guard_judge(g, 10, 100, 100, NULL), GUARD_SKIP);
    guard_free(g);
    g = guard_made(JOB_GUARD_SKIP, 4, 3);
    calm(g, 1, 4);
    assert_int_equal(guard_judge(g, 5, 100, 1, NULL), GUARD_SKIP);
    guard_free(g);
}

static void each_action_has_its_verdict(void **state)
{
    (void)state;
    static const struct {
        enum job_guard action;
        enum guard_verdict verdict;
        const char *says;
    } rows[] = {
        {JOB_GUARD_OFF, GUARD_FINE, ""},
        {JOB_GUARD_STOP, GUARD_STOP,
         "step 31: the loss is nan; the job stops as train.guard.action says; go on from an older "
         "checkpoint"},
        {JOB_GUARD_SKIP, GUARD_SKIP, "its update is skipped (spike 1 of at most 3 within 16 steps)"},
        {JOB_GUARD_ROLLBACK, GUARD_ROLLBACK,
         "back to the newest checkpoint, past the data since then (spike 1 of at most 3"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct guard *g = guard_made(rows[i].action, 16, 3);
        struct err why = {""};
        calm(g, 1, 30);
        assert_int_equal(guard_judge(g, 31, NAN, 1, &why), rows[i].verdict);
        assert_contains(why.text, rows[i].says);
        guard_free(g);
    }
}

/* As many spikes as patience within the window are answered, the next one stops the job; those farther away are forgiven. */
static void patience_ends(void **state)
{
    (void)state;
    struct guard *g = guard_made(JOB_GUARD_SKIP, 16, 2);
    struct err why = {""};
    calm(g, 1, 30);
    assert_int_equal(guard_judge(g, 31, 90, 1, &why), GUARD_SKIP);
    assert_int_equal(guard_judge(g, 32, 90, 1, &why), GUARD_BEAR);
    assert_contains(why.text, "spike 2 of at most 2");
    calm(g, 33, 45);
    assert_int_equal(guard_judge(g, 46, 90, 1, &why), GUARD_STOP);
    assert_contains(why.text, "after 2 spikes within 16 steps; the job stops");
    guard_free(g);
    g = guard_made(JOB_GUARD_SKIP, 16, 2);
    calm(g, 1, 30);
    assert_int_equal(guard_judge(g, 31, 90, 1, NULL), GUARD_SKIP);
    assert_int_equal(guard_judge(g, 32, 90, 1, NULL), GUARD_BEAR);
    calm(g, 33, 46);
    assert_int_equal(guard_judge(g, 47, 90, 1, NULL), GUARD_SKIP); /* 31 is 16 steps away */
    guard_free(g);
}

/* Rolling back again and again to the same spike must end, however far back the checkpoint is. */
static void rollbacks_do_not_go_round_for_ever(void **state)
{
    (void)state;
    struct guard *g = guard_made(JOB_GUARD_ROLLBACK, 16, 3);
    calm(g, 1, 500);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(guard_judge(g, 501 + i, NAN, 1, NULL), GUARD_ROLLBACK);
        calm(g, 101, 500 + i);
    }
    assert_int_equal(guard_judge(g, 504, NAN, 1, NULL), GUARD_STOP);
    guard_free(g);
}

/* What was seen of steps that come again is no measure for them. */
static void a_rollback_forgets_what_came_after(void **state)
{
    (void)state;
    struct guard *g = guard_made(JOB_GUARD_ROLLBACK, 16, 3);
    for (int64_t step = 1; step <= 40; step++)
        assert_int_equal(guard_judge(g, step, step <= 30 ? 6 : 1, 1, NULL), GUARD_FINE);
    assert_int_equal(guard_judge(g, 41, NAN, 1, NULL), GUARD_ROLLBACK);
    assert_int_equal(guard_judge(g, 31, 6, 1, NULL), GUARD_FINE); /* six times what steps 31 to 40 had */
    guard_free(g);
}

/* A level that stays is no spike for ever: the job stops and says so, or goes on when the step was small. */
static void a_slow_rise_is_no_spike(void **state)
{
    (void)state;
    struct guard *g = guard_made(JOB_GUARD_STOP, 16, 1);
    double loss = 1;
    for (int64_t step = 1; step <= 400; step++, loss *= 1.02)
        assert_int_equal(guard_judge(g, step, loss, loss, NULL), GUARD_FINE);
    guard_free(g);
}

/* A loss near zero jumps by large factors without harm. */
static void near_zero_nothing_fires(void **state)
{
    (void)state;
    struct guard *g = guard_made(JOB_GUARD_STOP, 64, 1);
    for (int64_t step = 1; step <= 400; step++)
        assert_int_equal(guard_judge(g, step, step % 50 == 0 ? 0.3 : 0.001, 0.01, NULL), GUARD_FINE);
    assert_int_equal(guard_judge(g, 401, 0.9, 0.01, NULL), GUARD_STOP);
    guard_free(g);
}

/* ---- noise ---- */

static uint64_t seed;

static double uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(seed >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

/* A falling loss with the noise of small batches, and norms whose logarithm is normal. */
static void noisy_step(int64_t step, double noise, double *loss, double *norm)
{
    double level = 1.5 + 9.3 * exp(-(double)step / 150);
    *loss = level * (1 + noise * normal());
    *norm = (1 + 9 * exp(-(double)step / 50)) * exp(0.6 * normal());
}

static void noisy_runs_give_no_false_alarm(void **state)
{
    (void)state;
    static const int64_t windows[] = {4, 8, 64, 500};
    static const double noises[] = {0.01, 0.05, 0.2};
    for (size_t i = 0; i < COUNT(windows) * COUNT(noises); i++) {
        struct guard *g = guard_made(JOB_GUARD_STOP, windows[i % COUNT(windows)], 1);
        seed = 20261130 + i;
        for (int64_t step = 1; step <= 5000; step++) {
            double loss = 0, norm = 0;
            struct err why = {""};
            noisy_step(step, noises[i / COUNT(windows)], &loss, &norm);
            if (guard_judge(g, step, loss, norm, &why) != GUARD_FINE)
                fail_msg("window %lld, noise %g: %s", (long long)windows[i % COUNT(windows)],
                         noises[i / COUNT(windows)], why.text);
        }
        guard_free(g);
    }
}

/* A factor for smooth curves on a rough one: the spreads keep it silent. */
static void a_small_factor_is_safe_in_noise(void **state)
{
    (void)state;
    struct job_train t = {
        .guard_action = JOB_GUARD_STOP, .guard_factor = 1.2, .guard_window = 64, .guard_patience = 1};
    struct guard *g = guard_new(&t);
    seed = 5;
    for (int64_t step = 1; step <= 2000; step++)
        assert_int_equal(guard_judge(g, step, 3 * (1 + 0.2 * normal()), 1, NULL), GUARD_FINE);
    assert_int_equal(guard_judge(g, 2001, 9, 1, NULL), GUARD_STOP);
    guard_free(g);
}

static void a_tenfold_loss_fires_whatever_the_noise(void **state)
{
    (void)state;
    static const double noises[] = {0, 0.01, 0.05, 0.2};
    for (size_t i = 0; i < COUNT(noises); i++) {
        struct guard *g = guard_made(JOB_GUARD_SKIP, 64, 1000);
        seed = 7 + i;
        for (int64_t step = 1; step <= 2000; step++) {
            double loss = 0, norm = 0;
            noisy_step(step, noises[i], &loss, &norm);
            bool spike = step % 100 == 0;
            assert_int_equal(guard_judge(g, step, spike ? 10 * loss : loss, norm, NULL),
                             spike ? GUARD_SKIP : GUARD_FINE);
        }
        guard_free(g);
    }
}

/* A run that stopped at any step and was fed its rows judges every later step as the one that went on. */
static void a_resumed_run_judges_alike(void **state)
{
    (void)state;
    enum { STEPS = 300, WINDOW = 16 };
    double loss[STEPS + 1], norm[STEPS + 1];
    seed = 99;
    for (int64_t step = 1; step <= STEPS; step++) {
        noisy_step(step, 0.2, &loss[step], &norm[step]);
        loss[step] *= uniform() < 0.15 ? 8 : 1;
        loss[step] = uniform() < 0.02 ? NAN : loss[step];
    }
    for (int64_t stop = 60; stop < STEPS; stop += 7) {
        struct guard *through = guard_made(JOB_GUARD_SKIP, WINDOW, 2),
                     *again = guard_made(JOB_GUARD_SKIP, WINDOW, 2);
        size_t verdicts[GUARD_STOP + 1] = {0};
        for (int64_t step = 1; step <= stop; step++)
            (void)guard_judge(through, step, loss[step], norm[step], NULL);
        for (int64_t step = stop - 3 * WINDOW + 1; step <= stop; step++)
            guard_feed(again, step, loss[step], norm[step]);
        for (int64_t step = stop + 1; step <= STEPS; step++) {
            struct err why = {""}, why_again = {""};
            enum guard_verdict verdict = guard_judge(through, step, loss[step], norm[step], &why);
            assert_int_equal(verdict, guard_judge(again, step, loss[step], norm[step], &why_again));
            assert_string_equal(why.text, why_again.text);
            verdicts[verdict]++;
        }
        assert_true(stop > 200 || (verdicts[GUARD_SKIP] > 0 && verdicts[GUARD_STOP] > 0));
        guard_free(through);
        guard_free(again);
    }
}

/* Feeding a spike that is counted already does not count it twice. */
static void a_spike_is_fed_once(void **state)
{
    (void)state;
    struct guard *g = guard_made(JOB_GUARD_SKIP, 16, 2);
    calm(g, 1, 30);
    assert_int_equal(guard_judge(g, 31, NAN, 1, NULL), GUARD_SKIP);
    guard_feed(g, 31, NAN, 1);
    assert_int_equal(guard_judge(g, 32, NAN, 1, NULL), GUARD_SKIP);
    assert_int_equal(guard_judge(g, 33, NAN, 1, NULL), GUARD_STOP);
    guard_free(g);
    guard_free(NULL);
}

/* Nor does a fine step that comes twice fill the window with itself. */
static void a_fine_step_is_fed_once(void **state)
{
    (void)state;
    struct guard *g = guard_made(JOB_GUARD_SKIP, 4, 2);
    calm(g, 1, 30);
    for (int i = 0; i < 4; i++)
        guard_feed(g, 30, 6, 1);
    assert_int_equal(guard_judge(g, 31, 12, 1, NULL), GUARD_SKIP);
    guard_free(g);
}

/* Bad weights make a spike of every batch, and only updates mend them. */
static void the_second_spike_in_a_row_is_borne(void **state)
{
    (void)state;
    struct err why;
    struct guard *g = guard_made(JOB_GUARD_SKIP, 64, 9);
    calm(g, 1, 100);
    assert_int_equal(guard_judge(g, 101, 30, 1, &why), GUARD_SKIP);
    assert_int_equal(guard_judge(g, 102, 31, 1, &why), GUARD_BEAR);
    assert_non_null(strstr(why.text, "so the update is applied"));
    assert_int_equal(guard_judge(g, 103, 32, 1, &why), GUARD_SKIP);  /* it did not help: again */
    assert_int_equal(guard_judge(g, 104, NAN, 1, &why), GUARD_SKIP); /* never what is no number */
    assert_int_equal(guard_judge(g, 105, 30, 1, &why), GUARD_SKIP);
    assert_int_equal(guard_judge(g, 106, 3, 1, NULL), GUARD_FINE);
    assert_int_equal(guard_judge(g, 107, 30, 1, &why), GUARD_SKIP); /* not in a row */
    guard_free(g);
}

/* One bad update had given the next batch 55 times the usual norm: clipping took care of it. */
static void large_norms_are_fine_where_they_are_clipped(void **state)
{
    (void)state;
    struct job_train t = {
        .guard_action = JOB_GUARD_SKIP, .guard_factor = 3, .guard_window = 64, .guard_patience = 3};
    t.optimizer.clip = 1;
    struct guard *g = guard_new(&t);
    calm(g, 1, 100);
    assert_int_equal(guard_judge(g, 101, 3, 1000, NULL), GUARD_FINE);
    assert_int_equal(guard_judge(g, 102, 3, INFINITY, NULL), GUARD_SKIP);
    assert_int_equal(guard_judge(g, 103, 30, 1, NULL), GUARD_SKIP);
    guard_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_step_after_a_calm_run),
        cmocka_unit_test(a_nan_then_a_spike_still_fires),
        cmocka_unit_test(the_first_steps_are_only_checked_for_numbers),
        cmocka_unit_test(each_action_has_its_verdict),
        cmocka_unit_test(patience_ends),
        cmocka_unit_test(rollbacks_do_not_go_round_for_ever),
        cmocka_unit_test(a_rollback_forgets_what_came_after),
        cmocka_unit_test(a_slow_rise_is_no_spike),
        cmocka_unit_test(near_zero_nothing_fires),
        cmocka_unit_test(noisy_runs_give_no_false_alarm),
        cmocka_unit_test(a_small_factor_is_safe_in_noise),
        cmocka_unit_test(a_tenfold_loss_fires_whatever_the_noise),
        cmocka_unit_test(a_resumed_run_judges_alike),
        cmocka_unit_test(a_spike_is_fed_once),
        cmocka_unit_test(a_fine_step_is_fed_once),
        cmocka_unit_test(the_second_spike_in_a_row_is_borne),
        cmocka_unit_test(large_norms_are_fine_where_they_are_clipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
