/* Linear layers against sums in double, and how their results join the residual stream: bit by bit what the single steps give. */
#include "tests/unit/kernels/near.h"

struct shape {
    size_t n, in, out;
};
static const struct shape shapes[] = {{0, 3, 4}, {1, 1, 1}, {3, 5, 7}, {33, 40, 17}, {5, 1100, 3}};

struct data {
    const struct kernels *k;
    struct shape s;
    act *weight, *bias, *x, *y, *onto, *dy;
    struct kernel_linear l;
};

static struct data data_new(const struct kernels *k, struct shape s, bool bias)
{
    struct data d = {.k = k,
                     .s = s,
                     .weight = act_random(k, s.in * s.out, 1),
                     .bias = act_random(k, s.out, 1),
                     .x = act_random(k, s.n * s.in, 1),
                     .y = act_random(k, s.n * s.out, NAN),
                     .onto = act_random(k, s.n * s.out, 1),
                     .dy = act_random(k, s.n * s.out, 1)};
    d.l = (struct kernel_linear){d.weight, bias ? d.bias : NULL, s.in, s.out, NULL};
    return d;
}

static void data_free(struct data *d)
{
    FREE(d->weight, d->bias, d->x, d->y, d->onto, d->dy);
}

static double product(const struct data *d, size_t at)
{
    size_t i = at / d->s.out, o = at % d->s.out;
    double sum = d->l.bias ? value(d->k, d->bias, o) : 0;
    for (size_t j = 0; j < d->s.in; j++)
        sum += value(d->k, d->x, i * d->s.in + j) * value(d->k, d->weight, o * d->s.in + j);
    return sum;
}

/* What sums of this many products may be off, and bf16's rounding of what is between the steps. */
static double slack(const struct data *d, size_t terms)
{
    return 1e-6 * (double)(terms + 1) + (d->k->type == KERNEL_BF16 ? 0.02 * sqrt((double)terms + 1) : 0);
}

static void check_forward(const struct kernels *k, struct shape s, bool bias)
{
    struct data d = data_new(k, s, bias);
    size_t count = s.n * s.out;
    act *sum = act_random(k, count, NAN);
    k->linear_forward(d.y, NULL, d.x, &d.l, s.n);
    k->linear_forward(sum, d.onto, d.x, &d.l, s.n);
    for (size_t i = 0; i < count; i++) {
        double y = product(&d, i);
        expect_within(value(k, d.y, i), y, slack(&d, s.in), "y", i);
        expect_within(value(k, sum, i), y + value(k, d.onto, i), slack(&d, s.in), "y on the stream", i);
    }
    k->linear_forward(d.onto, d.onto, d.x, &d.l, s.n); /* in place: the same bits */
    assert_memory_equal(d.onto, sum, count * k->act_size);
    data_free(&d);
    free(sum);
}

static void check_gelu(const struct kernels *k, struct shape s)
{
    struct data d = data_new(k, s, true);
    size_t count = s.n * s.out;
    act *before = act_random(k, count, NAN), *active = act_random(k, count, NAN),
        *expected = act_random(k, count, NAN);
    k->linear_forward(d.y, NULL, d.x, &d.l, s.n);
    k->gelu_forward(expected, d.y, count);
    k->linear_gelu_forward(active, before, d.x, &d.l, s.n);
    assert_memory_equal(before, d.y, count * k->act_size);
    assert_memory_equal(active, expected, count * k->act_size);
    FREE(before, active, expected);
    data_free(&d);
}

static void check_backward(const struct kernels *k, struct shape s)
{
    struct data d = data_new(k, s, true);
    size_t count = s.n * s.in;
    act *dx = act_random(k, count, NAN), *more = act_random(k, count, 1), *had = act_copy(k, more, count),
        *dbefore = act_random(k, count, NAN), *expected = act_random(k, count, NAN);
    k->linear_backward(dx, false, d.dy, &d.l, s.n);
    k->linear_backward(more, true, d.dy, &d.l, s.n);
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (size_t o = 0; o < s.out; o++)
            sum += value(k, d.dy, i / s.in * s.out + o) * value(k, d.weight, o * s.in + i % s.in);
        expect_within(value(k, dx, i), sum, slack(&d, s.out), "dx", i);
        expect_within(value(k, more, i), sum + value(k, had, i), slack(&d, s.out), "dx +=", i);
    }
    k->gelu_backward(expected, dx, d.x, count);
    k->linear_gelu_backward(dbefore, d.dy, d.x, &d.l, s.n);
    assert_memory_equal(dbefore, expected, count * k->act_size);
    FREE(dx, more, had, dbefore, expected);
    data_free(&d);
}

static void check_weights(const struct kernels *k, struct shape s)
{
    struct data d = data_new(k, s, true);
    real *dweight = random_new(s.in * s.out, 1), *had = copy_new(dweight, s.in * s.out * sizeof(real)),
         *dbias = random_new(s.out, 1), *had_bias = copy_new(dbias, s.out * sizeof(real));
    k->linear_weights(dweight, NULL, d.dy, d.x, &d.l, s.n);
    assert_memory_equal(dbias, had_bias, s.out * sizeof(real));
    k->linear_weights(dweight, dbias, d.dy, d.x, &d.l, s.n); /* the weights' a second time */
    for (size_t i = 0; i < s.in * s.out; i++) {
        double sum = 0, bias = 0;
        for (size_t t = 0; t < s.n; t++) {
            double dy = value(k, d.dy, t * s.out + i / s.in);
            sum += dy * value(k, d.x, t * s.in + i % s.in);
            bias += dy;
        }
        expect_near(dweight[i], (double)had[i] + 2 * sum, (double)s.n + 2, 1e-6, "dweight", i);
        expect_near(dbias[i / s.in], (double)had_bias[i / s.in] + bias, (double)s.n + 2, 1e-6, "dbias", i);
    }
    FREE(dweight, had, dbias, had_bias);
    data_free(&d);
}

