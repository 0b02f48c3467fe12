/* Losses, gradients and twenty updates of whole models beside what PyTorch's autograd found for the same parameters and tokens, in double
 * (tests/fixtures/model/reference.py, which also makes the numbers read here). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/fsutil.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "kernels/kernels.h"
#include "runtime/engine/optimizer.h"
#include "runtime/engine/schedule.h"
#include "runtime/model/model.h"

#define FILE_NAME "tests/fixtures/model/reference.json"
#define FILE_MAX  (1u << 20)
/* Float against double: what rounding adds up to within one pass, and within twenty updates. */
#define ONE_PASS 5e-6
#define TRAINING 2e-5

static const struct job_optimizer adamw = {.lr = 1e-2,
                                           .min_lr = 1e-3,
                                           .weight_decay = 0.1,
                                           .beta1 = 0.9,
                                           .beta2 = 0.95,
                                           .eps = 1e-8,
                                           .clip = 1,
                                           .warmup = 5,
                                           .schedule = LR_COSINE};

/* One row of the file and the model made from it. */
struct reference {
    const json_t *row;
    const char *name;
    struct model *model;
    int64_t vocab;
    size_t tokens; /* of a batch */
};

static uint32_t word(uint32_t stream, size_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u + stream * 40503u + 12345u;
    x ^= x >> 15;
    x *= 2246822519u;
    return x ^ (x >> 13);
}

static real fraction(uint32_t stream, size_t i)
{
    return (real)(word(stream, i) >> 8) / (1 << 24) - (real)0.5;
}

static int64_t size_in(const json_t *row, const char *key)
{
    int64_t value = jsonx_int_or(row, key, 0);
    assert_true(value > 0);
    return value;
}

static struct reference reference_open(const json_t *row)
{
    struct err err;
    struct reference r = {.row = row, .name = jsonx_str_or(row, "name", "")};
    struct job_model config = {.layers = size_in(row, "layers"),
                               .hidden = size_in(row, "hidden"),
                               .heads = size_in(row, "heads"),
                               .kv_heads = size_in(row, "kv_heads"),
                               .ffn = size_in(row, "ffn"),
                               .vocab = size_in(row, "vocab"),
                               .context = size_in(row, "context"),
                               .tied = true,
                               .norm_eps = 1e-5,
                               .rope_theta = 10000};
    config.arch = strcmp(jsonx_str_or(row, "arch", ""), "gpt2") == 0 ? ARCH_GPT2 : ARCH_LLAMA;
    size_t batch = (size_t)size_in(row, "batch"), count;
    r.vocab = config.vocab;
    r.tokens = batch * (size_t)config.context;
    r.model = model_new(&config, batch, (size_t)config.context, &err);
    if (!r.model)
        fail_msg("%s: %s", r.name, err.text);
    const struct model_tensor *t = model_tensors(r.model, &count);
    for (size_t i = 0; i < count; i++) {
        bool scale = t[i].dims == 1 && strstr(t[i].name, "weight");
        for (size_t j = 0; j < t[i].count; j++)
            model_parameters(r.model)[t[i].offset + j] = fraction((uint32_t)i, j) / 2 + (real)(scale ? 1 : 0);
    }
    return r;
}

/* Gradients of scale * the loss of batch `number`; returns the loss, summed. */
static double pass(struct reference *r, uint32_t number, double scale)
{
    int32_t *tokens = mem_zero(r->tokens, sizeof *tokens), *targets = mem_zero(r->tokens, sizeof *targets);
    for (size_t i = 0; i < r->tokens; i++) {
        tokens[i] = (int32_t)(word(1000 + number, i) % r->vocab);
        targets[i] = r->tokens > 1 && i % 5 == 3 ? -1 : (int32_t)(word(2000 + number, i) % r->vocab);
    }
    model_zero_gradients(r->model);
    double loss = model_forward(r->model, tokens, targets);
    model_backward(r->model, (real)scale);
    free(targets);
    free(tokens);
    return loss;
}

