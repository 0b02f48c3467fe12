/* Attention and rotary positions against plain loops in double: contexts past the tiles of the implementation, keys in blocks, keys kept from
 * before, dropout, several lengths between rows. */
#include <omp.h>

#include "kernels/cpu/hash.h"
#include "tests/unit/kernels/near.h"

struct shape {
    size_t batch, queries, keys, heads, kv_heads, size;
    bool causal;
    double dropout;
};

static const struct shape shapes[] = {
    {1, 1, 1, 1, 1, 1, true, 0},       {3, 7, 7, 3, 3, 8, true, 0},      {2, 65, 65, 4, 2, 6, true, 0.3},
    {1, 64, 64, 2, 1, 64, true, 0},    {1, 300, 300, 3, 1, 16, true, 0}, {1, 513, 513, 2, 2, 10, true, 0.1},
    {2, 1, 37, 4, 2, 16, true, 0},     {1, 1, 700, 2, 1, 64, true, 0},   {2, 5, 300, 2, 2, 17, true, 0.5},
    {1, 130, 70, 2, 1, 9, false, 0.2}, {1, 33, 600, 2, 2, 80, false, 0}, {2, 40, 20, 2, 1, 12, true, 0.2},
    {1, 129, 129, 2, 1, 128, true, 0}, {1, 200, 200, 2, 2, 33, true, 0},
};

/* q, k and v lie side by side in rows of one array when there are as many queries as keys; otherwise alone. */
struct data {
    const struct kernels *kernels;
    const struct shape *s;
    struct kernel_dropout dropout;
    struct kernel_attention call;
    uint64_t rows[3];
    act *q, *k, *v, *dout, *rounded; /* rounded: out as act */
    real *out, *lse, *dq, *dk, *dv;
    size_t q_count, kv_count, out_count;
};

static void data_begin(struct data *d, const struct kernels *k, const struct shape *s)
{
    *d = (struct data){.kernels = k, .s = s, .rows = {1000, 77, (uint64_t)1 << 40}};
    d->dropout = (struct kernel_dropout){s->dropout, 99, d->rows};
    d->call =
        (struct kernel_attention){.batch = s->batch,
                                  .queries = s->queries,
                                  .keys = s->keys,
                                  .heads = s->heads,
                                  .kv_heads = s->kv_heads,
                                  .size = s->size,
                                  .q_stride = s->heads * s->size + 3,
                                  .kv_stride = s->kv_heads * s->size + 5,
                                  .out_stride = s->heads * s->size + 2,
                                  .lse_stride = s->queries + 1,
                                  .causal = s->causal,
                                  .dropout = s->dropout > 0 ? &d->dropout : NULL,
                                  .q_position = s->causal && s->keys > s->queries ? s->keys - s->queries : 0,
                                  .first_head = 4};
    d->call.q_batch = s->queries * d->call.q_stride + 1;
    d->call.kv_batch = s->keys * d->call.kv_stride + 2;
    d->call.out_batch = s->queries * d->call.out_stride + 3;
    d->q_count = s->batch * d->call.q_batch;
    d->kv_count = s->batch * d->call.kv_batch;
    d->out_count = s->batch * d->call.out_batch;
}

static void data_new(struct data *d, const struct kernels *k, const struct shape *s, double size)
{
    data_begin(d, k, s);
    d->q = act_random(k, d->q_count, size);
    d->k = act_random(k, d->kv_count, size);
    d->v = act_random(k, d->kv_count, size);
    d->dout = act_random(k, d->out_count, 1);
    d->out = random_new(d->out_count, 1);
    d->lse = random_new(s->batch * s->heads * d->call.lse_stride, 1);
    d->rounded = act_random(k, d->out_count, 1);
    d->dq = calloc(d->q_count, sizeof(real));
    d->dk = calloc(d->kv_count, sizeof(real));
    d->dv = calloc(d->kv_count, sizeof(real));
    d->out[0] = NAN; /* overwritten */
}

static void data_free(struct data *d)
{
    FREE(d->q, d->k, d->v, d->dout, d->out, d->lse, d->rounded, d->dq, d->dk, d->dv);
}

/* One call for keys [from, to): those before are another block's. A causal call's keys end with its queries, so only the last block may be
 * causal, and then it must reach back over all its queries' own positions. */
static struct kernel_attention block_of(const struct data *d, size_t from, size_t to)
{
    struct kernel_attention call = d->call;
    call.keys = to - from;
    call.k_position = from;
    call.causal = d->s->causal && to == d->s->keys;
    return call;
}

