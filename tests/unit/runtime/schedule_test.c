#include "scratch.h"

#include <math.h>

#include "runtime/engine/schedule.h"

static void test_values(void **state)
{
    (void)state;
    const struct job_optimizer cosine = {.lr = 1, .min_lr = 0.2, .warmup = 10, .schedule = LR_COSINE};
    const struct job_optimizer linear = {.lr = 1, .min_lr = 0.2, .warmup = 10, .schedule = LR_LINEAR};
    const struct job_optimizer constant = {.lr = 1, .min_lr = 0.2, .warmup = 10, .schedule = LR_CONSTANT};
    const struct job_optimizer cold = {.lr = 1, .min_lr = 0, .warmup = 0, .schedule = LR_LINEAR};
    const struct job_optimizer endless = {.lr = 1, .min_lr = 0.2, .warmup = 200, .schedule = LR_COSINE};
    const struct {
        const struct job_optimizer *o;
        int64_t step;
        double lr;
    } rows[] = {
        {&cosine, 1, 0.1},
        {&cosine, 9, 0.9},
        {&cosine, 10, 1},
        {&cosine, 55, 0.6},
        {&cosine, 100, 0.2},
        {&cosine, 5000, 0.2},
        {&cosine, 40, 0.2 + 0.8 * 0.75}, /* a third of the way: (1 + cos 60 degrees) / 2 */
        {&linear, 55, 0.6},
        {&linear, 40, 0.2 + 0.8 * 2 / 3},
        {&linear, 100, 0.2},
        {&constant, 5, 0.5},
        {&constant, 100, 1},
        {&cold, 1, 0.99},
        {&cold, 100, 0},
        {&endless, 100, 0.5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double lr = schedule_lr(rows[i].o, 100, rows[i].step);
        if (fabs(lr - rows[i].lr) > 1e-12)
            fail_msg("row %zu: %.17g, expected %.17g", i, lr, rows[i].lr);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
