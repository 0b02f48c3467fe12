/* Cross-entropy against double: odd vocabularies, cut over ranks or whole, targets left out, padding columns, huge and broken logits. */
#include "tests/unit/kernels/near.h"

struct shape {
    const char *name;
    size_t n, v, stride, parts;
    double size; /* logits lie within +-size */
};
static const struct shape shapes[] = {
    {"one", 1, 1, 1, 1, 1},           {"odd", 7, 97, 128, 1, 5},
    {"odd in 4", 7, 97, 128, 4, 5},   {"more parts than words", 5, 3, 16, 5, 5},
    {"large", 5, 50257, 50304, 1, 4}, {"large in 3", 5, 50257, 50304, 3, 4},
    {"hot", 6, 1000, 1024, 2, 1e4},   {"huge", 6, 333, 384, 1, 1e38},
    {"flat", 3, 2049, 2112, 2, 0}};

struct data {
    const struct shape *s;
    real *logits, *losses, *lse, *all;
    int32_t *targets;
    double sum;
};

/* Columns [begin, end) of part p. */
static size_t begin_of(const struct shape *s, size_t p)
{
    return s->v * p / s->parts;
}

/* Each part computes its columns, then all are combined: lse and losses as every rank has them. */
static void forward(const struct kernels *k, struct data *d)
{
    const struct shape *s = d->s;
    for (size_t p = 0; p < s->parts; p++) {
        size_t begin = begin_of(s, p);
        real *to = d->all + 2 * p * s->n;
        k->cross_entropy_local(to, to + s->n, d->logits + begin, d->targets, (int32_t)begin, s->n,
                               begin_of(s, p + 1) - begin, s->stride);
    }
    d->sum = 0;
    k->cross_entropy_combine(&d->sum, d->losses, d->lse, d->all, d->targets, s->parts, s->n);
}

static struct data data_new(const struct kernels *k, const struct shape *s)
{
    struct data d = {s, .logits = random_new(s->n * s->stride, s->size), .losses = random_new(s->n, 1),
                     .lse = random_new(s->n, 1), .all = random_new(2 * s->n * s->parts, 1)};
    d.targets = malloc(s->n * sizeof *d.targets);
    for (size_t i = 0; i < s->n; i++) {
        d.targets[i] = i % 3 == 1 ? -1 : (int32_t)(lrand48() % (long)s->v);
        for (size_t j = s->v; j < s->stride; j++)
            d.logits[i * s->stride + j] = (real)1e30; /* padding: must not count */
    }
    forward(k, &d);
    return d;
}

static void data_free(struct data *d)
{
    FREE(d->logits, d->losses, d->lse, d->targets, d->all);
}

static double log_sum(const real *x, size_t v)
{
    double most = -INFINITY, sum = 0;
    for (size_t j = 0; j < v; j++)
        most = fmax(most, (double)x[j]);
    for (size_t j = 0; j < v; j++)
        sum += exp((double)x[j] - most);
    return most + log(sum);
}

static void check_losses(const struct kernels *k)
{
    for (size_t c = 0; c < COUNT(shapes); c++) {
        const struct shape *s = &shapes[c];
        struct data d = data_new(k, s);
        double sum = 0;
        for (size_t i = 0; i < s->n; i++) {
            const real *row = d.logits + i * s->stride;
            double loss = d.targets[i] < 0 ? 0 : log_sum(row, s->v) - (double)row[d.targets[i]];
            expect_near(d.losses[i], loss, 1 + s->size, 1e-6, s->name, i);
            sum += (double)d.losses[i];
        }
        assert_true(sum == d.sum);
        data_free(&d);
    }
}
TYPED_TEST(losses_match_double, check_losses)

/* out: gradient of a row's columns [begin, end), then padding up to dstride */
static void check_gradient_row(const struct kernels *k, const struct data *d, size_t row, size_t begin,
                               size_t end, const real *logits, const act *out, size_t dstride, double scale)
{
    const struct shape *s = d->s;
    double sum = log_sum(logits, s->v);
    for (size_t j = 0; j < dstride; j++) {
        bool counts = d->targets[row] >= 0 && j < end - begin;
        bool target = (int32_t)(begin + j) == d->targets[row];
        double p = counts ? exp((double)logits[begin + j] - sum) - target : 0;
        /* e^(logit - lse) can only be as good as a float holds the difference: size * 2^-24 */
        double tolerance = counts ? 3e-6 + s->size * 1.2e-7 : 0;
        expect_act(k, out, j, scale * p, 1e-6 + fabs(p) + (target ? 0.1 : 0), tolerance, s->name);
    }
}

static void check_gradients(const struct kernels *k)
{
    const double scale = 0.37;
    for (size_t c = 0; c < COUNT(shapes); c++) {
        const struct shape *s = &shapes[c];
        struct data d = data_new(k, s);
        for (size_t p = 0; p < s->parts; p++) {
            size_t begin = begin_of(s, p), end = begin_of(s, p + 1), dstride = end - begin + 7;
            act *out = act_random(k, s->n * dstride, 1);
            k->cross_entropy_backward(out, dstride, d.logits + begin, s->stride, d.lse, d.targets,
                                      (int32_t)begin, (real)scale, s->n, end - begin);
            for (size_t i = 0; i < s->n; i++)
                check_gradient_row(k, &d, i, begin, end, d.logits + i * s->stride,
                                   act_in(k, out, i * dstride), dstride, scale);
            free(out);
        }
        data_free(&d);
    }
}
TYPED_TEST(gradients_match_double, check_gradients)

/* On the logits themselves: rows of gradients begin where rows of logits do. The same bits as beside them. */
static void check_in_place(const struct kernels *k)
{
    for (size_t c = 0; c < COUNT(shapes); c++) {
        const struct shape *s = &shapes[c];
        struct data d = data_new(k, s);
        size_t dstride = s->stride * (sizeof(real) / k->act_size);
        act *out = act_random(k, s->n * dstride, 1);
        k->cross_entropy_backward(out, dstride, d.logits, s->stride, d.lse, d.targets, 0, 1, s->n, s->v);
        k->cross_entropy_backward((act *)d.logits, dstride, d.logits, s->stride, d.lse, d.targets, 0, 1, s->n,
                                  s->v);
        assert_memory_equal(out, d.logits, s->n * dstride * k->act_size);
        free(out);
        data_free(&d);
    }
}
TYPED_TEST(gradients_may_lie_on_the_logits, check_in_place)

static void check_broken(const struct kernels *k)
{
    static const real broken[] = {NAN, INFINITY, -NAN};
    static const struct shape cut[] = {{"whole", 1, 40, 40, 1, 0}, {"cut", 1, 40, 40, 3, 0}};
    for (size_t i = 0; i < COUNT(broken) * COUNT(cut); i++) {
        for (size_t at = 0; at < 40; at++) {
            struct data d = data_new(k, &cut[i % 2]);
            d.logits[at] = broken[i / 2];
            d.targets[0] = 3;
            forward(k, &d);
            assert_true(isnan(d.sum));
            act *out = act_random(k, 40, 1);
            k->cross_entropy_backward(out, 40, d.logits, 40, d.lse, d.targets, 0, 1, 1, 40);
            assert_true(isnan(value(k, out, 0)) && isnan(value(k, out, 39)));
            free(out);
            data_free(&d);
        }
    }
}
TYPED_TEST(broken_logits_give_nan, check_broken)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_match_double), cmocka_unit_test(gradients_match_double),
        cmocka_unit_test(gradients_may_lie_on_the_logits), cmocka_unit_test(broken_logits_give_nan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
