/* bench_train_step: seconds for one training step of GPT-2 124M on this host, cut into its parts, beside what the step's matrix products
 * alone take here.
 *
 *   bench_train_step [STEPS [BATCH [TOKENS]]]      default 10 steps of 4 sequences of 64 tokens
 *
 * Every number is a median: other work on the host disturbs some steps. The products are measured one shape at a time, each on its own
 * arrays, with warm caches, so that their sum is the least a step could take with this library. OMP_NUM_THREADS sets the threads. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "kernels/kernels.h"
#include "runtime/engine/optimizer.h"
#include "runtime/model/model.h"

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
                                           .norm_eps = 1e-5,
                                           .rope_theta = 10000};

enum { FORWARD, BACKWARD, NORM, ADAMW, ZERO, PARTS };
static const char *const part_names[PARTS] = {"forward", "backward", "norm", "adamw", "zero"};

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

static double product_seconds(const struct product *p)
{
    real *a = kernel_alloc(p->m * p->k), *b = kernel_alloc(p->k * p->n), *c = kernel_alloc(p->m * p->n);
    if (!a || !b || !c)
        exit(1);
    struct kernel_matrix x = {a, p->a_transposed ? p->m : p->k, p->a_transposed};
    struct kernel_matrix y = {b, p->b_transposed ? p->k : p->n, p->b_transposed};
    double seconds[9];
    for (int i = -1; i < 9; i++) {
        double start = clock_monotonic_s();
        kernel_gemm(p->m, p->n, p->k, x, y, true, c, p->n);
        if (i >= 0)
            seconds[i] = clock_monotonic_s() - start;
    }
    kernel_free(a);
    kernel_free(b);
    kernel_free(c);
    return median(seconds, 9);
}

/* Seconds of all products of one step of n tokens, attention's small ones left out. */
static double products_seconds(size_t n, double *flops)
{
    const size_t c = 768, f = 3072, v = 50304, layers = 12;
    const struct product products[] = {
        {"qkv", n, 3 * c, c, false, false, layers},   {"qkv dx", n, c, 3 * c, false, true, layers},
        {"qkv dw", c, 3 * c, n, true, false, layers}, {"proj", n, c, c, false, false, layers},
        {"proj dx", n, c, c, false, true, layers},    {"proj dw", c, c, n, true, false, layers},
        {"fc", n, f, c, false, false, layers},        {"fc dx", n, c, f, false, true, layers},
        {"fc dw", c, f, n, true, false, layers},      {"fc proj", n, c, f, false, false, layers},
        {"fc proj dx", n, f, c, false, true, layers}, {"fc proj dw", f, c, n, true, false, layers},
        {"logits", n, v, c, false, true, 1},          {"logits dx", n, c, v, false, false, 1},
        {"logits dw", v, c, n, true, false, 1},
    };
    double sum = 0;
    *flops = 0;
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        const struct product *p = &products[i];
        double seconds = product_seconds(p), work = 2.0 * (double)p->m * (double)p->n * (double)p->k;
        printf("  %-10s %6zu x %6zu x %6zu  x%2zu  %8.2f ms  %6.1f GFLOP/s\n", p->name, p->m, p->n, p->k,
               p->times, 1e3 * seconds, work / seconds / 1e9);
        sum += seconds * (double)p->times;
        *flops += work * (double)p->times;
    }
    return sum;
}

struct run {
    struct model *model;
    struct optimizer *optimizer;
    int32_t *tokens, *targets;
    size_t n;
};

