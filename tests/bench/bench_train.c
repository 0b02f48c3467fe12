/* bench_train: seconds for one training step of GPT-2 124M on this host through the engine, in parts, beside what the step's matrix products
 * alone take here.
 *
 *   bench_train [STEPS [BATCH [TOKENS [bf16]]]]      default 10 steps of 4 sequences of 64 tokens, fp32
 *
 * Every number is a median: other work on the host disturbs some steps. The products are measured one shape at a time, each on its own
 * arrays, between the steps, so that both see the same host; their sum is the least a step could take with this library. Attention's own
 * products (causal, in tiles) are counted at the rate of the step's products. OMP_NUM_THREADS sets the threads. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/clock.h"
#include "runtime/engine/engine.h"

static const struct job_model gpt2_124m = {.arch = ARCH_GPT2,
                                           .preset = "gpt2-124m",
                                           .layers = 12,
                                           .hidden = 768,
                                           .heads = 12,
                                           .kv_heads = 12,
                                           .ffn = 3072,
                                           .vocab = 50257,
                                           .context = 1024,
                                           .tied = true,
                                           .norm_eps = 1e-5};

enum { STEP, GRADIENTS, UPDATE, PARTS };
static const char *const part_names[PARTS] = {"step", "gradients", "update"};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, size_t n)
{
    qsort(x, n, sizeof *x, ascending);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* A product of the step: (m,n) += (m,k)(k,n), `times` a step. */
struct product {
    const char *name;
    size_t m, n, k;
    bool a_transposed, b_transposed;
    size_t times;
};

#define PRODUCTS 15
static void list_products(size_t n, struct product out[PRODUCTS])
{
    const size_t c = 768, f = 3072, v = 50272, layers = 12;
    const struct product products[PRODUCTS] = {
        {"qkv", n, 3 * c, c, false, true, layers},    {"qkv dx", n, c, 3 * c, false, false, layers},
        {"qkv dw", 3 * c, c, n, true, false, layers}, {"out", n, c, c, false, true, layers},
        {"out dx", n, c, c, false, false, layers},    {"out dw", c, c, n, true, false, layers},
        {"up", n, f, c, false, true, layers},         {"up dx", n, c, f, false, false, layers},
        {"up dw", f, c, n, true, false, layers},      {"down", n, c, f, false, true, layers},
        {"down dx", n, f, c, false, false, layers},   {"down dw", c, f, n, true, false, layers},
        {"logits", n, v, c, false, true, 1},          {"logits dx", n, c, v, false, false, 1},
        {"logits dw", v, c, n, true, false, 1},
    };
    memcpy(out, products, sizeof products);
}

#define TRIES 3
static void product_seconds(const struct kernels *k, const struct product *p, double seconds[TRIES])
{
    act *a = k->alloc(p->m * p->k * k->act_size), *b = k->alloc(p->k * p->n * k->act_size);
    act *c = k->alloc(p->m * p->n * sizeof(real));
    if (!a || !b || !c)
        exit(1);
    struct kernel_matrix x = {a, p->a_transposed ? p->m : p->k, p->a_transposed};
    struct kernel_matrix y = {b, p->b_transposed ? p->k : p->n, p->b_transposed};
    for (int i = 0; i < TRIES; i++) {
        double start = clock_monotonic_s();
        if (p->a_transposed) /* weight gradients are kept in float and added to */
            k->gemm_real(p->m, p->n, p->k, x, y, true, (real *)(void *)c, p->n);
        else
            k->gemm(p->m, p->n, p->k, x, y, false, c, p->n);
        k->sync();
        seconds[i] = clock_monotonic_s() - start;
    }
    k->free(a);
    k->free(b);
    k->free(c);
}

struct bench {
    struct engine *engine;
    const struct kernels *kernels;
    size_t batch, context;
};

static int fill(void *owner, uint64_t first, size_t count, int32_t *tokens, int32_t *targets, struct err *err)
{
    const struct bench *b = owner;
    (void)err;
    for (size_t i = 0; i < count * b->context; i++) {
        tokens[i] = (int32_t)((first * b->context + i) * 7919 % 50257);
        targets[i] = (int32_t)((first * b->context + i + 1) * 7919 % 50257);
    }
    return 0;
}

static void step(struct bench *b, int64_t number, double seconds[PARTS])
{
    struct err err;
    struct engine_result r;
    struct engine_source source = {b, fill};
    double start = clock_monotonic_s();
    if (engine_load(b->engine, &source, (uint64_t)number * b->batch, &err) != 0)
        exit(1);
    engine_gradients(b->engine, number, &r);
    double middle = clock_monotonic_s();
    struct kernel_adamw adamw = {.lr = 3e-4,
                                 .beta1 = 0.9,
                                 .beta2 = 0.95,
                                 .eps = 1e-8,
                                 .weight_decay = 0.1,
                                 .gradient_scale = r.norm > 1 ? 1 / r.norm : 1,
                                 .step = number};
    engine_update(b->engine, &adamw);
    b->kernels->sync();
    double end = clock_monotonic_s();
    seconds[STEP] = end - start;
    seconds[GRADIENTS] = middle - start;
    seconds[UPDATE] = end - middle;
}

