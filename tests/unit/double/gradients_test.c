/* Gradients of whole models, computed in double, against differences of the loss.
 *
 * The loss is that of two micro-batches in flight together with scales of their own and some targets left out, so that slots, accumulation and
 * masking are part of it, and dropout and the losses of routers where there are any. Derivatives come from the five-point formula: with h = 1e-3
 * its error, O(h^4) plus rounding of about 1e-12 / h, is far below the tolerance. Models with experts take a smaller h, so that no token
 * changes its experts on the way. Parameters are larger than first values are, so that no part of the network is nearly linear.
 *
 * Recomputation, weight gradients split off and a model cut in pieces must give the same numbers, nearly or exactly. */
#include "tests/unit/runtime/one_rank.h"

#define TOLERANCE     1e-5
#define SAMPLES       24   /* elements tried of a larger tensor */
#define FLOOR         1e-4 /* gradients below this are compared absolutely, at TOLERANCE * FLOOR */
#define MICRO_BATCHES 2

#define MODEL(arch_, layers_, hidden_, heads_, kv_heads_, ffn_, vocab_, context_, ...)                       \
    {                                                                                                        \
        .arch = (arch_), .layers = (layers_), .hidden = (hidden_), .heads = (heads_),                        \
        .kv_heads = (kv_heads_), .ffn = (ffn_), .vocab = (vocab_), .context = (context_), .norm_eps = 1e-5,  \
        .rope_theta = 10000, __VA_ARGS__                                                                     \
    }

struct shape {
    const char *name;
    struct job_model config;
    size_t batch, context;
    double h;
};

static const struct shape shapes[] = {
    {"gpt2", MODEL(ARCH_GPT2, 2, 24, 3, 3, 40, 97, 11, .tied = true), 3, 7, 1e-3},
    {"gpt2, one token, vocabulary of a whole multiple", MODEL(ARCH_GPT2, 1, 5, 1, 1, 3, 64, 1, .tied = true),
     2, 1, 1e-3},
    {"gpt2, several attention tiles", MODEL(ARCH_GPT2, 1, 6, 2, 2, 8, 13, 330, .tied = true), 1, 330, 1e-3},
    {"gpt2, dropout, untied", MODEL(ARCH_GPT2, 3, 12, 2, 2, 20, 31, 9, .dropout = 0.3), 2, 9, 1e-3},
    {"llama", MODEL(ARCH_LLAMA, 2, 24, 3, 3, 29, 97, 11, .tied = true), 3, 7, 1e-3},
    {"llama, grouped-query, untied", MODEL(ARCH_LLAMA, 3, 24, 6, 2, 29, 97, 7, .tied = false), 2, 7, 1e-3},
    {"llama, one key head, dropout", MODEL(ARCH_LLAMA, 2, 18, 3, 1, 31, 65, 9, .dropout = 0.2), 2, 9, 1e-3},
    {"llama, several attention tiles", MODEL(ARCH_LLAMA, 1, 8, 4, 2, 8, 13, 330, .tied = true), 1, 330, 1e-3},
    {"experts, two of four",
     MODEL(ARCH_LLAMA, 2, 12, 2, 2, 7, 41, 8, .experts = 4, .top_k = 2, .balance_loss = 0.3,
           .router_z_loss = 0.2),
     2, 8, 2e-4},
    {"experts, one of three",
     MODEL(ARCH_LLAMA, 2, 10, 1, 1, 7, 41, 8, .experts = 3, .top_k = 1, .balance_loss = 0.2), 2, 8, 2e-4},
    {"experts, a limit, dropout, tied",
     MODEL(ARCH_LLAMA, 2, 10, 1, 1, 7, 41, 10, .experts = 3, .top_k = 2, .capacity = 0.6, .balance_loss = 0.3,
           .router_z_loss = 0.1, .dropout = 0.2, .tied = true),
     2, 10, 2e-4},
};

/* A way to compute the same thing. */
struct way {
    const char *name;
    enum job_recompute recompute;
    bool split;
    size_t chunks;
};

