/* bench_kernels: each kernel at the sizes of a GPT-2 124M step, in milliseconds and against what bounds it: bytes a second for those that memory
 * feeds, FLOP/s for those that multiply, and the share of what a plain copy and a large product reach here. The fastest of several runs
 * counts: other programs only ever slow it down.
 *   bench_kernels [--precision fp32|bf16] [--device cpu|gpu] [--only WORD] [--json]
 * 4,096 tokens on a CPU; 65,536 on a GPU, so that no array fits its cache. --json: a line for each kernel. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/bench/device.h"

enum { C = 768, F = 3072, V = 50304, T = 1024, HEADS = 12, SIZE = 64 };
#define RUNS 12

static size_t N = 4096, B = 4; /* tokens; sequences of T */
#define LOGITS ((size_t)1024)  /* rows of logits */

static const struct kernels *k;
static const char *only = "";
/* every kernel's operands: acts, reals and integers that are large enough for each */
static act *a, *b, *c, *d;
static real *r, *s, *m, *v, *small;
static int32_t *numbers;
static uint64_t *ids;
static double *sum;

static struct bench_device device;
/* What a plain copy moves, and a large product computes, a second: 0 until they are measured. */
static double copy_rate, product_rate;

/* On one thread the thread's own time, which a busy host does not lengthen much. */
static double now_s(void)
{
    struct timespec t;
    clock_gettime(!device.gpu && omp_get_max_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds for a call: on a device many are enqueued at once, so that what is measured is not the waiting for them. */
static double seconds_of(void (*call)(void))
{
    const double least = device.gpu ? 3e-3 : 0;
    for (int times = 1;; times *= 4) {
        double begin = now_s();
        for (int i = 0; i < times; i++)
            call();
        k->sync();
        double took = now_s() - begin;
        if (took >= least || times > 1000)
            return took / times;
    }
}

static double fastest(void (*call)(void))
{
    double best = 1e9;
    for (int i = 0; i < (device.gpu ? 4 : RUNS); i++) {
        double took = seconds_of(call);
        best = took < best ? took : best;
    }
    return best;
}

/* rate: bytes or FLOP a second, of which `ceiling` is reached by the best there is; 0 = not known */
static void report(const char *name, double seconds, double rate, bool products, double ceiling)
{
    if (device.json)
        printf("{\"kernel\": \"%s\", \"ms\": %.4f, \"%s\": %.2f, \"share\": %.3f}\n", name, seconds * 1e3,
               products ? "gflop_s" : "gb_s", rate / 1e9, ceiling > 0 ? rate / ceiling : 1.0);
    else
        printf("%-26s %9.3f ms  %9.2f %-8s %5.2f\n", name, seconds * 1e3, rate / 1e9,
               products ? "GFLOP/s" : "GB/s", ceiling > 0 ? rate / ceiling : 1.0);
}

/* acts and reals: how many of each a call reads and writes; flop: what it computes, where that is its bound */
static void measure(const char *name, void (*call)(void), double acts, double reals, double flop)
{
    if (!strstr(name, only))
        return;
    double seconds = fastest(call), bytes = acts * (double)k->act_size + reals * sizeof(real);
    report(name, seconds, (flop > 0 ? flop : bytes) / seconds, flop > 0, flop > 0 ? product_rate : copy_rate);
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
    k->cross_entropy_local(small, small + N, r, numbers, 0, LOGITS, V, V);
}
static void cross_entropy_backward(void)
{
    k->cross_entropy_backward((act *)(void *)s, V, r, V, small, numbers, 0, 1e-4F, LOGITS, V);
}
static void adamw(void)
{
    struct kernel_adamw config = {1e-3, 0.9, 0.95, 1e-8, 0.1, 1, 10, false, 0, 0};
    k->adamw(r, m, v, s, k->type == KERNEL_BF16 ? a : NULL, (size_t)V * C, &config);
}
static void sum_of_squares(void)
{
    k->sum_of_squares(sum, r, (size_t)V * C);
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

static const act *keys_of(const act *x)
{
    return act_in(k, x, C);
}
static const act *values_of(const act *x)
{
    return act_in(k, x, (size_t)2 * C);
}

static void forward(size_t queries, size_t keys)
{
    struct kernel_attention call = shape(queries, keys);
    if (k->attention_whole)
        k->attention_whole(b, small, a, keys_of(a), values_of(a), &call);
    else
        k->attention_forward(r, small, true, a, keys_of(a), values_of(a), &call);
}
static void backward(size_t queries, size_t keys)
{
    struct kernel_attention call = shape(queries, keys);
    if (k->attention_whole)
        k->attention_whole_backward(d, act_at(k, d, C), act_at(k, d, (size_t)2 * C), c, b, small, a,
                                    keys_of(a), values_of(a), &call);
    else
        k->attention_backward(s, s + C, s + (size_t)2 * C, c, b, small, a, keys_of(a), values_of(a), &call);
}
static void attention_forward(void)
{
    forward(T, T);
}
static void attention_backward(void)
{
    forward(T, T);
    if (!k->attention_whole)
        k->act_from_real(b, r, N * C);
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

static act *acts(size_t count)
{
    real *x = bench_room(k, count * sizeof *x);
    act *out = bench_room(k, count * k->act_size);
    bench_fill(k, x, count, 1);
    k->act_from_real(out, x, count);
    k->sync();
    k->free(x);
    return out;
}

static real *reals(size_t count)
{
    real *x = bench_room(k, count * sizeof *x);
    bench_fill(k, x, count, 1);
    return x;
}

static size_t larger(size_t x, size_t y)
{
    return x > y ? x : y;
}

static void prepare(void)
{
    size_t most = LOGITS * V; /* the table of embeddings is smaller */
    int32_t *host_numbers = malloc(N * sizeof *host_numbers);
    uint64_t *host_ids = malloc(N * sizeof *host_ids);
    if (!host_numbers || !host_ids)
        exit(1);
    a = acts(larger(most, N * F));
    b = acts(larger(most, N * F));
    c = acts(N * F * 2);
    d = acts(N * F);
    r = reals(larger(most, N * C));
    s = reals(larger(most, 3 * N * C));
    m = reals((size_t)V * C);
    v = reals((size_t)V * C);
    k->zero(v, (size_t)V * C * sizeof *v);
    small = reals(larger(N * 64, N * HEADS));
    sum = bench_room(k, sizeof *sum);
    for (size_t i = 0; i < N; i++) {
        host_numbers[i] = (int32_t)(i * 7919 % T);
        host_ids[i] = i;
    }
    numbers = bench_room(k, N * sizeof *numbers);
    ids = bench_room(k, N * sizeof *ids);
    k->from_host(numbers, host_numbers, N * sizeof *numbers);
    k->from_host(ids, host_ids, N * sizeof *ids);
    free(host_numbers);
    free(host_ids);
}

/* The ceilings: what moves bytes and what multiplies, as fast as it goes here. */
static void measure_ceilings(void)
{
    double bytes = 2 * (double)N * F * (double)k->act_size, seconds = fastest(copy);
    size_t side = device.gpu ? 8192 : 2048;
    report("copy", seconds, bytes / seconds, false, 0);
    copy_rate = bytes / seconds;
    product.m = product.n = product.k = side;
    product.ta = false;
    product.tb = true;
    if (side * side > larger(LOGITS * V, N * F))
        exit(1);
    seconds = fastest(gemm);
    product_rate = 2 * (double)side * (double)side * (double)side / seconds;
    report("product", seconds, product_rate, true, 0);
}

static void read_options(int count, char **words)
{
    static const struct option table[] = {
        BENCH_DEVICE_OPTIONS, {"only", required_argument, NULL, 'o'}, {NULL, 0, NULL, 0}};
    for (int option; (option = getopt_long(count, words, "", table, NULL)) != -1;) {
        if (option == 'o')
            only = optarg;
        else if (!bench_device_option(&device, option)) {
            fprintf(
                stderr,
                "usage: bench_kernels [--precision fp32|bf16] [--device cpu|gpu] [--only WORD] [--json]\n");
            exit(2);
        }
    }
}

int main(int count, char **words)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    read_options(count, words);
    bench_device_open(&device, words[0]);
    k = device.kernels;
    if (device.gpu) {
        B = 64;
        N = B * T;
    }
    prepare();
    char text[128];
    k->describe(text, sizeof text);
    if (!device.json)
        printf("%s, %s\n", text, k->type == KERNEL_BF16 ? "bf16" : "fp32");
    measure_ceilings();
    const double nc = (double)N * C, nf = (double)N * F, nv = (double)LOGITS * V, vc = (double)V * C;
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
    const double pairs =
        2.0 * (double)B * HEADS * SIZE * T * T / 2; /* flop of one product over the causal half */
    measure("attention_forward", attention_forward, 0, 0, 2 * pairs);
    measure("attention_both", attention_backward, 0, 0, 7 * pairs);
    measure("attention_short", attention_short, 0, 0, 2 * pairs / T / T * 64 * 64);
    measure("attention_decode", attention_decode, 2.0 * (double)B * T * C, 0, 0);
    measure_products(N);
    measure_products(256);
    return 0;
}
