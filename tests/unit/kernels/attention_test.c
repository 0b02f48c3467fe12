/* Attention and rotary positions against plain loops in double. Contexts reach past the tiles of the implementation (64 rows, 256 keys). */
#include "tests/unit/kernels/near.h"

static const struct kernel_heads shapes[] = {
    /* batch, context, heads, kv_heads, size, stride */
    {1, 1, 1, 1, 1, 3},     {3, 7, 3, 3, 8, 72},    {2, 65, 4, 2, 6, 48},
    {1, 64, 2, 1, 64, 256}, {1, 300, 3, 1, 16, 80}, {1, 513, 2, 2, 10, 60},
};

struct data {
    const struct kernel_heads *s;
    float *qkv, *dqkv, *out, *dout, *lse;
    size_t k, v; /* where keys and values begin in a row */
};

static struct data data_new(const struct kernel_heads *s, double size)
{
    size_t n = s->batch * s->context;
    struct data d = {s, .qkv = random_new(n * s->stride, size), .k = s->heads * s->size};
    d.v = d.k + s->kv_heads * s->size;
    d.dqkv = random_new(n * s->stride, 1);
    d.out = random_new(n * d.k, 1);
    d.dout = random_new(n * d.k, 1);
    d.lse = random_new(s->heads * n, 1);
    d.out[0] = d.dqkv[0] = NAN; /* overwritten */
    kernel_attention_forward(d.out, d.lse, d.qkv, d.qkv + d.k, d.qkv + d.v, s);
    kernel_attention_backward(d.dqkv, d.dqkv + d.k, d.dqkv + d.v, d.dout, d.out, d.lse, d.qkv, d.qkv + d.k,
                              d.qkv + d.v, s);
    return d;
}

static void data_free(struct data *d)
{
    float *all[] = {d->qkv, d->dqkv, d->out, d->dout, d->lse};
    for (size_t i = 0; i < COUNT(all); i++)
        free(all[i]);
}