/* The steps, each followed by a look at every product: a host that is fast for a moment is so for both. The first step warms up. */
static void measure(struct bench *b, size_t steps, double parts[PARTS], double seconds[PRODUCTS])
{
    struct product products[PRODUCTS];
    size_t looks = steps * TRIES;
    double *times = calloc(steps * PARTS, sizeof *times), *alone = calloc(looks * PRODUCTS, sizeof *alone);
    if (!times || !alone)
        exit(1);
    list_products(b->batch * b->context, products);
    for (size_t i = 0; i < steps + 1; i++) {
        double one[PARTS];
        step(b, (int64_t)i + 1, one);
        for (size_t p = 0; i > 0 && p < PARTS; p++)
            times[p * steps + i - 1] = one[p];
        for (size_t p = 0; i > 0 && p < PRODUCTS; p++)
            product_seconds(b->kernels, &products[p], alone + p * looks + (i - 1) * TRIES);
    }
    for (size_t p = 0; p < PRODUCTS; p++)
        seconds[p] = median(alone + p * looks, looks);
    for (size_t p = 0; p < PARTS; p++)
        parts[p] = median(times + p * steps, steps);
    free(times);
    free(alone);
}

static void report(const struct bench *b, const double parts[PARTS], const double seconds[PRODUCTS])
{
    struct product products[PRODUCTS];
    struct rusage usage;
    size_t n = b->batch * b->context;
    double sum = 0, flops = 0;
    list_products(n, products);
    for (size_t p = 0; p < PRODUCTS; p++) {
        double work = 2.0 * (double)products[p].m * (double)products[p].n * (double)products[p].k;
        printf("  %-10s %6zu x %6zu x %6zu  x%2zu  %8.2f ms  %6.1f GFLOP/s\n", products[p].name,
               products[p].m, products[p].n, products[p].k, products[p].times, 1e3 * seconds[p],
               work / seconds[p] / 1e9);
        sum += seconds[p] * (double)products[p].times;
        flops += work * (double)products[p].times;
    }
    /* forward 2, backward 5 products of T x T x size a head, half of each under the mask */
    double attention = 7 * 2.0 * 0.5 * 12 * 768 * (double)b->context * (double)n,
           bound = sum + attention * sum / flops;
    for (size_t p = 0; p < PARTS; p++)
        printf("%-9s %.3f s\n", part_names[p], parts[p]);
    printf("tokens/s  %.0f\n", (double)n / parts[STEP]);
    printf("products  %.3f s alone, %.1f GFLOP/s; with attention's %.3f s\n", sum, flops / sum / 1e9, bound);
    printf("ratio     %.2f of a step is what its products alone need, %.2f of the gradients\n",
           bound / parts[STEP], bound / parts[GRADIENTS]);
    (void)getrusage(RUSAGE_SELF, &usage);
    printf("memory    %.0f MiB at most\n", (double)usage.ru_maxrss / 1024);
}

static size_t number(int argc, char **argv, int at, size_t fallback)
{
    if (argc <= at)
        return fallback;
    char *end;
    errno = 0;
    unsigned long value = strtoul(argv[at], &end, 10);
    if (errno || *end || value < 1 || value > 100000) {
        fprintf(stderr, "%s: '%s' is not a whole number from 1 to 100000\n", argv[0], argv[at]);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    size_t steps = number(argc, argv, 1, 10);
    struct bench b = {.batch = number(argc, argv, 2, 4), .context = number(argc, argv, 3, 64)};
    bool bf16 = argc > 4 && strcmp(argv[4], "bf16") == 0;
    struct job_spec spec = {
        .is_train = true, .tp = 1, .pp = 1, .cp = 1, .dp = 1, .ep = 1, .virtual_stages = 1};
    struct mesh mesh;
    struct mesh_sizes one = {1, 1, 1, 1, 1};
    struct err err = {""};
    char backend[128];
    double parts[PARTS], products[PRODUCTS];
    spec.train.model = gpt2_124m;
    spec.train.model.context = (int64_t)b.context;
    spec.train.batch_global = spec.train.batch_micro = (int64_t)b.batch;
    struct comm *comm = comm_open(NULL, &err);
    b.kernels = kernels_cpu(bf16 ? KERNEL_BF16 : KERNEL_FP32, &err);
    struct engine_request request = {.spec = &spec, .mesh = &mesh, .kernels = b.kernels};
    if (comm && b.kernels && mesh_open(&mesh, comm, &one, false, &err) == 0)
        b.engine = engine_new(&request, &err);
    if (!b.engine) {
        fprintf(stderr, "bench_train: %s\n", err.text);
        return 1;
    }
    store_init(engine_store(b.engine), &spec.train.model, 1);
    b.kernels->describe(backend, sizeof backend);
    printf("GPT-2 124M, %zu x %zu tokens, %s, %s\n", b.batch, b.context, bf16 ? "bf16" : "fp32", backend);
    measure(&b, steps, parts, products);
    report(&b, parts, products);
    engine_free(b.engine);
    comm_close(comm);
    return 0;
}
