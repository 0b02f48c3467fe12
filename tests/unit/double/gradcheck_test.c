/* Gradients of whole models, computed in double, against differences of the loss.
 *
 * The loss is that of two micro-batches with different scales and some targets left out, so that accumulation and masking are part of it.
 * Derivatives come from the five-point formula with h = 1e-3: its error, O(h^4) plus rounding of about 1e-10, is far below the tolerance.
 * Parameters are larger than those of model_init, so that no part of the network is nearly linear. */
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/model/model.h"

#define STEP      1e-3
#define TOLERANCE 1e-5
#define SAMPLES   24   /* elements tried of a larger tensor */
#define FLOOR     1e-4 /* gradients below this are compared absolutely, at TOLERANCE * FLOOR */

/* A model whose head is the table of embeddings. */
#define MODEL(arch_, layers_, hidden_, heads_, kv_heads_, ffn_, vocab_, context_, experts_, top_k_)          \
    {                                                                                                        \
        .arch = (arch_), .layers = (layers_), .hidden = (hidden_), .heads = (heads_),                        \
        .kv_heads = (kv_heads_), .ffn = (ffn_), .vocab = (vocab_), .context = (context_),                    \
        .experts = (experts_), .top_k = (top_k_), .tied = true, .norm_eps = 1e-5, .rope_theta = 10000        \
    }

struct shape {
    const char *name;
    struct job_model config;
    size_t batch, context;
};

static const struct shape shapes[] = {
    {"gpt2", MODEL(ARCH_GPT2, 2, 24, 3, 3, 40, 97, 11, 0, 0), 3, 7},
    {"gpt2, one head, one token, vocabulary of a whole multiple",
     MODEL(ARCH_GPT2, 1, 5, 1, 1, 3, 64, 1, 0, 0), 2, 1},
    {"gpt2, several attention tiles", MODEL(ARCH_GPT2, 1, 6, 2, 2, 8, 13, 330, 0, 0), 1, 330},
    {"llama", MODEL(ARCH_LLAMA, 2, 24, 3, 3, 29, 97, 11, 0, 0), 3, 7},
    {"llama, grouped-query", MODEL(ARCH_LLAMA, 2, 24, 6, 2, 29, 97, 7, 0, 0), 3, 7},
    {"llama, one key head", MODEL(ARCH_LLAMA, 1, 18, 3, 1, 31, 65, 9, 0, 0), 2, 9},
    {"llama, several attention tiles", MODEL(ARCH_LLAMA, 1, 8, 4, 2, 8, 13, 330, 0, 0), 1, 330},
};

struct batches {
    int32_t *tokens[2], *targets[2];
};

static const real scales[2] = {0.125, 0.3};

static int32_t below(int64_t limit)
{
    return (int32_t)(lrand48() % limit);
}

static struct batches batches_new(const struct shape *s)
{
    struct batches b;
    size_t n = s->batch * s->context;
    for (int i = 0; i < 2; i++) {
        b.tokens[i] = malloc(n * sizeof(int32_t));
        b.targets[i] = malloc(n * sizeof(int32_t));
        for (size_t j = 0; j < n; j++) {
            b.tokens[i][j] = below(s->config.vocab);
            b.targets[i][j] = j % 5 == 3 ? -1 : below(s->config.vocab);
        }
    }
    return b;
}

static void batches_free(struct batches *b)
{
    for (int i = 0; i < 2; i++) {
        free(b->tokens[i]);
        free(b->targets[i]);
    }
}

static double loss(struct model *model, const struct batches *b)
{
    double sum = 0;
    for (int i = 0; i < 2; i++)
        sum += scales[i] * model_forward(model, b->tokens[i], b->targets[i]);
    return sum;
}

static void fill_parameters(struct model *model)
{
    size_t tensors;
    const struct model_tensor *t = model_tensors(model, &tensors);
    for (size_t i = 0; i < tensors; i++) {
        real *x = model_parameters(model) + t[i].offset;
        for (size_t j = 0; j < t[i].count; j++)
            x[j] = (t[i].dims == 1 && strstr(t[i].name, "weight") ? 1 : 0) + 0.8 * (drand48() - 0.5);
    }
}

