/* Every kernel with a backward pass, in double: its gradients against finite differences of its own forward pass. A kernel is a row of the
 * table below: named arrays, which it reads from `x` and whose gradients it leaves in `dx`, and a number that depends on them all. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/kernels.h"

#define COUNT(a)  (sizeof(a) / sizeof((a)[0]))
#define STEP      1e-3
#define TOLERANCE 1e-8
#define ARRAYS    5
#define MOST      6000 /* elements of the longest array */

static const struct kernels *k;

/* weights of the outputs in the number, and outputs */
static real weight[MOST], out[MOST], lse[MOST], other[MOST];

static act *acts(real *x)
{
    return (act *)(void *)x;
}

static double weighted(size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += weight[i] * out[i];
    return sum;
}

typedef double forward_fn(real *const *x);
typedef void backward_fn(real *const *dx, real *const *x);

/* ---- norms, activations ---- */

enum { N = 5, C = 19 };

static double layernorm(real *const *x)
{
    k->layernorm_forward(acts(out), lse, other, acts(x[0]), acts(x[1]), acts(x[2]), 1e-5, N, C);
    return weighted(N * C);
}
static void layernorm_back(real *const *dx, real *const *x)
{
    k->layernorm_backward(acts(dx[0]), dx[1], dx[2], acts(weight), acts(x[0]), acts(x[1]), lse, other, N, C);
}

static double rmsnorm(real *const *x)
{
    k->rmsnorm_forward(acts(out), lse, acts(x[0]), acts(x[1]), 1e-5, N, C);
    return weighted(N * C);
}
static void rmsnorm_back(real *const *dx, real *const *x)
{
    k->rmsnorm_backward(acts(dx[0]), dx[1], acts(weight), acts(x[0]), acts(x[1]), lse, N, C);
}

static double gelu(real *const *x)
{
    k->gelu_forward(acts(out), acts(x[0]), N * C);
    return weighted(N * C);
}
static void gelu_back(real *const *dx, real *const *x)
{
    k->gelu_backward(acts(dx[0]), acts(weight), acts(x[0]), N * C);
}

static double swiglu(real *const *x)
{
    k->swiglu_forward(acts(out), acts(x[0]), N, C);
    return weighted(N * C);
}
static void swiglu_back(real *const *dx, real *const *x)
{
    k->swiglu_backward(acts(dx[0]), acts(weight), acts(x[0]), N, C);
}

/* dropout and rotary positions are linear: the backward pass is the same function of the gradient, or turns back */
static const uint64_t ids[] = {7, 1000, 12, 5, 6};
static const int32_t positions[] = {0, 3, 1, 2, 3};

static double dropout(real *const *x)
{
    k->dropout(acts(out), acts(x[0]), &(struct kernel_dropout){0.4, 3, ids}, N, C);
    return weighted(N * C);
}
static void dropout_back(real *const *dx, real *const *x)
{
    (void)x;
    k->dropout(acts(dx[0]), acts(weight), &(struct kernel_dropout){0.4, 3, ids}, N, C);
}

static double rope(real *const *x)
{
    real cosine[4 * 3], sine[4 * 3];
    kernel_rope_tables(cosine, sine, 100, 4, 6);
    memcpy(out, x[0], sizeof(real) * N * C);
    k->rope(acts(out), cosine, sine, positions, false, 3, 6, C, N);
    return weighted(N * C);
}
static void rope_back(real *const *dx, real *const *x)
{
    (void)x;
    real cosine[4 * 3], sine[4 * 3];
    kernel_rope_tables(cosine, sine, 100, 4, 6);
    memcpy(dx[0], weight, sizeof(real) * N * C);
    k->rope(acts(dx[0]), cosine, sine, positions, true, 3, 6, C, N);
}

/* ---- linear layers: x (N,C), weight (OUT,C), bias (OUT); what the stream had (N,OUT) ---- */

enum { OUT = 7 };

static struct kernel_linear layer_of(real *const *x)
{
    return (struct kernel_linear){acts(x[1]), acts(x[2]), C, OUT, NULL};
}

static double linear(real *const *x)
{
    struct kernel_linear l = layer_of(x);
    k->linear_forward(acts(out), acts(x[3]), acts(x[0]), &l, N);
    return weighted(N * OUT);
}
static void linear_back(real *const *dx, real *const *x)
{
    struct kernel_linear l = layer_of(x);
    k->linear_backward(acts(dx[0]), false, acts(weight), &l, N);
    k->linear_weights(dx[1], dx[2], acts(weight), acts(x[0]), &l, N);
    memcpy(dx[3], weight, sizeof(real) * N * OUT);
}

