/* Losses, every gradient and twenty updates of whole models beside what PyTorch's autograd found for the same parameters and tokens, in double
 * (tests/fixtures/model/reference.py, which also makes the numbers read here). One rank, in float, and roughly in bf16. */
#include "one_rank.h"

#include "common/jsonx.h"
#include "runtime/engine/schedule.h"

#define FILE_NAME "tests/fixtures/model/reference.json"
#define FILE_MAX  (1u << 20)
/* Float against double: what rounding adds up to within one pass (relative to the tensor's largest gradient), and within twenty updates. */
#define LOSS     1e-6
#define GRADIENT 1e-5
#define TRAINING 1e-4
/* The same for bf16, of which one rounding is 4e-3: most of them cancel each other in sums. */
#define BF16_LOSS     4e-3
#define BF16_GRADIENT 2e-2
#define BF16_TRAINING 5e-2
/* A gradient that is 0 but for rounding, as a key's bias has it, is measured by this share of the norm of all gradients. */
#define NO_GRADIENT 1e-3

static const struct job_optimizer adamw = {.lr = 1e-2,
                                           .min_lr = 1e-3,
                                           .weight_decay = 0.1,
                                           .beta1 = 0.9,
                                           .beta2 = 0.95,
                                           .eps = 1e-8,
                                           .clip = 1,
                                           .warmup = 5,
                                           .schedule = LR_COSINE};

/* One row of the file and the engine made from it. */
struct reference {
    const json_t *row;
    const char *name;
    struct job_spec spec;
    struct engine *engine;
    double norm; /* of all gradients */
};

static int64_t size_in(const json_t *row, const char *key, int64_t least)
{
    int64_t value = 0;
    struct err err;
    if (jsonx_int(row, key, least, 1 << 20, &value, &err) != 0)
        fail_msg("%s", err.text);
    return value;
}

static double number(const json_t *row, const char *key)
{
    double x = jsonx_real_or(row, key, NAN);
    if (isnan(x))
        fail_msg("%s: no number %s", jsonx_str_or(row, "name", "?"), key);
    return x;
}

static struct job_model config_of(const json_t *row)
{
    return (struct job_model){.arch =
                                  strcmp(jsonx_str_or(row, "arch", ""), "gpt2") == 0 ? ARCH_GPT2 : ARCH_LLAMA,
                              .layers = size_in(row, "layers", 1),
                              .hidden = size_in(row, "hidden", 1),
                              .heads = size_in(row, "heads", 1),
                              .kv_heads = size_in(row, "kv_heads", 1),
                              .ffn = size_in(row, "ffn", 1),
                              .vocab = size_in(row, "vocab", 1),
                              .context = size_in(row, "context", 1),
                              .experts = size_in(row, "experts", 0),
                              .top_k = size_in(row, "top_k", 0),
                              .tied = jsonx_bool_or(row, "tied", false),
                              .norm_eps = 1e-5,
                              .rope_theta = number(row, "theta"),
                              .capacity = number(row, "capacity"),
                              .balance_loss = number(row, "balance"),
                              .router_z_loss = number(row, "z")};
}

/* Sample i is sequence i % batch of batch number i / batch; targets as in reference.py. */
static int fill(void *owner, uint64_t first, size_t count, int32_t *tokens, int32_t *targets, struct err *err)
{
    const struct job_train *t = owner;
    size_t context = (size_t)t->model.context, batch = (size_t)t->batch_global, all = batch * context;
    uint32_t vocab = (uint32_t)t->model.vocab;
    (void)err;
    for (size_t i = 0; i < count * context; i++) {
        uint32_t batch_number = (uint32_t)((first + i / context) / batch);
        size_t at = (first + i / context) % batch * context + i % context;
        bool masked = all > 1 && (at % 5 == 3 || at / context == 2);
        tokens[i] = (int32_t)(word(1000 + batch_number, at) % vocab);
        targets[i] = masked ? -1 : (int32_t)(word(2000 + batch_number, at) % vocab);
    }
    return 0;
}