static void forward(struct data *d, size_t from, size_t to)
{
    const struct kernels *k = d->kernels;
    struct kernel_attention call = block_of(d, from, to);
    size_t skip = from * call.kv_stride;
    k->attention_forward(d->out, d->lse, from == 0, d->q, act_in(k, d->k, skip), act_in(k, d->v, skip),
                         &call);
}

static void backward(struct data *d, size_t from, size_t to)
{
    const struct kernels *k = d->kernels;
    struct kernel_attention call = block_of(d, from, to);
    size_t skip = from * call.kv_stride;
    k->act_from_real(d->rounded, d->out, d->out_count);
    k->attention_backward(d->dq, d->dk + skip, d->dv + skip, d->dout, d->rounded, d->lse, d->q,
                          act_in(k, d->k, skip), act_in(k, d->v, skip), &call);
}

/* Where the arrays of one query's head begin. */
struct place {
    size_t b, head, t, q, kv, out, seen;
};

static struct place place_of(const struct data *d, size_t i)
{
    const struct shape *s = d->s;
    struct place p = {i / s->queries / s->heads, i / s->queries % s->heads, i % s->queries, 0, 0, 0, s->keys};
    p.q = p.b * d->call.q_batch + p.t * d->call.q_stride + p.head * s->size;
    p.kv = p.b * d->call.kv_batch + p.head / (s->heads / s->kv_heads) * s->size;
    p.out = p.b * d->call.out_batch + p.t * d->call.out_stride + p.head * s->size;
    if (s->causal)
        p.seen = p.t + 1 + s->keys > s->queries ? p.t + 1 + s->keys - s->queries : 0;
    return p;
}

static double dot(const struct kernels *k, const act *a, size_t i, const act *b, size_t j, size_t n)
{
    double sum = 0;
    for (size_t c = 0; c < n; c++)
        sum += value(k, a, i + c) * value(k, b, j + c);
    return sum;
}

/* p (seen): probabilities; returns the logarithm of the denominator */
static double probabilities(const struct data *d, const struct place *at, double *p)
{
    double most = -INFINITY, sum = 0;
    for (size_t u = 0; u < at->seen; u++) {
        p[u] = dot(d->kernels, d->q, at->q, d->k, at->kv + u * d->call.kv_stride, d->s->size) /
               sqrt((double)d->s->size);
        most = fmax(most, p[u]);
    }
    for (size_t u = 0; u < at->seen; u++)
        sum += p[u] = exp(p[u] - most);
    for (size_t u = 0; u < at->seen; u++)
        p[u] /= sum;
    return most + log(sum);
}

/* 0 or 1/(1-rate), by the formula of kernels.h */
static double mask(const struct data *d, const struct place *at, size_t u)
{
    if (!d->call.dropout)
        return 1;
    uint64_t key = hash_head(d->dropout.key, d->call.first_head + at->head);
    uint64_t row = hash_row(key, d->rows[at->b] + d->call.q_position + at->t);
    bool kept =
        hash_column((uint32_t)row, (uint32_t)(row >> 32), (uint32_t)u) >= hash_threshold(d->dropout.rate);
    return kept ? 1 / (1 - d->dropout.rate) : 0;
}

static void check_outputs(const struct data *d, const struct place *at, const double *p, double *y)
{
    const struct shape *s = d->s;
    for (size_t j = 0; j < s->size; j++) {
        y[j] = 0;
        for (size_t u = 0; u < at->seen; u++)
            y[j] += p[u] * mask(d, at, u) * value(d->kernels, d->v, at->kv + u * d->call.kv_stride + j);
        expect_near(d->out[at->out + j], y[j], 1, 1e-5, "out", at->out + j);
    }
}

struct reference {
    double *q, *k, *v;
};

/* Adds one query's part to the reference gradients. They come from out as it is stored, like the kernel's: bf16 rounds it. */
static void add_gradients(const struct data *d, const struct place *at, const double *p, struct reference *g)
{
    const struct kernels *k = d->kernels;
    size_t size = d->s->size;
    double scale = 1 / sqrt((double)size), delta = dot(k, d->dout, at->out, d->rounded, at->out, size);
    for (size_t u = 0; u < at->seen; u++) {
        size_t kv = at->kv + u * d->call.kv_stride;
        double m = mask(d, at, u), dp = m * dot(k, d->dout, at->out, d->v, kv, size);
        double ds = p[u] * (dp - delta) * scale;
        for (size_t j = 0; j < size; j++) {
            g->q[at->q + j] += ds * value(k, d->k, kv + j);
            g->k[kv + j] += ds * value(k, d->q, at->q + j);
            g->v[kv + j] += p[u] * m * value(k, d->dout, at->out + j);
        }
    }
}