/* One step; at[] gets the clock after each part. Returns the mean loss. */
static double step(struct run *r, int64_t number, double at[PARTS + 1])
{
    static const struct job_optimizer settings = {
        .lr = 3e-4, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .clip = 1};
    size_t count = model_parameter_count(r->model);
    at[0] = clock_monotonic_s();
    double loss = model_forward(r->model, r->tokens, r->targets) / (double)r->n;
    at[1] = clock_monotonic_s();
    model_backward(r->model, (real)(1.0 / (double)r->n));
    at[2] = clock_monotonic_s();
    double norm = sqrt(kernel_sum_of_squares(model_gradients(r->model), count));
    at[3] = clock_monotonic_s();
    optimizer_step(r->optimizer, &settings, settings.lr, number, optimizer_clip_scale(norm, settings.clip),
                   model_parameters(r->model), model_gradients(r->model));
    at[4] = clock_monotonic_s();
    model_zero_gradients(r->model);
    at[5] = clock_monotonic_s();
    return loss;
}

static void measure(struct run *r, size_t steps, double *whole, double parts[PARTS])
{
    double *seconds = calloc(steps * (PARTS + 1), sizeof *seconds);
    if (!seconds)
        exit(1);
    for (size_t i = 0; i < steps + 1; i++) {
        double at[PARTS + 1];
        double loss = step(r, (int64_t)i + 1, at);
        printf("  step %2zu  loss %.5f  %.3f s%s\n", i, loss, at[PARTS] - at[0],
               i == 0 ? "  (warm-up, not counted)" : "");
        for (size_t p = 0; i > 0 && p < PARTS; p++)
            seconds[p * steps + i - 1] = at[p + 1] - at[p];
        if (i > 0)
            seconds[PARTS * steps + i - 1] = at[PARTS] - at[0];
    }
    for (size_t p = 0; p < PARTS; p++)
        parts[p] = median(seconds + p * steps, steps);
    *whole = median(seconds + PARTS * steps, steps);
    free(seconds);
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

static void open_run(struct run *r, size_t batch, size_t context)
{
    struct err err;
    size_t tensors;
    r->n = batch * context;
    r->model = model_new(&gpt2_124m, batch, context, &err);
    r->tokens = calloc(r->n, sizeof *r->tokens);
    r->targets = calloc(r->n, sizeof *r->targets);
    if (!r->model || !r->tokens || !r->targets) {
        fprintf(stderr, "%s\n", r->model ? "no memory for the tokens" : err.text);
        exit(1);
    }
    model_init(r->model, 1);
    const struct model_tensor *t = model_tensors(r->model, &tensors);
    r->optimizer = optimizer_new(model_parameter_count(r->model), t, tensors, &err);
    if (!r->optimizer) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    for (size_t i = 0; i < r->n; i++) {
        r->tokens[i] = (int32_t)(i * 7919 % 50257);
        r->targets[i] = (int32_t)((i + 1) * 7919 % 50257);
    }
}

int main(int argc, char **argv)
{
    size_t steps = number(argc, argv, 1, 10), batch = number(argc, argv, 2, 4),
           context = number(argc, argv, 3, 64);
    struct run r;
    char backend[128];
    double whole, parts[PARTS], flops;
    open_run(&r, batch, context);
    kernel_describe(backend, sizeof backend);
    printf("GPT-2 124M, %zu x %zu tokens, fp32, %s\n", batch, context, backend);
    measure(&r, steps, &whole, parts);
    double products = products_seconds(r.n, &flops);
    double work = model_flops_per_token(&gpt2_124m, context) * (double)r.n;
    for (size_t p = 0; p < PARTS; p++)
        printf("%-9s %.3f s\n", part_names[p], parts[p]);
    printf("step      %.3f s (median of %zu), %.0f tokens/s, %.1f GFLOP/s by the PaLM count\n", whole, steps,
           (double)r.n / whole, work / whole / 1e9);
    printf("products  %.3f s alone, %.1f GFLOP/s\n", products, flops / products / 1e9);
    printf("ratio     %.2f of a step is what the products alone need; forward and backward %.2f\n",
           products / whole, products / (parts[FORWARD] + parts[BACKWARD]));
    free(r.tokens);
    free(r.targets);
    optimizer_free(r.optimizer);
    model_free(r.model);
    return 0;
}