/* Tensors are filled in the order of the file: its names and shapes are those of the layout. */
static void fill_tensors(struct reference *r)
{
    const json_t *tensors = json_object_get(r->row, "tensors");
    assert_int_equal(json_array_size(tensors), engine_layout(r->engine)->n_tensors);
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        const json_t *x = json_array_get(tensors, i), *shape = json_object_get(x, "shape");
        struct whole w = whole_named(r->engine, jsonx_str_or(x, "name", ""));
        assert_int_equal(json_array_size(shape), w.tensor->dims);
        for (size_t d = 0; d < w.tensor->dims; d++)
            assert_int_equal(json_integer_value(json_array_get(shape, d)), w.tensor->shape[d]);
        assert_int_equal(jsonx_bool_or(x, "decay", !w.tensor->decay), w.tensor->decay);
        whole_fill(&w, (uint32_t)i, 0.5);
        r->norm = hypot(r->norm, number(x, "norm"));
    }
    store_spread(engine_store(r->engine));
}

static void reference_open(struct reference *r, const json_t *row, enum kernel_type type)
{
    struct job_model config = config_of(row);
    int64_t batch = size_in(row, "batch", 1);
    *r = (struct reference){
        .row = row, .name = jsonx_str_or(row, "name", "?"), .spec = one_spec(&config, batch, batch)};
    r->engine = one_engine_of(&r->spec, type);
    fill_tensors(r);
}

static struct engine_result pass(struct reference *r, int64_t step, uint64_t batch_number)
{
    struct err err;
    struct engine_result result;
    struct engine_source source = {&r->spec.train, fill};
    uint64_t first = batch_number * (uint64_t)r->spec.train.batch_global;
    assert_int_equal(engine_load(r->engine, &source, first, &err), 0);
    engine_gradients(r->engine, step, &result);
    return result;
}

static void expect_near(const struct reference *r, const char *tensor, const char *what, double got,
                        double expected, double allowed)
{
    if (!(fabs(got - expected) <= allowed))
        fail_msg("%s: %s %s is %.9g, PyTorch has %.9g (differs by %.2g, allowed %.2g)", r->name, tensor, what,
                 got, expected, fabs(got - expected), allowed);
}

static void check_values(const struct reference *r, const struct whole *w, const json_t *values,
                         double allowed)
{
    assert_int_equal(json_array_size(values), w->count);
    for (size_t j = 0; j < w->count; j++)
        expect_near(r, w->tensor->name, "gradient's element", (double)w->gradients[j],
                    json_number_value(json_array_get(values, j)), allowed);
}

/* Norm, largest element and product with the probe vector of one tensor's gradient; all elements where the file has them. */
static void check_gradient(const struct reference *r, size_t i, const json_t *x)
{
    struct whole w = whole_named(r->engine, jsonx_str_or(x, "name", ""));
    double squares = 0, probe = 0, largest = 0, norm = number(x, "norm");
    for (size_t j = 0; j < w.count; j++) {
        double g = (double)w.gradients[j];
        squares += g * g;
        probe += g * fraction((uint32_t)(5000 + i), j);
        largest = fmax(largest, fabs(g));
    }
    double allowed = GRADIENT * fmax(number(x, "largest"), NO_GRADIENT * r->norm);
    expect_near(r, w.tensor->name, "gradient's norm", sqrt(squares), norm, allowed + GRADIENT * norm);
    expect_near(r, w.tensor->name, "gradient's largest element", largest, number(x, "largest"), allowed);
    expect_near(r, w.tensor->name, "gradient's probe", probe, number(x, "probe"), allowed + GRADIENT * norm);
    const json_t *values = json_object_get(x, "values");
    if (values)
        check_values(r, &w, values, allowed);
}

static void check_pass(struct reference *r)
{
    const json_t *tensors = json_object_get(r->row, "tensors");
    struct engine_result result = pass(r, 1, 0);
    double loss = number(r->row, "loss"), router = number(r->row, "router");
    expect_near(r, "", "loss", result.loss, loss, LOSS * loss);
    expect_near(r, "", "router loss", result.router, router, LOSS * router);
    for (size_t i = 0; i < json_array_size(tensors); i++)
        check_gradient(r, i, json_array_get(tensors, i));
    expect_near(r, "", "norm of all gradients", result.norm, r->norm, 3 * LOSS * r->norm);
}