static void expect_all(const real *x, const double *expected, size_t count, double tolerance,
                       const char *what)
{
    for (size_t i = 0; i < count; i++)
        expect_near(x[i], expected[i], 1 + fabs(expected[i]), tolerance, what, i);
}

static void check_results(struct data *d, double tolerance)
{
    const struct shape *s = d->s;
    double *p = calloc(s->keys, sizeof *p), *y = calloc(s->size, sizeof *y);
    struct reference g = {calloc(d->q_count, sizeof(double)), calloc(d->kv_count, sizeof(double)),
                          calloc(d->kv_count, sizeof(double))};
    for (size_t i = 0; i < s->batch * s->heads * s->queries; i++) {
        struct place at = place_of(d, i);
        double lse = probabilities(d, &at, p);
        real found = d->lse[(at.b * s->heads + at.head) * d->call.lse_stride + at.t];
        if (at.seen == 0)
            assert_true(found == -INFINITY);
        else
            expect_near(found, lse, 1 + fabs(lse), 2e-6, "lse", i);
        check_outputs(d, &at, p, y);
        add_gradients(d, &at, p, &g);
    }
    expect_all(d->dq, g.q, d->q_count, tolerance, "dq");
    expect_all(d->dk, g.k, d->kv_count, tolerance, "dk");
    expect_all(d->dv, g.v, d->kv_count, tolerance, "dv");
    FREE(p, y, g.q, g.k, g.v);
}

static void check_whole(const struct kernels *k)
{
    for (size_t i = 0; i < COUNT(shapes); i++) {
        struct data d;
        data_new(&d, k, &shapes[i], 1);
        forward(&d, 0, d.s->keys);
        backward(&d, 0, d.s->keys);
        check_results(&d, 3e-5);
        data_free(&d);
    }
}
TYPED_TEST(attention_matches_double, check_whole)

/* The keys before the queries' own in blocks: the same as all at once. */
static void check_blocks(const struct kernels *k)
{
    static const size_t cuts[][3] = {{0, 1, 2}, {0, 100, 257}, {0, 270, 280}};
    static const struct shape s[] = {
        {2, 3, 9, 2, 1, 8, true, 0.3}, {1, 20, 300, 2, 2, 16, true, 0.2}, {1, 65, 700, 2, 1, 32, false, 0}};
    for (size_t i = 0; i < COUNT(s); i++) {
        struct data d;
        data_new(&d, k, &s[i], 1);
        for (size_t j = 0; j < 3; j++)
            forward(&d, cuts[i][j], j < 2 ? cuts[i][j + 1] : s[i].keys);
        for (size_t j = 0; j < 3; j++)
            backward(&d, cuts[i][j], j < 2 ? cuts[i][j + 1] : s[i].keys);
        check_results(&d, 3e-5);
        data_free(&d);
    }
}
TYPED_TEST(blocks_of_keys_add_up, check_blocks)

/* A first block of which no query sees anything (keys < queries), then one that they see. */
static void check_nothing_seen(const struct kernels *k)
{
    static const struct shape s = {1, 4, 4, 1, 1, 5, true, 0};
    struct data d, whole;
    data_new(&d, k, &s, 1);
    struct kernel_attention call = d.call;
    call.keys = 0;
    k->attention_forward(d.out, d.lse, true, d.q, d.k, d.v, &call);
    for (size_t t = 0; t < 4; t++)
        assert_true(d.lse[t] == -INFINITY && d.out[t * call.out_stride] == 0);
    k->attention_forward(d.out, d.lse, false, d.q, d.k, d.v, &d.call);
    whole = d;
    whole.out = copy_new(d.out, d.out_count * sizeof(real));
    k->attention_forward(whole.out, d.lse, true, d.q, d.k, d.v, &d.call);
    for (size_t t = 0; t < 4; t++)
        assert_memory_equal(whole.out + t * call.out_stride, d.out + t * call.out_stride, 5 * sizeof(real));
    free(whole.out);
    data_free(&d);
}
TYPED_TEST(a_block_that_nobody_sees_changes_nothing, check_nothing_seen)

/* Gradients are added to what is there. */
static void check_adds(const struct kernels *k)
{
    static const struct shape s = {1, 70, 70, 2, 1, 16, true, 0};
    struct data d;
    data_new(&d, k, &s, 1);
    forward(&d, 0, 70);
    backward(&d, 0, 70);
    real *dq = copy_new(d.dq, d.q_count * sizeof(real)), *dv = copy_new(d.dv, d.kv_count * sizeof(real));
    backward(&d, 0, 70);
    for (size_t i = 0; i < d.q_count; i++)
        expect_near(d.dq[i], 2 * (double)dq[i], 1, 2e-5, "dq twice", i);
    for (size_t i = 0; i < d.kv_count; i++)
        expect_near(d.dv[i], 2 * (double)dv[i], 1, 2e-5, "dv twice", i);
    FREE(dq, dv);
    data_free(&d);
}
TYPED_TEST(gradients_are_added, check_adds)