static void expect_near(const struct reference *r, const char *what, double got, double expected,
                        double allowed)
{
    if (!(fabs(got - expected) <= allowed))
        fail_msg("%s: %s is %.9g, PyTorch has %.9g (differs by %.2g, allowed %.2g)", r->name, what, got,
                 expected, fabs(got - expected), allowed);
}

/* A norm of the gradient and its product with the probe vector. The tolerance counts from the largest gradient of the model: those of a
 * key's bias, say, are 0 but for rounding. */
static void check_gradient(const struct reference *r, size_t i, const struct model_tensor *t,
                           const json_t *expected, double largest)
{
    const real *g = model_gradients(r->model) + t->offset;
    double squares = 0, probe = 0, norm = jsonx_real_or(expected, "norm", NAN);
    for (size_t j = 0; j < t->count; j++) {
        squares += (double)g[j] * (double)g[j];
        probe += (double)g[j] * (double)fraction((uint32_t)(5000 + i), j);
    }
    double allowed = ONE_PASS * norm + 1e-6 * largest;
    assert_string_equal(t->name, jsonx_str_or(expected, "name", ""));
    expect_near(r, t->name, sqrt(squares), norm, allowed);
    expect_near(r, t->name, probe, jsonx_real_or(expected, "probe", NAN), allowed);
}

static void check_pass(struct reference *r)
{
    size_t count;
    double largest = 0, loss = jsonx_real_or(r->row, "loss", NAN);
    const struct model_tensor *t = model_tensors(r->model, &count);
    const json_t *gradients = json_object_get(r->row, "gradients");
    expect_near(r, "the loss", pass(r, 0, 1), loss, ONE_PASS * loss);
    assert_int_equal(json_array_size(gradients), count);
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, jsonx_real_or(json_array_get(gradients, i), "norm", NAN));
    for (size_t i = 0; i < count; i++)
        check_gradient(r, i, &t[i], json_array_get(gradients, i), largest);
}

static void check_training(struct reference *r)
{
    struct err err;
    size_t tensors, count = model_parameter_count(r->model);
    const struct model_tensor *t = model_tensors(r->model, &tensors);
    struct optimizer *o = optimizer_new(count, t, tensors, &err);
    const json_t *losses = json_object_get(r->row, "losses"), *norms = json_object_get(r->row, "norms");
    int64_t steps = (int64_t)json_array_size(losses);
    assert_int_equal(steps, 20);
    for (int64_t step = 1; step <= steps; step++) {
        double loss = pass(r, (uint32_t)(step % 4), 1 / (double)r->tokens) / (double)r->tokens;
        double norm = sqrt(kernel_sum_of_squares(model_gradients(r->model), count));
        double expected = json_real_value(json_array_get(losses, (size_t)step - 1));
        double expected_norm = json_real_value(json_array_get(norms, (size_t)step - 1));
        expect_near(r, "a loss in training", loss, expected, TRAINING * expected);
        expect_near(r, "a gradient norm in training", norm, expected_norm, 10 * TRAINING * expected_norm);
        optimizer_step(o, &adamw, schedule_lr(&adamw, steps, step), step,
                       optimizer_clip_scale(norm, adamw.clip), model_parameters(r->model),
                       model_gradients(r->model));
    }
    optimizer_free(o);
}

static void losses_gradients_and_training_are_those_of_pytorch(void **state)
{
    (void)state;
    struct err err;
    json_t *file = jsonx_read_file(FILE_NAME, FILE_MAX, &err);
    if (!file)
        fail_msg("%s", err.text);
    const json_t *cases = json_object_get(file, "cases");
    assert_true(json_array_size(cases) >= 11);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        struct reference r = reference_open(json_array_get(cases, i));
        check_pass(&r);
        check_training(&r);
        model_free(r.model);
    }
    json_decref(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_gradients_and_training_are_those_of_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
