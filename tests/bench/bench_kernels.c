/* bench_kernels: each kernel at the sizes of a GPT-2 124M step (4096 tokens), in milliseconds and against what bounds it: bytes a second for
 * those that memory feeds, GFLOP/s for those that multiply. The fastest of several runs counts: other programs only ever slow it down.
 *   bench_kernels [fp32|bf16] [word that the names to run contain] */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/kernels.h"

enum { N = 4096, C = 768, F = 3072, V = 50304, B = 4, T = 1024, HEADS = 12, SIZE = 64 };
#define RUNS 12

static const struct kernels *k;
static const char *only = "";
/* every kernel's operands: acts, reals and integers that are large enough for each */
static act *a, *b, *c, *d;
static real *r, *s, *m, *v, *small;
static int32_t *numbers;
static uint64_t *ids;

/* On one thread the thread's own time, which a busy host does not lengthen much. */
static double now_s(void)
{
    struct timespec t;
    clock_gettime(omp_get_max_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* acts and reals: how many of each a call reads and writes; flop: what it computes, where that is its bound */
static void measure(const char *name, void (*call)(void), double acts, double reals, double flop)
{
    if (!strstr(name, only))
        return;
    double best = 1e9;
    for (int i = 0; i < RUNS; i++) {
        double begin = now_s();
        call();
        double took = now_s() - begin;
        best = took < best ? took : best;
    }
    double bytes = acts * (double)k->act_size + reals * sizeof(real);
    printf("%-26s %9.3f ms", name, best * 1e3);
    if (flop > 0)
        printf("  %7.1f GFLOP/s\n", flop / best / 1e9);
    else
        printf("  %7.2f GB/s\n", bytes / best / 1e9);
}

static void copy(void)
{
    k->copy(b, a, (size_t)N * F * k->act_size);
}
static void bias_forward(void)
{
    k->bias_forward(b, b, c, N, F);
}
static void bias_backward(void)
{
    k->bias_backward(small, a, N, F);
}
static void add(void)
{
    k->add(b, a, (size_t)N * C);
}
static void embedding_forward(void)
{
    k->embedding_forward(b, numbers, a, 0, V, N, C);
}
static void embedding_backward(void)
{
    k->embedding_backward(r, b, numbers, 0, V, N, C);
}
static void position_forward(void)
{
    k->position_forward(b, a, numbers, N, C);
}
static void layernorm_forward(void)
{
    k->layernorm_forward(b, small, small + N, a, c, d, 1e-5F, N, C);
}
static void layernorm_backward(void)
{
    k->layernorm_backward(b, m, m + C, c, a, d, small, small + N, N, C);
}
static void rmsnorm_forward(void)
{
    k->rmsnorm_forward(b, small, a, c, 1e-5F, N, C);
}
static void rmsnorm_backward(void)
{
    k->rmsnorm_backward(b, m, c, a, d, small, N, C);
}
static void gelu_forward(void)
{
    k->gelu_forward(b, a, (size_t)N * F);
}
static void gelu_backward(void)
{
    k->gelu_backward(b, b, a, (size_t)N * F);
}
static void swiglu_forward(void)
{
    k->swiglu_forward(b, a, N, F);
}
static void swiglu_backward(void)
{
    k->swiglu_backward(c, b, a, N, F);
}
static void dropout(void)
{
    struct kernel_dropout drop = {0.1, 7, ids};
    k->dropout(b, a, &drop, N, C);
}
static void rope(void)
{
    k->rope(b, small, small + (size_t)T * SIZE, numbers, false, HEADS, SIZE, C, N);
}
static void cross_entropy_local(void)
{
    k->cross_entropy_local(small, small + N, r, numbers, 0, N / 4, V, V);
}
static void cross_entropy_backward(void)
{
    k->cross_entropy_backward((act *)(void *)s, V, r, V, small, numbers, 0, 1e-4F, N / 4, V);
}
static void adamw(void)
{
    struct kernel_adamw config = {1e-3, 0.9, 0.95, 1e-8, 0.1, 1, 10, false, 0, 0};
    k->adamw(r, m, v, s, k->type == KERNEL_BF16 ? a : NULL, (size_t)V * C, &config);
}
static void sum_of_squares(void)
{
    static double sum;
    k->sum_of_squares(&sum, r, (size_t)V * C);
}
static void all_finite(void)
{
    (void)k->all_finite(r, (size_t)V * C);
}
static void rows_gather(void)
{
    k->rows_gather(b, a, numbers, N, C);
}
static void rows_combine(void)
{
    k->rows_combine(b, false, a, numbers, small, N / 2, 2, C);
}

static struct kernel_attention shape(size_t queries, size_t keys)
{
    return (struct kernel_attention){.batch = B,
                                     .queries = queries,
                                     .keys = keys,
                                     .heads = HEADS,
                                     .kv_heads = HEADS,
                                     .size = SIZE,
                                     .q_stride = (size_t)3 * C,
                                     .q_batch = queries * 3 * C,
                                     .kv_stride = (size_t)3 * C,
                                     .kv_batch = keys * 3 * C,
                                     .out_stride = C,
                                     .out_batch = queries * C,
                                     .lse_stride = queries,
                                     .causal = true};
}

static void forward(size_t queries, size_t keys)
{
    struct kernel_attention call = shape(queries, keys);
    k->attention_forward(r, small, true, a, act_in(k, a, C), act_in(k, a, (size_t)2 * C), &call);
}
static void backward(size_t queries, size_t keys)
{
    struct kernel_attention call = shape(queries, keys);
    k->attention_backward(s, s + C, s + (size_t)2 * C, c, b, small, a, act_in(k, a, C),
                          act_in(k, a, (size_t)2 * C), &call);
}
static void attention_forward(void)
{
    forward(T, T);
}
static void attention_backward(void)
{
    forward(T, T);
    k->act_from_real(b, r, (size_t)N * C);
    backward(T, T);
}
static void attention_short(void)
{
    forward(64, 64);
}
static void attention_decode(void)
{
    forward(1, T);
}

static struct {
    size_t m, n, k;
    bool ta, tb;
} product;
static void gemm(void)
{
    k->gemm_real(product.m, product.n, product.k,
                 (struct kernel_matrix){a, product.ta ? product.m : product.k, product.ta},
                 (struct kernel_matrix){b, product.tb ? product.k : product.n, product.tb}, false, r,
                 product.n);
}

static void measure_products(size_t tokens)
{
    static const size_t layers[][2] = {{C, 3 * C}, {C, C}, {C, F}, {F, C}, {C, V}};
    for (size_t i = 0; i < 3 * sizeof layers / sizeof layers[0]; i++) {
        size_t in = layers[i / 3][0], out = layers[i / 3][1], n = out == V && tokens > 1024 ? 1024 : tokens;
        char name[64];
        product.ta = i % 3 == 2;
        product.tb = i % 3 == 0; /* weights are (out, in) */
        product.m = i % 3 == 2 ? out : n;
        product.n = i % 3 == 0 ? out : in;
        product.k = i % 3 == 0 ? in : i % 3 == 1 ? out : n;
        snprintf(name, sizeof name, "gemm %s %zux%zux%zu",
                 i % 3 == 0   ? "y"
                 : i % 3 == 1 ? "dx"
                              : "dw",
                 product.m, product.n, product.k);
        measure(name, gemm, 0, 0, 2.0 * (double)product.m * (double)product.n * (double)product.k);
    }
}

static void fill(real *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = (real)(1e-6 * (double)(i * 2654435761U % 2000003U) - 1);
}

static act *acts(size_t count)
{
    real *x = k->alloc(count * sizeof *x);
    act *out = k->alloc(count * k->act_size);
    if (!x || !out)
        exit(1);
    fill(x, count);
    k->act_from_real(out, x, count);
    k->free(x);
    return out;
}

static real *reals(size_t count)
{
    real *x = k->alloc(count * sizeof *x);
    if (!x)
        exit(1);
    fill(x, count);
    return x;
}

static void prepare(void)
{
    size_t most = (size_t)V * 1024; /* logits of a quarter of the tokens; the table is smaller */
    a = acts((size_t)V * 1024);
    b = acts((size_t)V * 1024);
    c = acts((size_t)N * F * 2);
    d = acts((size_t)N * F);
    r = reals(most);
    s = reals(most);
    m = reals((size_t)V * C);
    v = reals((size_t)V * C);
    k->zero(v, (size_t)V * C * sizeof *v);
    small = reals((size_t)N * 64);
    numbers = k->alloc(N * sizeof *numbers);
    ids = k->alloc(N * sizeof *ids);
    for (size_t i = 0; i < N; i++) {
        numbers[i] = (int32_t)(i * 7919 % T);
        ids[i] = i;
    }
}

int main(int count, char **words)
{
    struct err err;
    setvbuf(stdout, NULL, _IOLBF, 0);
    k = kernels_cpu(count > 1 && strcmp(words[1], "bf16") == 0 ? KERNEL_BF16 : KERNEL_FP32, &err);
    if (!k) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    only = count > 2 ? words[2] : "";
    prepare();
    char text[128];
    k->describe(text, sizeof text);
    printf("%s, %s\n", text, k->type == KERNEL_BF16 ? "bf16" : "fp32");
    const double nc = (double)N * C, nf = (double)N * F, nv = (double)N / 4 * V, vc = (double)V * C;
    measure("copy", copy, 2 * nf, 0, 0);
    measure("add", add, 3 * nc, 0, 0);
    measure("bias_forward", bias_forward, 2 * nf, 0, 0);
    measure("bias_backward", bias_backward, nf, 0, 0);
    measure("embedding_forward", embedding_forward, 2 * nc, 0, 0);
    measure("embedding_backward", embedding_backward, nc, 2 * nc, 0);
    measure("position_forward", position_forward, 3 * nc, 0, 0);
    measure("layernorm_forward", layernorm_forward, 2 * nc, 0, 0);
    measure("layernorm_backward", layernorm_backward, 4 * nc, 0, 0);
    measure("rmsnorm_forward", rmsnorm_forward, 2 * nc, 0, 0);
    measure("rmsnorm_backward", rmsnorm_backward, 4 * nc, 0, 0);
    measure("gelu_forward", gelu_forward, 2 * nf, 0, 0);
    measure("gelu_backward", gelu_backward, 3 * nf, 0, 0);
    measure("swiglu_forward", swiglu_forward, 3 * nf, 0, 0);
    measure("swiglu_backward", swiglu_backward, 5 * nf, 0, 0);
    measure("dropout", dropout, 2 * nc, 0, 0);
    measure("rope", rope, 2 * nc, 0, 0);
    measure("cross_entropy_local", cross_entropy_local, 0, nv, 0);
    measure("cross_entropy_backward", cross_entropy_backward, nv, nv, 0);
    measure("adamw", adamw, k->type == KERNEL_BF16 ? vc : 0, 7 * vc, 0);
    measure("sum_of_squares", sum_of_squares, 0, vc, 0);
    measure("all_finite", all_finite, 0, vc, 0);
    measure("rows_gather", rows_gather, 2 * nc, 0, 0);
    measure("rows_combine", rows_combine, 1.5 * nc, 0, 0);
    const double pairs = 2.0 * B * HEADS * SIZE * T * T / 2; /* flop of one product over the causal half */
    measure("attention_forward", attention_forward, 0, 0, 2 * pairs);
    measure("attention_both", attention_backward, 0, 0, 7 * pairs);
    measure("attention_short", attention_short, 0, 0, 2 * pairs / T / T * 64 * 64);
    measure("attention_decode", attention_decode, 2.0 * B * T * C, 0, 0);
    measure_products(N);
    measure_products(256);
    return 0;
}