static const struct way plain = {"plain", RECOMPUTE_NONE, false, 1};
static const struct way ways[] = {
    {"selective", RECOMPUTE_SELECTIVE, false, 1},
    {"full", RECOMPUTE_FULL, false, 1},
    {"split weights", RECOMPUTE_NONE, true, 1},
    {"two pieces", RECOMPUTE_NONE, false, 2},
    {"two pieces, split weights", RECOMPUTE_NONE, true, 2},
    {"two pieces, full", RECOMPUTE_FULL, false, 2},
    {"two pieces, selective", RECOMPUTE_SELECTIVE, false, 2},
};

static const double scales[MICRO_BATCHES] = {0.125, 0.3}, aux_scales[MICRO_BATCHES] = {0.5, 0.2};

/* A model with its numbers, its samples and the gradients that it came to. */
struct lone {
    const struct shape *shape;
    const struct way *way;
    struct layout layout;
    struct store *store;
    struct model *model;
    int32_t *tokens, *targets; /* (MICRO_BATCHES, B, T) */
    act *d;                    /* (R,C) */
    real *gradients;           /* all units, as the layout has them */
};

static void lone_layout(struct lone *x)
{
    int64_t layers = x->shape->config.layers, pieces[2] = {layers, 0};
    if (x->way->chunks == 2) {
        pieces[0] = (layers + 1) / 2;
        pieces[1] = layers / 2;
    }
    struct layout_request r = {.model = &x->shape->config,
                               .size = {1, 1, 1, 1, 1},
                               .piece_layers = pieces,
                               .virtual_stages = (int)x->way->chunks};
    layout_make(&x->layout, &r);
}

static void lone_model(struct lone *x)
{
    struct err err;
    struct store_request store = {
        .layout = &x->layout, .mesh = one_mesh(), .kernels = one_kernels(KERNEL_FP32)};
    x->store = store_new(&store, &err);
    struct model_request r = {.config = &x->shape->config,
                              .mesh = one_mesh(),
                              .kernels = one_kernels(KERNEL_FP32),
                              .layout = &x->layout,
                              .units = store_units(x->store),
                              .hooks = store_hooks(x->store),
                              .batch = x->shape->batch,
                              .context = x->shape->context,
                              .recompute = x->way->recompute,
                              .split_weights = x->way->split,
                              .slots = MICRO_BATCHES * (int)x->way->chunks,
                              .seed = 5};
    x->model = model_new(&r, &err);
    if (!x->model)
        fail_msg("%s: %s", x->shape->name, err.text);
}

static void lone_samples(struct lone *x)
{
    size_t n = MICRO_BATCHES * x->shape->batch * x->shape->context;
    uint32_t vocab = (uint32_t)x->shape->config.vocab;
    x->tokens = mem_zero(n, sizeof *x->tokens);
    x->targets = mem_zero(n, sizeof *x->targets);
    for (size_t i = 0; i < n; i++) {
        x->tokens[i] = (int32_t)(word(1000, i) % vocab);
        x->targets[i] = i % 5 == 3 ? -1 : (int32_t)(word(2000, i) % vocab);
    }
}

/* Parameters depend on the tensor's name alone: the order of units is another when the model is cut. */
static void lone_fill(const struct lone *x)
{
    for (size_t t = 0; t < x->layout.n_tensors; t++) {
        const struct layout_tensor *tensor = &x->layout.tensors[t];
        real *values = store_owned(x->store, t, STORE_MASTER).data;
        uint32_t stream = 0;
        for (const char *c = tensor->name; *c; c++)
            stream = stream * 31 + (unsigned char)*c;
        for (size_t i = 0; i < tensor->shape[0] * tensor->shape[1]; i++)
            values[i] = (is_scale(tensor) ? 1 : 0) + 0.8 * fraction(stream, i);
    }
}

static void lone_open(struct lone *x, const struct shape *shape, const struct way *way)
{
    *x = (struct lone){.shape = shape, .way = way};
    lone_layout(x);
    lone_model(x);
    lone_samples(x);
    lone_fill(x);
    x->d = mem_zero(model_boundary(x->model), sizeof(real));
    x->gradients = mem_zero(x->layout.elements, sizeof *x->gradients);
}