static double dot(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* The probabilities of query t of one head (q, k at the sequence's first token). */
static void probabilities(const struct kernel_heads *s, const float *q, const float *k, size_t t, double *p)
{
    double most = -INFINITY, sum = 0;
    for (size_t u = 0; u <= t; u++) {
        p[u] = dot(q + t * s->stride, k + u * s->stride, s->size) / sqrt((double)s->size);
        most = fmax(most, p[u]);
    }
    for (size_t u = 0; u <= t; u++)
        sum += p[u] = exp(p[u] - most);
    for (size_t u = 0; u <= t; u++)
        p[u] /= sum;
}

/* Adds one query's part to the reference gradients (laid out as qkv) and checks its output. */
static void check_query(const struct data *d, size_t b, size_t h, size_t t, double *p, double *reference)
{
    const struct kernel_heads *s = d->s;
    size_t first = b * s->context * s->stride, group = h / (s->heads / s->kv_heads) * s->size;
    size_t q = first + h * s->size, k = first + d->k + group, v = first + d->v + group;
    size_t out = (b * s->context + t) * d->k + h * s->size;
    double scale = 1 / sqrt((double)s->size), delta = 0;
    probabilities(s, d->qkv + q, d->qkv + k, t, p);
    for (size_t j = 0; j < s->size; j++) {
        double y = 0;
        for (size_t u = 0; u <= t; u++)
            y += p[u] * (double)d->qkv[v + u * s->stride + j];
        expect_near(d->out[out + j], y, 1, 1e-5, "out", out + j);
        delta += y * (double)d->dout[out + j];
    }
    for (size_t u = 0; u <= t; u++) {
        double ds = p[u] * (dot(d->dout + out, d->qkv + v + u * s->stride, s->size) - delta) * scale;
        for (size_t j = 0; j < s->size; j++) {
            reference[q + t * s->stride + j] += ds * (double)d->qkv[k + u * s->stride + j];
            reference[k + u * s->stride + j] += ds * (double)d->qkv[q + t * s->stride + j];
            reference[v + u * s->stride + j] += p[u] * (double)d->dout[out + j];
        }
    }
}

static void check(const struct kernel_heads *s, double size)
{
    struct data d = data_new(s, size);
    size_t count = s->batch * s->context * s->stride;
    double *reference = calloc(count, sizeof *reference), *p = calloc(s->context, sizeof *p);
    for (size_t i = 0; i < s->batch * s->heads * s->context; i++)
        check_query(&d, i / s->context / s->heads, i / s->context % s->heads, i % s->context, p, reference);
    for (size_t i = 0; i < count; i++)
        expect_near(d.dqkv[i], reference[i], 1 + fabs(reference[i]), 3e-5 * fmax(1, size), "dqkv", i);
    free(reference);
    free(p);
    data_free(&d);
}

static void attention_matches_double(void **state)
{
    (void)state;
    srand48(4);
    for (size_t i = 0; i < COUNT(shapes); i++)
        check(&shapes[i], 1);
}

/* Scores far apart: the running maximum moves by more than e^x can hold. */
static void large_scores_stay_finite(void **state)
{
    (void)state;
    struct data d = data_new(&shapes[4], 100);
    assert_true(kernel_all_finite(d.out, 300 * d.k) && kernel_all_finite(d.dqkv, 300 * d.s->stride));
    data_free(&d);
}

static void nan_reaches_later_tokens_only(void **state)
{
    (void)state;
    const struct kernel_heads *s = &shapes[4];
    struct data d = data_new(s, 1);
    d.qkv[100 * s->stride + d.k] = NAN; /* key of token 100 */
    kernel_attention_forward(d.out, d.lse, d.qkv, d.qkv + d.k, d.qkv + d.v, s);
    assert_true(kernel_all_finite(d.out, 100 * d.k));
    for (size_t t = 100; t < s->context; t++)
        assert_true(isnan(d.out[t * d.k]));
    data_free(&d);
}

static void runs_agree_bit_by_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(shapes); i++) {
        size_t count = shapes[i].batch * shapes[i].context * shapes[i].stride;
        srand48(5);
        struct data a = data_new(&shapes[i], 1);
        srand48(5);
        struct data b = data_new(&shapes[i], 1);
        assert_memory_equal(a.dqkv, b.dqkv, count * sizeof(float));
        data_free(&a);
        data_free(&b);
    }
}

static void rope_turns_halves(void **state)
{
    (void)state;
    const struct kernel_heads s = {2, 9, 3, 1, 10, 53};
    size_t half = s.size / 2, n = s.batch * s.context, heads = 4;
    float *x = random_new(n * s.stride, 1), *y = copy_new(x, n * s.stride), *cosine = random_new(9 * half, 1),
          *sine = random_new(9 * half, 1);
    kernel_rope_tables(cosine, sine, 10000, s.context, s.size);
    kernel_rope(y, cosine, sine, false, heads, &s);
    for (size_t i = 0; i < n * s.stride; i++) {
        size_t t = i / s.stride % s.context, at = i % s.stride, j = at % s.size;
        if (at >= heads * s.size) {
            assert_true(y[i] == x[i]);
            continue;
        }
        double angle = (double)t * pow(10000, -2.0 * (double)(j % half) / (double)s.size);
        double other = j < half ? -(double)x[i + half] : (double)x[i - half];
        expect_near(y[i], (double)x[i] * cos(angle) + other * sin(angle), 1, 1e-6, "rope", i);
    }
    kernel_rope(y, cosine, sine, true, heads, &s);
    for (size_t i = 0; i < n * s.stride; i++)
        expect_near(y[i], (double)x[i], 1, 1e-6, "rope and back", i);
    free(x);
    free(y);
    free(cosine);
    free(sine);
}

int main(void)
{
    struct err err;
    if (kernel_open(&err) != 0) {
        print_error("%s\n", err.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_matches_double), cmocka_unit_test(large_scores_stay_finite),
        cmocka_unit_test(nan_reaches_later_tokens_only), cmocka_unit_test(runs_agree_bit_by_bit),
        cmocka_unit_test(rope_turns_halves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
