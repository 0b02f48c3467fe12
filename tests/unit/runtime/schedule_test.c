#include "tests/unit/scratch.h"

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
    const struct job_optimizer wsd = {.lr = 1, .min_lr = 0.2, .warmup = 10, .schedule = LR_WSD, .decay = 25};
    const struct job_optimizer all_decay = {
        .lr = 1, .min_lr = 0, .warmup = 10, .schedule = LR_WSD, .decay = 1000};
    const struct job_optimizer no_decay = {.lr = 1, .min_lr = 0.2, .warmup = 10, .schedule = LR_WSD};
    const struct job_optimizer sharp = {.lr = 1, .min_lr = 0.2, .schedule = LR_WSD, .decay = 1};
    const struct job_optimizer root = {.lr = 1, .min_lr = 0.1, .warmup = 4, .schedule = LR_INVERSE_SQRT};
    const struct job_optimizer cold_root = {.lr = 1, .min_lr = 0, .schedule = LR_INVERSE_SQRT};
    const struct job_optimizer cold_cosine = {.lr = 1, .min_lr = 0, .schedule = LR_COSINE};
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
        {&cold, 5000, 0},
        {&cold_cosine, 50, 0.5},
        {&constant, 5000, 1},
        {&endless, 100, 0.5},
        {&wsd, 5, 0.5},
        {&wsd, 10, 1},
        {&wsd, 75, 1},
        {&wsd, 76, 0.2 + 0.8 * 0.8}, /* 1 of 25: 1 - 1/5 is kept */
        {&wsd, 84, 0.2 + 0.8 * 0.4}, /* 9 of 25 */
        {&wsd, 91, 0.2 + 0.8 * 0.2}, /* 16 of 25 */
        {&wsd, 100, 0.2},
        {&wsd, 5000, 0.2},
        {&all_decay, 10, 1},
        {&all_decay, 50, 1.0 / 3}, /* 40 of 90: 1 - 2/3 */
        {&all_decay, 100, 0},
        {&no_decay, 100, 1},
        {&no_decay, 5000, 1},
        {&sharp, 99, 1},
        {&sharp, 100, 0.2},
        {&root, 1, 0.25},
        {&root, 4, 1},
        {&root, 16, 0.5},
        {&root, 100, 0.2},
        {&root, 256, 0.125},
        {&root, 400, 0.1},
        {&root, 1000000, 0.1},
        {&cold_root, 1, 1},
        {&cold_root, 25, 0.2},
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