/* Scores far apart: the running maximum moves by more than e^x can hold. */
static void check_large_scores(const struct kernels *k)
{
    struct data d;
    data_new(&d, k, &shapes[4], 100);
    forward(&d, 0, d.s->keys);
    backward(&d, 0, d.s->keys);
    assert_true(k->all_finite(d.out, d.out_count) && k->all_finite(d.dq, d.q_count) &&
                k->all_finite(d.dk, d.kv_count));
    data_free(&d);
}
TYPED_TEST(large_scores_stay_finite, check_large_scores)

static void check_nan(const struct kernels *k)
{
    struct data d;
    data_new(&d, k, &shapes[4], 1);
    set_value(k, d.k, 100 * d.call.kv_stride, NAN); /* key of token 100 */
    forward(&d, 0, d.s->keys);
    assert_true(k->all_finite(d.out, 100 * d.call.out_stride));
    for (size_t t = 100; t < d.s->queries; t++)
        assert_true(isnan(d.out[t * d.call.out_stride]));
    data_free(&d);
}
TYPED_TEST(nan_reaches_later_tokens_only, check_nan)

/* Each shape with one thread and with three. */
static void check_threads(const struct kernels *k)
{
    int threads = omp_get_max_threads();
    for (size_t i = 0; i < COUNT(shapes); i++) {
        struct data runs[2];
        for (size_t r = 0; r < 2; r++) {
            srand48(5);
            omp_set_num_threads(r ? 3 : 1);
            data_new(&runs[r], k, &shapes[i], 1);
            forward(&runs[r], 0, shapes[i].keys);
            backward(&runs[r], 0, shapes[i].keys);
        }
        assert_memory_equal(runs[0].out, runs[1].out, runs[0].out_count * sizeof(real));
        assert_memory_equal(runs[0].dq, runs[1].dq, runs[0].q_count * sizeof(real));
        assert_memory_equal(runs[0].dk, runs[1].dk, runs[0].kv_count * sizeof(real));
        assert_memory_equal(runs[0].dv, runs[1].dv, runs[0].kv_count * sizeof(real));
        data_free(&runs[0]);
        data_free(&runs[1]);
    }
    omp_set_num_threads(threads);
}
TYPED_TEST(every_thread_count_gives_the_same_bits, check_threads)

static void check_rope(const struct kernels *k)
{
    static const int32_t positions[] = {0, 1, 2, 8, 3, 3, 7, 5, 0, 4};
    size_t size = 10, half = 5, stride = 53, heads = 4, n = COUNT(positions);
    act *x = act_random(k, n * stride, 1), *y = act_copy(k, x, n * stride);
    real *cosine = random_new(9 * half, 1), *sine = random_new(9 * half, 1);
    kernel_rope_tables(cosine, sine, 10000, 9, size);
    k->rope(y, cosine, sine, positions, false, heads, size, stride, n);
    for (size_t i = 0; i < n * stride; i++) {
        size_t at = i % stride, j = at % size;
        double angle = positions[i / stride] * pow(10000, -2.0 * (double)(j % half) / (double)size);
        double expected = value(k, x, i);
        if (at < heads * size)
            expected = expected * cos(angle) +
                       (j < half ? -value(k, x, i + half) : value(k, x, i - half)) * sin(angle);
        expect_act(k, y, i, expected, at < heads * size, 1e-6, "rope");
    }
    k->rope(y, cosine, sine, positions, true, heads, size, stride, n);
    for (size_t i = 0; i < n * stride; i++)
        expect_act(k, y, i, value(k, x, i), 1, k->type == KERNEL_BF16 ? 8e-3 : 1e-6, "rope and back");
    FREE(x, y, cosine, sine);
}
TYPED_TEST(rope_turns_halves, check_rope)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_matches_double),
        cmocka_unit_test(blocks_of_keys_add_up),
        cmocka_unit_test(a_block_that_nobody_sees_changes_nothing),
        cmocka_unit_test(gradients_are_added),
        cmocka_unit_test(large_scores_stay_finite),
        cmocka_unit_test(nan_reaches_later_tokens_only),
        cmocka_unit_test(every_thread_count_gives_the_same_bits),
        cmocka_unit_test(rope_turns_halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