/* Derivative of the loss along `direction` (count) from the parameters at x, which come back as they were. */
static double slope(struct model *model, const struct batches *b, real *x, const real *direction,
                    size_t count)
{
    static const double at[] = {-2, -1, 1, 2}, weight[] = {1, -8, 8, -1};
    real *kept = malloc(count * sizeof *kept);
    memcpy(kept, x, count * sizeof *kept);
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        for (size_t j = 0; j < count; j++)
            x[j] = kept[j] + at[i] * STEP * direction[j];
        sum += weight[i] * loss(model, b);
    }
    memcpy(x, kept, count * sizeof *kept);
    free(kept);
    return sum / (12 * STEP);
}

static void expect_close(double measured, double gradient, const char *shape, const char *tensor,
                         size_t element)
{
    double size = fmax(fmax(fabs(measured), fabs(gradient)), FLOOR);
    if (!(fabs(measured - gradient) <= TOLERANCE * size))
        fail_msg("%s: %s[%zu]: gradient %.12g, measured %.12g", shape, tensor, element, gradient, measured);
}

static void check_elements(struct model *model, const struct batches *b, const struct model_tensor *t,
                           const char *shape)
{
    size_t tries = t->count <= 2 * SAMPLES ? t->count : SAMPLES;
    for (size_t i = 0; i < tries; i++) {
        size_t j = tries == t->count ? i : (size_t)lrand48() % t->count;
        const real one = 1;
        double measured = slope(model, b, model_parameters(model) + t->offset + j, &one, 1);
        expect_close(measured, model_gradients(model)[t->offset + j], shape, t->name, j);
    }
}

/* All elements at once, along a random direction of length about 1. */
static void check_direction(struct model *model, const struct batches *b, const struct model_tensor *t,
                            const char *shape)
{
    real *direction = malloc(t->count * sizeof *direction);
    double expected = 0;
    for (size_t j = 0; j < t->count; j++) {
        direction[j] = (drand48() - 0.5) * 3 / sqrt((double)t->count);
        expected += direction[j] * model_gradients(model)[t->offset + j];
    }
    double measured = slope(model, b, model_parameters(model) + t->offset, direction, t->count);
    expect_close(measured, expected, shape, t->name, SIZE_MAX);
    free(direction);
}

/* What lies between the tensors (padding) has neither values nor gradients. */
static void check_padding(struct model *model, const char *shape)
{
    size_t tensors, at = 0;
    const struct model_tensor *t = model_tensors(model, &tensors);
    for (size_t i = 0; i <= tensors; i++) {
        size_t end = i < tensors ? t[i].offset : model_parameter_count(model);
        for (; at < end; at++) {
            if (model_gradients(model)[at] != 0 || model_parameters(model)[at] != 0)
                fail_msg("%s: padding at %zu is not 0", shape, at);
        }
        at = i < tensors ? t[i].offset + t[i].count : end;
    }
}

static void check_shape(const struct shape *s)
{
    struct err err;
    struct model *model = model_new(&s->config, s->batch, s->context, &err);
    if (!model)
        fail_msg("%s: %s", s->name, err.text);
    srand48(7);
    fill_parameters(model);
    struct batches b = batches_new(s);
    memset(model_gradients(model), 0xFF, model_parameter_count(model) * sizeof(real)); /* NaN */
    model_zero_gradients(model);
    for (int i = 0; i < 2; i++) {
        model_forward(model, b.tokens[i], b.targets[i]);
        model_backward(model, scales[i]);
    }
    check_padding(model, s->name);
    size_t tensors;
    const struct model_tensor *t = model_tensors(model, &tensors);
    for (size_t i = 0; i < tensors; i++) {
        check_elements(model, &b, &t[i], s->name);
        check_direction(model, &b, &t[i], s->name);
    }
    batches_free(&b);
    model_free(model);
}

static void gradients_match_differences(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        check_shape(&shapes[i]);
}

int main(void)
{
    omp_set_num_threads(1); /* the models are too small to share */
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_match_differences)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