static void lone_close(struct lone *x)
{
    model_free(x->model);
    store_free(x->store);
    layout_free(&x->layout);
    free(x->tokens);
    free(x->targets);
    free(x->d);
    free(x->gradients);
}

static struct model_batch batch_at(const struct lone *x, size_t micro, size_t chunk)
{
    size_t at = micro * x->shape->batch * x->shape->context;
    return (struct model_batch){.slot = (int)(micro * x->way->chunks + chunk),
                                .chunk = chunk,
                                .tokens = x->tokens + at,
                                .targets = x->targets + at,
                                .first_sample = 1000 + micro * x->shape->batch,
                                .step = 3,
                                .scale = scales[micro],
                                .aux_scale = aux_scales[micro],
                                .train = true};
}

static double forward(const struct lone *x, size_t micro)
{
    double sum = 0;
    for (size_t c = 0; c < x->way->chunks; c++) {
        struct model_batch b = batch_at(x, micro, c);
        bool last = c + 1 == x->way->chunks;
        act *out = last ? NULL : model_input(x->model, b.slot + 1, c + 1);
        model_forward(x->model, &b, out);
        struct model_loss loss = model_take_loss(x->model);
        sum += scales[micro] * loss.cross_entropy + aux_scales[micro] * loss.router;
    }
    return sum;
}

static void backward(const struct lone *x, size_t micro)
{
    for (size_t c = x->way->chunks; c-- > 0;) {
        struct model_batch b = batch_at(x, micro, c);
        model_backward(x->model, &b, x->d);
    }
}

static void weights(const struct lone *x, size_t micro)
{
    for (size_t c = x->way->chunks; x->way->split && c-- > 0;) {
        struct model_batch b = batch_at(x, micro, c);
        model_weights(x->model, &b);
    }
}

static double loss(const struct lone *x)
{
    double sum = 0;
    store_begin(x->store, MICRO_BATCHES);
    for (size_t i = 0; i < MICRO_BATCHES; i++)
        sum += forward(x, i);
    return sum;
}

static void gradients(const struct lone *x)
{
    (void)loss(x);
    for (size_t i = 0; i < MICRO_BATCHES; i++)
        backward(x, i);
    for (size_t i = 0; i < MICRO_BATCHES; i++)
        weights(x, i);
    store_finish(x->store);
    memcpy(x->gradients, store_units(x->store)[0].gradients, x->layout.elements * sizeof *x->gradients);
}

static real *gradient_of(const struct lone *x, const struct layout_tensor *t)
{
    return x->gradients + x->layout.units[t->unit].offset + t->offset;
}

/* ---- differences ---- */

/* Derivative of the loss along `direction` (count) from the parameters at p, which come back as they were. */
static double slope(const struct lone *x, real *p, const real *direction, size_t count)
{
    static const double at[] = {-2, -1, 1, 2}, weight[] = {1, -8, 8, -1};
    real *kept = mem_zero(count, sizeof *kept);
    memcpy(kept, p, count * sizeof *kept);
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        for (size_t j = 0; j < count; j++)
            p[j] = kept[j] + at[i] * x->shape->h * direction[j];
        sum += weight[i] * loss(x);
    }
    memcpy(p, kept, count * sizeof *kept);
    free(kept);
    return sum / (12 * x->shape->h);
}

static void expect_close(const struct lone *x, const char *tensor, const char *what, size_t element,
                         double measured, double gradient)
{
    double size = fmax(fmax(fabs(measured), fabs(gradient)), FLOOR);
    if (!(fabs(measured - gradient) <= TOLERANCE * size))
        fail_msg("%s: %s, %s %zu: gradient %.12g, measured %.12g", x->shape->name, tensor, what, element,
                 gradient, measured);
}

