/* Cross-entropy against double: odd vocabularies, targets left out, padding columns, huge and broken logits. */
#include "tests/unit/kernels/near.h"

struct shape {
    const char *name;
    size_t n, v, stride;
    double size; /* logits lie within +-size */
};
static const struct shape shapes[] = {{"one", 1, 1, 1, 1},           {"odd", 7, 97, 128, 5},
                                      {"large", 5, 50257, 50304, 4}, {"hot", 6, 1000, 1024, 1e4},
                                      {"huge", 6, 333, 384, 1e38},   {"flat", 3, 2049, 2112, 0}};

struct data {
    const struct shape *s;
    float *logits, *losses, *lse;
    int32_t *targets;
    double sum;
};

static struct data data_new(const struct shape *s)
{
    struct data d = {s, .logits = random_new(s->n * s->stride, s->size), .losses = random_new(s->n, 1),
                     .lse = random_new(s->n, 1)};
    d.targets = malloc(s->n * sizeof *d.targets);
    for (size_t i = 0; i < s->n; i++) {
        d.targets[i] = i % 3 == 1 ? -1 : (int32_t)(lrand48() % (long)s->v);
        for (size_t j = s->v; j < s->stride; j++)
            d.logits[i * s->stride + j] = 1e30f; /* padding: must not count */
    }
    d.sum = kernel_cross_entropy_forward(d.losses, d.lse, d.logits, d.targets, s->n, s->v, s->stride);
    return d;
}

static void data_free(struct data *d)
{
    free(d->logits);
    free(d->losses);
    free(d->lse);
    free(d->targets);
}

static double log_sum(const float *x, size_t v)
{
    double most = -INFINITY, sum = 0;
    for (size_t j = 0; j < v; j++)
        most = fmax(most, (double)x[j]);
    for (size_t j = 0; j < v; j++)
        sum += exp((double)x[j] - most);
    return most + log(sum);
}

static void losses_match_double(void **state)
{
    (void)state;
    srand48(7);
    for (size_t k = 0; k < COUNT(shapes); k++) {
        const struct shape *s = &shapes[k];
        struct data d = data_new(s);
        double sum = 0;
        for (size_t i = 0; i < s->n; i++) {
            const float *row = d.logits + i * s->stride;
            double loss = d.targets[i] < 0 ? 0 : log_sum(row, s->v) - (double)row[d.targets[i]];
            expect_near(d.losses[i], loss, 1 + s->size, 1e-6, s->name, i);
            sum += (double)d.losses[i];
        }
        assert_true(sum == d.sum);
        data_free(&d);
    }
}

/* before: the logits of the row, which are now its gradient */
static void check_gradient_row(const struct data *d, size_t row, const float *before, double scale)
{
    const struct shape *s = d->s;
    double sum = log_sum(before, s->v);
    for (size_t j = 0; j < s->stride; j++) {
        bool counts = d->targets[row] >= 0 && j < s->v;
        double p = counts ? exp((double)before[j] - sum) - ((int32_t)j == d->targets[row]) : 0;
        /* e^(logit - lse) can only be as good as a float holds the difference: size * 2^-24 */
        double tolerance = counts ? 3e-6 + s->size * 1.2e-7 : 0;
        expect_near(d->logits[row * s->stride + j], scale * p, 1e-6 + fabs(p), tolerance, s->name, j);
    }
}

static void gradients_match_double(void **state)
{
    (void)state;
    const double scale = 0.37;
    srand48(8);
    for (size_t k = 0; k < COUNT(shapes); k++) {
        const struct shape *s = &shapes[k];
        struct data d = data_new(s);
        float *logits = copy_new(d.logits, s->n * s->stride);
        kernel_cross_entropy_backward(d.logits, d.lse, d.targets, (float)scale, s->n, s->v, s->stride);
        for (size_t i = 0; i < s->n; i++)
            check_gradient_row(&d, i, logits + i * s->stride, scale);
        free(logits);
        data_free(&d);
    }
}

static void broken_logits_give_nan(void **state)
{
    (void)state;
    static const float broken[] = {NAN, INFINITY, -NAN};
    for (size_t i = 0; i < COUNT(broken); i++) {
        for (size_t at = 0; at < 40; at++) {
            float logits[40] = {0}, loss, lse;
            int32_t target = 3;
            logits[at] = broken[i];
            double sum = kernel_cross_entropy_forward(&loss, &lse, logits, &target, 1, 40, 40);
            assert_true(isnan(sum));
            kernel_cross_entropy_backward(logits, &lse, &target, 1, 1, 40, 40);
            assert_true(isnan(logits[0]) && isnan(logits[39]));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(losses_match_double),
                                       cmocka_unit_test(gradients_match_double),
                                       cmocka_unit_test(broken_logits_give_nan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
