/* The model in the number type it trains in: repeatability bit by bit, first values, names, refusals, and that float follows double's
 * gradients (tests/unit/double) as far as float can tell. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/kernels.h"
#include "runtime/model/model.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define B        3
#define T        19

/* A model whose head is the table of embeddings. */
#define MODEL(arch_, layers_, hidden_, heads_, kv_heads_, ffn_, vocab_, context_, experts_, top_k_)          \
    {                                                                                                        \
        .arch = (arch_), .layers = (layers_), .hidden = (hidden_), .heads = (heads_),                        \
        .kv_heads = (kv_heads_), .ffn = (ffn_), .vocab = (vocab_), .context = (context_),                    \
        .experts = (experts_), .top_k = (top_k_), .tied = true, .norm_eps = 1e-5, .rope_theta = 10000        \
    }

static const struct job_model gpt2 = MODEL(ARCH_GPT2, 2, 48, 3, 3, 100, 257, 32, 0, 0);
static const struct job_model llama = MODEL(ARCH_LLAMA, 2, 48, 6, 2, 100, 257, 32, 0, 0);

static struct model *model_made(const struct job_model *config)
{
    struct err err;
    struct model *model = model_new(config, B, T, &err);
    if (!model)
        fail_msg("%s", err.text);
    model_init(model, 1337);
    return model;
}

static void tokens_at(size_t number, int32_t *tokens, int32_t *targets)
{
    for (size_t i = 0; i < B * T; i++) {
        tokens[i] = (int32_t)((i * 31 + number * 7) % 257);
        targets[i] = i % 7 == 6 ? -1 : (int32_t)(((i + 1) * 31 + number * 7) % 257);
    }
}

/* Trains for `steps`; losses (steps) may be NULL. */
static void train(struct model *model, size_t steps, double *losses)
{
    size_t count = model_parameter_count(model);
    real *m = kernel_alloc(count), *v = kernel_alloc(count);
    for (size_t i = 0; i < steps; i++) {
        int32_t tokens[B * T], targets[B * T];
        const struct kernel_adamw adamw = {3e-3, 0.9, 0.95, 1e-8, 0.1, 1, (int64_t)i + 1};
        tokens_at(i % 3, tokens, targets);
        model_zero_gradients(model);
        losses[i] = model_forward(model, tokens, targets) / (B * T);
        model_backward(model, (real)1 / (B * T));
        kernel_adamw(model_parameters(model), m, v, model_gradients(model), count, &adamw);
    }
    kernel_free(m);
    kernel_free(v);
}

static void check_training(const struct job_model *config)
{
    enum { STEPS = 60 };
    double first[STEPS], second[STEPS];
    struct model *a = model_made(config), *b = model_made(config);
    train(a, STEPS, first);
    train(b, STEPS, second);
    assert_true(fabs(first[0] - log(257) * 49 / 57) < 0.1);
    assert_true(first[STEPS - 1] < 0.3 * first[0]);
    assert_memory_equal(first, second, sizeof first);
    assert_memory_equal(model_parameters(a), model_parameters(b), model_parameter_count(a) * sizeof(real));
    model_free(a);
    model_free(b);
}

static void training_learns_and_repeats_bit_by_bit(void **state)
{
    (void)state;
    check_training(&gpt2);
    check_training(&llama);
}

static void backward_twice_adds_twice(void **state)
{
    (void)state;
    int32_t tokens[B * T], targets[B * T];
    struct model *model = model_made(&gpt2);
    size_t count = model_parameter_count(model);
    real *once = kernel_alloc(count);
    tokens_at(0, tokens, targets);
    for (int i = 0; i < 2; i++) {
        model_forward(model, tokens, targets);
        model_backward(model, 0.5f);
        if (i == 0)
            memcpy(once, model_gradients(model), count * sizeof *once);
    }
    for (size_t i = 0; i < count; i++)
        assert_true(fabs((double)model_gradients(model)[i] - 2 * (double)once[i]) <=
                    1e-5 + 1e-5 * fabs((double)once[i]));
    kernel_free(once);
    model_free(model);
}

/* The loss, summed in double, along the gradient's own direction: the best that float resolves. */
static void check_slope(const struct job_model *config)
{
    int32_t tokens[B * T], targets[B * T];
    struct model *model = model_made(config);
    size_t count = model_parameter_count(model);
    real *p = model_parameters(model), *g = model_gradients(model), *kept = kernel_alloc(count);
    tokens_at(1, tokens, targets);
    model_forward(model, tokens, targets);
    model_backward(model, 1);
    double norm = sqrt(kernel_sum_of_squares(g, count)), at[2];
    memcpy(kept, p, count * sizeof *p);
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < count; i++)
            p[i] = kept[i] + (real)((side ? -0.01 : 0.01) / norm) * g[i];
        at[side] = model_forward(model, tokens, targets);
    }
    double measured = (at[0] - at[1]) / 0.02;
    if (!(fabs(measured - norm) < 5e-3 * norm))
        fail_msg("slope along the gradient is %.7g, its length %.7g", measured, norm);
    kernel_free(kept);
    model_free(model);
}

