/* bench_train: seconds for one training step through the engine, on one rank.
 *
 *   bench_train [--model gpt2-124m|gpt2-1558m|llama-1b|gpt2-tiny|llama-tiny] [--steps N] [--batch N] [--tokens N] [--precision fp32|bf16]
 *               [--device cpu|gpu] [--json]
 *
 * Without --model it is GPT-2 124M in parts, beside what the step's matrix products alone take here: 10 steps of 4 sequences of 64 tokens.
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
#include "tests/bench/device.h"

/* The sizes of tests/bench/torch_models.py; the context is what is asked for. */
#define GPT2(name, n, width, of, words)                                                                      \
    {                                                                                                        \
        .arch = ARCH_GPT2, .preset = (name), .layers = (n), .hidden = (width), .heads = (of),                \
        .kv_heads = (of), .ffn = 4 * (width), .vocab = (words), .tied = true, .norm_eps = 1e-5               \
    }
static const struct job_model models[] = {GPT2("gpt2-124m", 12, 768, 12, 50257),
                                          GPT2("gpt2-1558m", 48, 1600, 25, 50257),
                                          {.arch = ARCH_LLAMA,
                                           .preset = "llama-1b",
                                           .layers = 16,
                                           .hidden = 2048,
                                           .heads = 32,
                                           .kv_heads = 8,
                                           .ffn = 8192,
                                           .vocab = 128256,
                                           .tied = true,
                                           .norm_eps = 1e-5,
                                           .rope_theta = 500000},
                                          GPT2("gpt2-tiny", 2, 64, 4, 256),
                                          {.arch = ARCH_LLAMA,
                                           .preset = "llama-tiny",
                                           .layers = 2,
                                           .hidden = 64,
                                           .heads = 4,
                                           .kv_heads = 2,
                                           .ffn = 160,
                                           .vocab = 256,
                                           .tied = true,
                                           .norm_eps = 1e-5,
                                           .rope_theta = 10000}};

enum { STEP, GRADIENTS, UPDATE, PARTS };
static const char *const part_names[PARTS] = {"step", "gradients", "update"};

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
    act *a = bench_room(k, p->m * p->k * k->act_size), *b = bench_room(k, p->k * p->n * k->act_size);
    act *c = bench_room(k, p->m * p->n * sizeof(real));
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
    struct bench_device device;
    struct job_model model;
    size_t batch, context, steps;
};