/* two layers with GELU between them: x (N,C), up (OUT,C) and its bias, down (C,OUT) */
static double linear_gelu(real *const *x)
{
    struct kernel_linear up = layer_of(x), down = {acts(x[3]), NULL, OUT, C, NULL};
    k->linear_gelu_forward(acts(lse), acts(other), acts(x[0]), &up, N);
    k->linear_forward(acts(out), NULL, acts(lse), &down, N);
    return weighted(N * C);
}
static void linear_gelu_back(real *const *dx, real *const *x)
{
    struct kernel_linear up = layer_of(x), down = {acts(x[3]), NULL, OUT, C, NULL};
    real dbefore[N * OUT];
    k->linear_weights(dx[3], NULL, acts(weight), acts(lse), &down, N);
    k->linear_gelu_backward(acts(dbefore), acts(weight), acts(other), &down, N);
    k->linear_weights(dx[1], dx[2], acts(dbefore), acts(x[0]), &up, N);
    k->linear_backward(acts(dx[0]), true, acts(dbefore), &up, N);
}

/* in + dropped (x + bias) */
static double residual(real *const *x)
{
    k->residual_forward(acts(out), acts(x[0]), acts(x[1]), acts(x[2]), &(struct kernel_dropout){0.4, 3, ids},
                        NULL, N, C);
    return weighted(N * C);
}
static void residual_back(real *const *dx, real *const *x)
{
    (void)x;
    memcpy(dx[0], weight, sizeof(real) * N * C);
    k->dropout(acts(dx[1]), acts(weight), &(struct kernel_dropout){0.4, 3, ids}, N, C);
    k->bias_backward(dx[2], acts(dx[1]), N, C);
}

/* ---- loss over a vocabulary in three parts ---- */

enum { WORDS = 19 };
static const int32_t targets[] = {3, -1, 18, 0, 7};
static const size_t cuts[] = {0, 5, 6, WORDS};

static double cross_entropy(real *const *x)
{
    real all[6 * N];
    for (size_t p = 0; p < 3; p++)
        k->cross_entropy_local(all + 2 * p * N, all + (2 * p + 1) * N, x[0] + cuts[p], targets,
                               (int32_t)cuts[p], N, cuts[p + 1] - cuts[p], WORDS);
    double sum = 0;
    k->cross_entropy_combine(&sum, out, lse, all, targets, 3, N);
    return sum;
}
static void cross_entropy_back(real *const *dx, real *const *x)
{
    for (size_t p = 0; p < 3; p++) {
        size_t v = cuts[p + 1] - cuts[p];
        k->cross_entropy_backward(acts(out), v, x[0] + cuts[p], WORDS, lse, targets, (int32_t)cuts[p], 1, N,
                                  v);
        for (size_t i = 0; i < N * v; i++)
            dx[0][i / v * WORDS + cuts[p] + i % v] = out[i];
    }
}

/* ---- mixture of experts ---- */

enum { EXPERTS = 6, TOP = 2 };
static int32_t experts[N * TOP];
static const int32_t slots[N * TOP] = {4, 0, 7, -1, 2, 3, 1, 9, -1, 6};
static bool normalise;

/* the weights, the probabilities (weighted by what follows) and the z-loss at once */
static double router(real *const *x)
{
    double sum = 0;
    k->router_forward(other, out, experts, lse, x[0], normalise, N, EXPERTS, TOP);
    for (size_t i = 0; i < N * EXPERTS; i++)
        sum += weight[N * TOP + i] * other[i];
    for (size_t i = 0; i < N; i++)
        sum += 0.05 * lse[i] * lse[i];
    return sum + weighted(N * TOP);
}
static void router_back(real *const *dx, real *const *x)
{
    (void)x;
    k->router_backward(dx[0], weight, weight + N * TOP, other, out, experts, lse, 0.05, normalise, N, EXPERTS,
                       TOP);
}

static double combine(real *const *x)
{
    k->rows_combine(acts(out), false, acts(x[0]), slots, x[1], N, TOP, C);
    return weighted(N * C);
}
static void combine_back(real *const *dx, real *const *x)
{
    k->rows_combine_backward(acts(dx[0]), dx[1], acts(weight), acts(x[0]), slots, x[1], N, TOP, C);
}

/* ---- attention: some keys in a block before, then a causal block; two query heads share a key head; dropout ---- */

enum { B = 2, QUERIES = 9, KEYS = 30, BEFORE = 13, HEADS = 4, KV_HEADS = 2, SIZE = 5 };
static const uint64_t rows[] = {100, 9000};
static const struct kernel_dropout drop = {0.2, 17, rows};
static struct kernel_attention shape;

static struct kernel_attention shape_of(bool first)
{
    struct kernel_attention s = shape;
    s.keys = first ? BEFORE : KEYS - BEFORE;
    s.causal = !first;
    s.k_position = first ? 0 : BEFORE;
    return s;
}