static void check_elements(const struct lone *x, size_t t)
{
    const struct layout_tensor *tensor = &x->layout.tensors[t];
    real *values = store_owned(x->store, t, STORE_MASTER).data;
    size_t count = tensor->shape[0] * tensor->shape[1], tries = count <= 2 * SAMPLES ? count : SAMPLES;
    for (size_t i = 0; i < tries; i++) {
        size_t j = tries == count ? i : word((uint32_t)t, i) % count;
        const real one = 1;
        expect_close(x, tensor->name, "element", j, slope(x, values + j, &one, 1), gradient_of(x, tensor)[j]);
    }
}

/* All elements at once, along a direction of length about 1. */
static void check_direction(const struct lone *x, size_t t)
{
    const struct layout_tensor *tensor = &x->layout.tensors[t];
    size_t count = tensor->shape[0] * tensor->shape[1];
    real *direction = mem_zero(count, sizeof *direction);
    double expected = 0;
    for (size_t j = 0; j < count; j++) {
        direction[j] = fraction(7000 + (uint32_t)t, j) * 3 / sqrt((double)count);
        expected += direction[j] * gradient_of(x, tensor)[j];
    }
    expect_close(x, tensor->name, "all elements of", count,
                 slope(x, store_owned(x->store, t, STORE_MASTER).data, direction, count), expected);
    free(direction);
}

static void gradients_match_differences(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(shapes); i++) {
        struct lone x;
        lone_open(&x, &shapes[i], &plain);
        gradients(&x);
        for (size_t t = 0; t < x.layout.n_tensors; t++) {
            check_elements(&x, t);
            check_direction(&x, t);
        }
        lone_close(&x);
    }
}

/* ---- padding ---- */

/* What lies between the tensors of a unit, and rows that the vocabulary does not have, has neither values nor gradients. */
static void padding_stays_zero(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(shapes); i++) {
        struct lone x;
        lone_open(&x, &shapes[i], &plain);
        gradients(&x);
        bool *real_numbers = mem_zero(x.layout.elements, sizeof *real_numbers);
        const real *values = (const real *)(const void *)store_units(x.store)[0].weights;
        for (size_t t = 0; t < x.layout.n_tensors; t++) {
            const struct layout_tensor *tensor = &x.layout.tensors[t];
            memset(real_numbers + x.layout.units[tensor->unit].offset + tensor->offset, true,
                   tensor->shape[0] * tensor->shape[1]);
        }
        for (size_t j = 0; j < x.layout.elements; j++)
            if (!real_numbers[j] && (values[j] != 0 || x.gradients[j] != 0))
                fail_msg("%s: padding at %zu is not 0", x.shape->name, j);
        free(real_numbers);
        lone_close(&x);
    }
}

/* ---- ways ---- */

static void expect_same(const struct lone *x, const struct lone *other)
{
    for (size_t t = 0; t < x->layout.n_tensors; t++) {
        const struct layout_tensor *tensor = &x->layout.tensors[t], *theirs = other->layout.tensors;
        while (strcmp(theirs->name, tensor->name) != 0)
            theirs++;
        for (size_t i = 0; i < tensor->shape[0] * tensor->shape[1]; i++) {
            double a = gradient_of(x, tensor)[i], b = gradient_of(other, theirs)[i];
            if (!(fabs(a - b) <= 1e-12 * fmax(1e-2, fabs(a))))
                fail_msg("%s, %s: %s[%zu] is %.16g, else %.16g", x->shape->name, x->way->name, tensor->name,
                         i, a, b);
        }
    }
}

static void every_way_gives_the_same_gradients(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(shapes); i++) {
        struct lone x, other;
        lone_open(&other, &shapes[i], &plain);
        gradients(&other);
        for (size_t j = 0; j < COUNT(ways); j++) {
            if ((int64_t)ways[j].chunks > shapes[i].config.layers)
                continue;
            lone_open(&x, &shapes[i], &ways[j]);
            gradients(&x);
            expect_same(&x, &other);
            lone_close(&x);
        }
        lone_close(&other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_match_differences),
        cmocka_unit_test(padding_stays_zero),
        cmocka_unit_test(every_way_gives_the_same_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