static void check_layers(const struct kernels *k)
{
    for (size_t i = 0; i < COUNT(shapes); i++) {
        check_forward(k, shapes[i], true);
        check_forward(k, shapes[i], false);
        check_gelu(k, shapes[i]);
        check_backward(k, shapes[i]);
        check_weights(k, shapes[i]);
    }
}
TYPED_TEST(layers_match_double_and_their_steps, check_layers)

/* ---- the residual stream ---- */

struct stream {
    size_t n, c;
    act *in, *x, *bias, *weight, *shift;
};

/* sum and norm, each step by its own function */
static void by_steps(const struct kernels *k, const struct stream *s, act *sum, const act *bias,
                     const struct kernel_dropout *drop, const struct kernel_norm *norm)
{
    act *added = act_copy(k, s->x, s->n * s->c);
    if (bias)
        k->bias_forward(added, added, bias, s->n, s->c);
    k->dropout(added, added, drop, s->n, s->c);
    k->copy(sum, s->in, s->n * s->c * k->act_size);
    k->add(sum, added, s->n * s->c);
    if (norm && norm->bias)
        k->layernorm_forward(norm->out, norm->mean, norm->rstd, sum, norm->weight, norm->bias, norm->eps,
                             s->n, s->c);
    else if (norm)
        k->rmsnorm_forward(norm->out, norm->rstd, sum, norm->weight, norm->eps, s->n, s->c);
    free(added);
}

/* Room for a norm's results: (N,C), (N), (N) */
static struct kernel_norm norm_new(const struct kernels *k, const struct stream *s, bool layer)
{
    return (struct kernel_norm){.weight = s->weight,
                                .bias = layer ? s->shift : NULL,
                                .eps = (real)1e-5,
                                .out = act_random(k, s->n * s->c, NAN),
                                .mean = layer ? random_new(s->n, NAN) : NULL,
                                .rstd = random_new(s->n, NAN)};
}

static void expect_same_norm(const struct kernels *k, const struct stream *s, struct kernel_norm *a,
                             struct kernel_norm *b)
{
    assert_memory_equal(a->out, b->out, s->n * s->c * k->act_size);
    assert_memory_equal(a->rstd, b->rstd, s->n * sizeof(real));
    if (a->mean)
        assert_memory_equal(a->mean, b->mean, s->n * sizeof(real));
    FREE(a->out, a->mean, a->rstd, b->out, b->mean, b->rstd);
}

static void check_join(const struct kernels *k, const struct stream *s, bool bias, double rate, int norms)
{
    uint64_t rows[64];
    size_t count = s->n * s->c;
    for (size_t i = 0; i < COUNT(rows); i++)
        rows[i] = 77 * i;
    struct kernel_dropout drop = {rate, 99, rows};
    const act *b = bias ? s->bias : NULL;
    act *sum = act_random(k, count, NAN), *expected = act_random(k, count, NAN),
        *in = act_copy(k, s->in, count), *x = act_copy(k, s->x, count);
    struct kernel_norm got = norm_new(k, s, norms == 1), want = norm_new(k, s, norms == 1);
    by_steps(k, s, expected, b, &drop, norms ? &want : NULL);
    k->residual_forward(sum, s->in, s->x, b, rate > 0 ? &drop : NULL, norms ? &got : NULL, s->n, s->c);
    k->residual_forward(in, in, s->x, b, &drop, NULL, s->n, s->c); /* where one of the two lies */
    k->residual_forward(x, s->in, x, b, &drop, NULL, s->n, s->c);
    assert_memory_equal(sum, expected, count * k->act_size);
    assert_memory_equal(in, expected, count * k->act_size);
    assert_memory_equal(x, expected, count * k->act_size);
    if (norms)
        expect_same_norm(k, s, &got, &want);
    else
        FREE(got.out, got.mean, got.rstd, want.out, want.mean, want.rstd);
    FREE(sum, expected, in, x);
}

static void check_stream(const struct kernels *k)
{
    static const size_t sizes[][2] = {{0, 5}, {1, 1}, {3, 17}, {40, 501}};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        size_t n = sizes[i][0], c = sizes[i][1];
        struct stream s = {n,
                           c,
                           act_random(k, n * c, 1),
                           act_random(k, n * c, 1),
                           act_random(k, c, 1),
                           act_random(k, c, 1),
                           act_random(k, c, 1)};
        for (int way = 0; way < 12; way++)
            check_join(k, &s, way & 1, way & 2 ? 0.3 : 0, way / 4);
        FREE(s.in, s.x, s.bias, s.weight, s.shift);
    }
}
TYPED_TEST(the_stream_gets_what_the_steps_give, check_stream)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers_match_double_and_their_steps),
                                       cmocka_unit_test(the_stream_gets_what_the_steps_give)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