static int fill(void *owner, uint64_t first, size_t count, int32_t *tokens, int32_t *targets, struct err *err)
{
    const struct bench *b = owner;
    (void)err;
    for (size_t i = 0; i < count * b->context; i++) {
        tokens[i] = (int32_t)((first * b->context + i) * 7919 % (uint64_t)b->model.vocab);
        targets[i] = (int32_t)((first * b->context + i + 1) * 7919 % (uint64_t)b->model.vocab);
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
        seconds[p] = bench_median(alone + p * looks, looks);
    for (size_t p = 0; p < PARTS; p++)
        parts[p] = bench_median(times + p * steps, steps);
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

/* All weights small numbers, quickly: first values would take longer than the steps. */
static void fill_weights(const struct bench *b)
{
    struct store *store = engine_store(b->engine);
    const struct layout *layout = engine_layout(b->engine);
    for (size_t t = 0; t < layout->n_tensors; t++) {
        struct store_range r = store_owned(store, t, STORE_MASTER);
        bench_fill(b->kernels, r.data, r.end - r.begin, 0.03);
    }
    store_spread(store);
}

/* One model: the median step, against the device's peak. */
static void measure_model(struct bench *b)
{
    double *times = calloc(b->steps, sizeof *times), parts[PARTS];
    struct kernel_memory memory = {0};
    if (!times)
        exit(1);
    fill_weights(b);
    for (size_t i = 0; i < b->steps + 3; i++) { /* the first three warm up: plans, memory, graphs */
        step(b, (int64_t)i + 1, parts);
        if (i >= 3)
            times[i - 3] = parts[STEP];
    }
    double seconds = bench_median(times, b->steps), tokens = (double)(b->batch * b->context) / seconds;
    double peak = backend_peak(&b->device.backend, b->kernels);
    double mfu = tokens * model_flops_per_token(&b->model, b->context) / peak;
    b->kernels->memory(&memory);
    printf(b->device.json
               ? "{\"model\": \"%s\", \"step_s\": %.5f, \"tokens_per_second\": %.1f, \"mfu\": %.4f, "
                 "\"peak_flops\": %.4g, \"peak_bytes\": %zu}\n"
               : "%s: step %.5f s, %.1f tokens/s, MFU %.4f of %.4g FLOP/s, peak %zu bytes\n",
           b->model.preset, seconds, tokens, mfu, peak, memory.peak);
    free(times);
}

static void measure_parts(struct bench *b)
{
    double parts[PARTS], products[PRODUCTS];
    char backend[128];
    store_init(engine_store(b->engine), &b->model, 1);
    b->kernels->describe(backend, sizeof backend);
    printf("GPT-2 124M, %zu x %zu tokens, %s, %s\n", b->batch, b->context,
           b->device.type == KERNEL_BF16 ? "bf16" : "fp32", backend);
    measure(b, b->steps, parts, products);
    report(b, parts, products);
}

static _Noreturn void refuse(const char *why)
{
    fprintf(stderr, "bench_train: %s; see the first lines of tests/bench/bench_train.c\n", why);
    exit(2);
}

static size_t number(void)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(optarg, &end, 10);
    if (errno || *end || value < 1 || value > 100000)
        refuse("a whole number from 1 to 100000 is wanted");
    return value;
}

static struct job_model model_named(const char *name)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strcmp(models[i].preset, name) == 0)
            return models[i];
    refuse("there is no such model");
}

/* Is one model to be measured, and not GPT-2 124M in parts? */
static bool read_options(struct bench *b, int argc, char **argv)
{
    static const struct option table[] = {BENCH_DEVICE_OPTIONS,
                                          {"model", required_argument, NULL, 'm'},
                                          {"steps", required_argument, NULL, 's'},
                                          {"batch", required_argument, NULL, 'b'},
                                          {"tokens", required_argument, NULL, 't'},
                                          {NULL, 0, NULL, 0}};
    bool named = false;
    for (int option; (option = getopt_long(argc, argv, "", table, NULL)) != -1;) {
        if (option == 'm') {
            b->model = model_named(optarg);
            named = true;
        } else if (option == 's')
            b->steps = number();
        else if (option == 'b')
            b->batch = number();
        else if (option == 't')
            b->context = number();
        else if (!bench_device_option(&b->device, option))
            refuse("an option is wrong");
    }
    return named;
}

int main(int argc, char **argv)
{
    struct bench b = {.model = models[0], .batch = 4, .context = 64, .steps = 10};
    bool named = read_options(&b, argc, argv);
    struct job_spec spec = {
        .is_train = true, .tp = 1, .pp = 1, .cp = 1, .dp = 1, .ep = 1, .virtual_stages = 1};
    struct mesh mesh;
    struct mesh_sizes one = {1, 1, 1, 1, 1};
    struct err err = {""};
    b.model.context = (int64_t)b.context;
    spec.train.model = b.model;
    spec.train.batch_global = spec.train.batch_micro = (int64_t)b.batch;
    bench_device_open(&b.device, "bench_train");
    b.kernels = b.device.kernels;
    struct comm *comm = comm_open(backend_comm(&b.device.backend), &err);
    struct engine_request request = {
        .spec = &spec, .mesh = &mesh, .kernels = b.kernels, .behind = b.device.gpu};
    if (comm && mesh_open(&mesh, comm, &one, false, &err) == 0)
        b.engine = engine_new(&request, &err);
    if (!b.engine) {
        fprintf(stderr, "bench_train: %s\n", err.text);
        return 1;
    }
    if (named)
        measure_model(&b);
    else
        measure_parts(&b);
    engine_free(b.engine);
    comm_close(comm);
    backend_close(&b.device.backend);
    return 0;
}