static void float_gradient_is_the_slope_of_the_loss(void **state)
{
    (void)state;
    check_slope(&gpt2);
    check_slope(&llama);
}

static const struct model_tensor *find(const struct model *model, const char *name)
{
    size_t count;
    const struct model_tensor *t = model_tensors(model, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(t[i].name, name) == 0)
            return &t[i];
    }
    fail_msg("no tensor %s", name);
    return NULL;
}

struct expected {
    const struct job_model *config;
    const char *name;
    size_t rows, columns; /* columns 0: a vector */
    bool decay;
    double mean, std;
};
static const struct expected expected_tensors[] = {
    {&gpt2, "wte.weight", 257, 48, true, 0, 0.02},
    {&gpt2, "wpe.weight", 32, 48, false, 0, 0.02},
    {&gpt2, "h.1.ln_1.weight", 48, 0, false, 1, 0},
    {&gpt2, "h.0.attn.c_attn.weight", 48, 144, true, 0, 0.02},
    {&gpt2, "h.0.attn.c_attn.bias", 144, 0, false, 0, 0},
    {&gpt2, "h.1.attn.c_proj.weight", 48, 48, true, 0, 0.01},
    {&gpt2, "h.1.mlp.c_fc.weight", 48, 100, true, 0, 0.02},
    {&gpt2, "h.1.mlp.c_proj.weight", 100, 48, true, 0, 0.01},
    {&gpt2, "ln_f.bias", 48, 0, false, 0, 0},
    {&llama, "model.embed_tokens.weight", 257, 48, true, 0, 0.02},
    {&llama, "model.layers.1.self_attn.q_proj.weight", 48, 48, true, 0, 0.02},
    {&llama, "model.layers.0.self_attn.k_proj.weight", 16, 48, true, 0, 0.02},
    {&llama, "model.layers.0.self_attn.o_proj.weight", 48, 48, true, 0, 0.01},
    {&llama, "model.layers.1.post_attention_layernorm.weight", 48, 0, false, 1, 0},
    {&llama, "model.layers.1.mlp.gate_proj.weight", 100, 48, true, 0, 0.02},
    {&llama, "model.layers.1.mlp.down_proj.weight", 48, 100, true, 0, 0.01},
    {&llama, "lm_head.weight", 257, 48, true, 0, 0.02},
};

static void tensors_have_their_names_shapes_and_first_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(expected_tensors); i++) {
        const struct expected *e = &expected_tensors[i];
        struct model *model = model_made(e->config);
        const struct model_tensor *t = find(model, e->name);
        const real *x = model_parameters(model) + t->offset;
        double sum = 0, squares = 0;
        for (size_t j = 0; j < t->count; j++)
            sum += (double)x[j];
        for (size_t j = 0; j < t->count; j++)
            squares += pow((double)x[j] - sum / (double)t->count, 2);
        assert_int_equal(t->dims, e->columns ? 2 : 1);
        assert_int_equal(t->shape[0], e->rows);
        assert_int_equal(t->dims == 2 ? t->shape[1] : 0, e->columns);
        assert_int_equal(t->count, e->rows * (e->columns ? e->columns : 1));
        assert_int_equal(t->decay, e->decay);
        assert_true(fabs(sum / (double)t->count - e->mean) <= 0.15 * e->std);
        assert_true(fabs(sqrt(squares / (double)t->count) - e->std) <= 0.1 * e->std);
        model_free(model);
    }
}

static void first_values_depend_on_the_seed_alone(void **state)
{
    (void)state;
    struct model *a = model_made(&llama), *b = model_made(&llama);
    size_t count = model_parameter_count(a);
    double loss[60];
    train(b, 3, loss);
    model_init(b, 1337);
    assert_memory_equal(model_parameters(a), model_parameters(b), count * sizeof(real));
    model_init(b, 1338);
    const struct model_tensor *t = find(b, "lm_head.weight");
    size_t same = 0;
    for (size_t i = t->offset; i < t->offset + t->count; i++)
        same += model_parameters(a)[i] == model_parameters(b)[i];
    assert_true(same < t->count / 100);
    model_free(a);
    model_free(b);
}