static double attention(real *const *x)
{
    size_t skip = BEFORE * shape.kv_stride;
    struct kernel_attention first = shape_of(true), second = shape_of(false);
    k->attention_forward(out, lse, true, acts(x[0]), acts(x[1]), acts(x[2]), &first);
    k->attention_forward(out, lse, false, acts(x[0]), acts(x[1] + skip), acts(x[2] + skip), &second);
    return weighted((size_t)B * QUERIES * HEADS * SIZE);
}
static void attention_back(real *const *dx, real *const *x)
{
    size_t skip = BEFORE * shape.kv_stride;
    struct kernel_attention first = shape_of(true), second = shape_of(false);
    k->attention_backward(dx[0], dx[1], dx[2], acts(weight), acts(out), lse, acts(x[0]), acts(x[1]),
                          acts(x[2]), &first);
    k->attention_backward(dx[0], dx[1] + skip, dx[2] + skip, acts(weight), acts(out), lse, acts(x[0]),
                          acts(x[1] + skip), acts(x[2] + skip), &second);
}

/* ---- the check ---- */

struct row {
    const char *name;
    forward_fn *forward;
    backward_fn *backward;
    size_t counts[ARRAYS]; /* of each array; 0 after the last */
};
static const struct row table[] = {
    {"layernorm", layernorm, layernorm_back, {N * C, C, C}},
    {"rmsnorm", rmsnorm, rmsnorm_back, {N * C, C}},
    {"gelu", gelu, gelu_back, {N * C}},
    {"swiglu", swiglu, swiglu_back, {N * 2 * C}},
    {"dropout", dropout, dropout_back, {N * C}},
    {"rope", rope, rope_back, {N * C}},
    {"linear", linear, linear_back, {N * C, OUT *C, OUT, N *OUT}},
    {"linear with GELU", linear_gelu, linear_gelu_back, {N * C, OUT *C, OUT, C *OUT}},
    {"residual", residual, residual_back, {N * C, N *C, C}},
    {"cross entropy in 3 parts", cross_entropy, cross_entropy_back, {N * WORDS}},
    {"router", router, router_back, {N * EXPERTS}},
    {"combined rows", combine, combine_back, {10 * C, N *TOP}},
    {"attention in 2 blocks",
     attention,
     attention_back,
     {B * QUERIES * HEADS * SIZE, B *KEYS *KV_HEADS *SIZE, B *KEYS *KV_HEADS *SIZE}},
};

static double slope(const struct row *r, real *const *x, real *at)
{
    static const double steps[] = {-2, -1, 1, 2}, share[] = {1, -8, 8, -1};
    double sum = 0;
    real kept = *at;
    for (size_t i = 0; i < COUNT(steps); i++) {
        *at = kept + steps[i] * STEP;
        sum += share[i] * r->forward(x);
    }
    *at = kept;
    return sum / (12 * STEP);
}

static void fill(real *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = 2 * drand48() - 1;
}

static void check(const struct row *r)
{
    real *x[ARRAYS] = {0}, *dx[ARRAYS] = {0};
    fill(weight, MOST);
    for (size_t a = 0; a < ARRAYS && r->counts[a]; a++) {
        x[a] = calloc(r->counts[a], sizeof(real));
        dx[a] = calloc(r->counts[a], sizeof(real));
        fill(x[a], r->counts[a]);
    }
    r->forward(x);
    r->backward(dx, x);
    for (size_t a = 0; a < ARRAYS && r->counts[a]; a++) {
        for (size_t i = 0; i < r->counts[a]; i++) {
            double measured = slope(r, x, x[a] + i), size = fmax(1, fabs(measured));
            if (!(fabs(dx[a][i] - measured) <= TOLERANCE * size))
                fail_msg("%s: array %zu[%zu]: gradient %.12g, measured %.12g", r->name, a, i, dx[a][i],
                         measured);
        }
    }
    for (size_t a = 0; a < ARRAYS; a++) {
        free(x[a]);
        free(dx[a]);
    }
}

static void gradients_match_differences(void **state)
{
    (void)state;
    srand48(13);
    shape = (struct kernel_attention){.batch = B,
                                      .queries = QUERIES,
                                      .heads = HEADS,
                                      .kv_heads = KV_HEADS,
                                      .size = SIZE,
                                      .q_stride = HEADS * SIZE,
                                      .q_batch = QUERIES * HEADS * SIZE,
                                      .kv_stride = KV_HEADS * SIZE,
                                      .kv_batch = KEYS * KV_HEADS * SIZE,
                                      .out_stride = HEADS * SIZE,
                                      .out_batch = QUERIES * HEADS * SIZE,
                                      .lse_stride = QUERIES,
                                      .dropout = &drop,
                                      .q_position = KEYS - QUERIES};
    for (size_t i = 0; i < 2 * COUNT(table); i++) {
        normalise = i < COUNT(table);
        check(&table[i % COUNT(table)]);
    }
}

static void there_is_no_bf16_in_double(void **state)
{
    (void)state;
    struct err err;
    assert_null(kernels_cpu(KERNEL_BF16, &err));
    assert_non_null(strstr(err.text, "bf16"));
}

int main(void)
{
    struct err err;
    k = kernels_cpu(KERNEL_FP32, &err);
    if (!k) {
        print_error("%s\n", err.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_match_differences),
                                       cmocka_unit_test(there_is_no_bf16_in_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