/* Parameters after training show what losses hardly do: which of them decay. */
static void check_trained(const struct reference *r)
{
    const json_t *tensors = json_object_get(r->row, "tensors");
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        const json_t *x = json_array_get(tensors, i);
        struct whole w = whole_named(r->engine, jsonx_str_or(x, "name", ""));
        double squares = 0, expected = number(x, "trained");
        for (size_t j = 0; j < w.count; j++)
            squares += (double)w.values[j] * (double)w.values[j];
        /* AdamW turns the rounding in a gradient of 0 into steps of full length */
        if (number(x, "largest") > 1e-6 * r->norm)
            expect_near(r, w.tensor->name, "norm after training", sqrt(squares), expected,
                        TRAINING * expected);
    }
}

static void update(struct reference *r, int64_t steps, int64_t step, double norm)
{
    struct kernel_adamw config = {.lr = schedule_lr(&adamw, steps, step),
                                  .beta1 = adamw.beta1,
                                  .beta2 = adamw.beta2,
                                  .eps = adamw.eps,
                                  .weight_decay = adamw.weight_decay,
                                  .gradient_scale = norm > adamw.clip ? adamw.clip / norm : 1,
                                  .step = step};
    engine_update(r->engine, &config);
}

/* Twenty steps; losses and gradient norms may differ by that share. */
static void check_training(struct reference *r, double loss_share, double norm_share)
{
    const json_t *losses = json_object_get(r->row, "losses"), *norms = json_object_get(r->row, "norms");
    int64_t steps = (int64_t)json_array_size(losses);
    assert_int_equal(steps, 20);
    for (int64_t step = 1; step <= steps; step++) {
        struct engine_result got = pass(r, step, (uint64_t)(step % 4));
        double loss = json_number_value(json_array_get(losses, (size_t)step - 1));
        double norm = json_number_value(json_array_get(norms, (size_t)step - 1));
        expect_near(r, "", "loss in training", got.loss, loss, loss_share * loss);
        expect_near(r, "", "gradient norm in training", got.norm, norm, norm_share * norm);
        update(r, steps, step, got.norm);
    }
}

static void check_exact(struct reference *r)
{
    check_pass(r);
    check_training(r, TRAINING, TRAINING);
    check_trained(r);
}

/* ---- bf16: the same as far as 8 bits allow ---- */

/* How far a gradient's elements are from PyTorch's together. 0 where the file has not all of them. */
static double distance(const struct reference *r, const json_t *x)
{
    const json_t *values = json_object_get(x, "values");
    struct whole w = whole_named(r->engine, jsonx_str_or(x, "name", ""));
    double squares = 0;
    for (size_t j = 0; j < json_array_size(values); j++) {
        double d = (double)w.gradients[j] - json_number_value(json_array_get(values, j));
        squares += d * d;
    }
    return sqrt(squares);
}

static void check_rounded(struct reference *r)
{
    const json_t *tensors = json_object_get(r->row, "tensors");
    struct engine_result result = pass(r, 1, 0);
    double loss = number(r->row, "loss"), router = number(r->row, "router"), far = 0;
    for (size_t i = 0; i < json_array_size(tensors); i++)
        far = hypot(far, distance(r, json_array_get(tensors, i)));
    expect_near(r, "", "loss in bf16", result.loss, loss, BF16_LOSS * loss);
    expect_near(r, "", "router loss in bf16", result.router, router, BF16_LOSS * router);
    expect_near(r, "", "norm in bf16", result.norm, r->norm, BF16_GRADIENT * r->norm);
    expect_near(r, "", "distance of gradients in bf16", far, 0, BF16_GRADIENT * r->norm);
    check_training(r, BF16_TRAINING, INFINITY); /* norms wander off sooner than losses do */
}

static void for_each_case(enum kernel_type type, void (*check)(struct reference *r))
{
    struct err err;
    json_t *file = jsonx_read_file(FILE_NAME, FILE_MAX, &err);
    if (!file)
        fail_msg("%s", err.text);
    const json_t *cases = json_object_get(file, "cases");
    assert_true(json_array_size(cases) >= 20);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        struct reference r;
        reference_open(&r, json_array_get(cases, i), type);
        check(&r);
        engine_free(r.engine);
    }
    json_decref(file);
}

static void losses_gradients_and_training_are_those_of_pytorch(void **state)
{
    (void)state;
    for_each_case(KERNEL_FP32, check_exact);
}

static void in_bf16_they_are_near(void **state)
{
    (void)state;
    for_each_case(KERNEL_BF16, check_rounded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_gradients_and_training_are_those_of_pytorch),
        cmocka_unit_test(in_bf16_they_are_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