static void tokens_outside_the_vocabulary_give_nan_and_nothing_else(void **state)
{
    (void)state;
    static const struct {
        int32_t token, target;
    } bad[] = {{-1, 0}, {257, 0}, {INT32_MAX, 0}, {INT32_MIN, 0}, {0, 257}, {0, INT32_MAX}};
    struct model *model = model_made(&gpt2);
    for (size_t i = 0; i < COUNT(bad); i++) {
        int32_t tokens[B * T], targets[B * T];
        tokens_at(0, tokens, targets);
        tokens[i] = bad[i].token;
        targets[i] = bad[i].target;
        assert_true(isnan(model_forward(model, tokens, targets)));
        model_backward(model, 1);
        assert_true(kernel_sum_of_squares(model_gradients(model), model_parameter_count(model)) == 0);
    }
    model_free(model);
}

static void nan_in_a_parameter_reaches_the_loss(void **state)
{
    (void)state;
    const char *names[] = {"wte.weight", "h.0.ln_1.bias", "h.1.attn.c_attn.weight", "h.0.mlp.c_fc.weight",
                           "ln_f.weight"};
    for (size_t i = 0; i < COUNT(names); i++) {
        int32_t tokens[B * T], targets[B * T];
        struct model *model = model_made(&gpt2);
        tokens_at(0, tokens, targets);
        model_parameters(model)[find(model, names[i])->offset] = NAN;
        assert_true(isnan(model_forward(model, tokens, targets)));
        model_free(model);
    }
}

struct refusal {
    struct job_model config;
    size_t batch, context;
    const char *text;
};
static const struct refusal refusals[] = {
    {MODEL(ARCH_GPT2, 1, 50, 3, 3, 8, 97, 8, 0, 0), 1, 8, "not a multiple of heads"},
    {MODEL(ARCH_LLAMA, 1, 48, 6, 4, 8, 97, 8, 0, 0), 1, 8, "not a multiple of kv_heads"},
    {MODEL(ARCH_GPT2, 1, 48, 6, 2, 8, 97, 8, 0, 0), 1, 8, "arch: llama"},
    {MODEL(ARCH_LLAMA, 1, 15, 3, 3, 8, 97, 8, 0, 0), 1, 8, "odd"},
    {MODEL(ARCH_LLAMA, 1, 48, 3, 3, 8, 97, 8, 4, 2), 1, 8, "experts"},
    {MODEL(ARCH_GPT2, 1, 48, 3, 3, 8, 97, 8, 0, 0), 1, 9, "context"},
    {MODEL(ARCH_GPT2, 1, 48, 3, 3, 8, 97, 8, 0, 0), 1, 0, "context"},
    {MODEL(ARCH_GPT2, 1, 48, 3, 3, 8, 97, 8, 0, 0), 0, 8, "micro-batch"},
    {MODEL(ARCH_GPT2, 0, 48, 3, 3, 8, 97, 8, 0, 0), 1, 8, "layers"},
    {MODEL(ARCH_GPT2, 1, 48, 3, 3, 8, INT64_MAX, 8, 0, 0), 1, 8, "vocab"},
    {MODEL(ARCH_GPT2, 1000, 100000, 1, 1, 400000, 500000, 8, 0, 0), 1, 8, "memory"},
};

static void what_cannot_be_is_refused_with_a_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refusals); i++) {
        struct err err = {""};
        const struct refusal *r = &refusals[i];
        assert_null(model_new(&r->config, r->batch, r->context, &err));
        if (!strstr(err.text, r->text))
            fail_msg("refusal %zu says '%s', not '%s'", i, err.text, r->text);
    }
}

static void flops_follow_the_palm_count(void **state)
{
    (void)state;
    const struct job_model gpt2_124m = MODEL(ARCH_GPT2, 12, 768, 12, 12, 3072, 50257, 1024, 0, 0);
    assert_true(model_flops_per_token(&gpt2_124m, 1024) == 6.0 * 124439808 + 12.0 * 12 * 768 * 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_learns_and_repeats_bit_by_bit),
        cmocka_unit_test(backward_twice_adds_twice),
        cmocka_unit_test(float_gradient_is_the_slope_of_the_loss),
        cmocka_unit_test(tensors_have_their_names_shapes_and_first_values),
        cmocka_unit_test(first_values_depend_on_the_seed_alone),
        cmocka_unit_test(tokens_outside_the_vocabulary_give_nan_and_nothing_else),
        cmocka_unit_test(nan_in_a_parameter_reaches_the_loss),
        cmocka_unit_test(what_cannot_be_is_refused_with_a_sentence),
        cmocka_unit_test(flops_follow_the_palm_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
