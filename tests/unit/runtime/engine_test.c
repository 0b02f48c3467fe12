/* engine on one rank: how samples are cut into micro-batches does not matter, targets that are not counted do not count, evaluation reads
 * the samples that it was asked for and no others, and training repeats bit by bit. */
#include "one_rank.h"

#define MODEL(arch_, ...)                                                                                    \
    {                                                                                                        \
        .arch = (arch_), .layers = 2, .hidden = 24, .heads = 4, .kv_heads = 4, .ffn = 40, .vocab = 97,       \
        .context = 12, .norm_eps = 1e-5, .rope_theta = 10000, __VA_ARGS__                                    \
    }
#define CONTEXT 12

static const struct job_model models[] = {
    MODEL(ARCH_GPT2, .tied = true),
    MODEL(ARCH_GPT2, .tied = false, .dropout = 0.3),
    MODEL(ARCH_LLAMA, .tied = false),
    MODEL(ARCH_LLAMA, .experts = 4, .top_k = 2, .balance_loss = 0.2, .router_z_loss = 0.05),
    MODEL(ARCH_LLAMA, .experts = 4, .top_k = 1, .capacity = 0.8, .balance_loss = 0.2, .tied = true),
};

/* ---- samples ---- */

/* How many targets of each sample are left out, and which samples were read. */
struct samples {
    bool none_counted;
    uint64_t failing; /* this sample cannot be read; 0: all can */
    uint64_t least, most, reads;
};

static bool is_masked(const struct samples *s, uint64_t sample, size_t at)
{
    return s->none_counted || at < word(77, (size_t)sample) % (CONTEXT + 1);
}

static int fill_one(struct samples *s, uint64_t sample, int32_t *tokens, int32_t *targets, struct err *err)
{
    if (s->failing && sample == s->failing)
        return err_set(err, "sample %llu cannot be read", (unsigned long long)sample);
    for (size_t i = 0; i < CONTEXT; i++) {
        uint32_t begin = word(5, (size_t)sample);
        tokens[i] = (int32_t)((begin + 5 * i) % 97);
        targets[i] = is_masked(s, sample, i) ? -1 : (int32_t)((begin + 5 * i + 5) % 97);
    }
    s->least = s->reads == 0 || sample < s->least ? sample : s->least;
    s->most = sample > s->most ? sample : s->most;
    s->reads++;
    return 0;
}

static int fill(void *owner, uint64_t first, size_t count, int32_t *tokens, int32_t *targets, struct err *err)
{
    for (size_t i = 0; i < count; i++)
        if (fill_one(owner, first + i, tokens + i * CONTEXT, targets + i * CONTEXT, err) != 0)
            return -1;
    return 0;
}

static uint64_t counted_of(const struct samples *s, uint64_t first, uint64_t count)
{
    uint64_t counted = 0;
    for (uint64_t sample = first; sample < first + count; sample++)
        for (size_t at = 0; at < CONTEXT; at++)
            counted += !is_masked(s, sample, at);
    return counted;
}

/* ---- steps ---- */

static struct engine_result step_of(struct engine *e, struct samples *s, int64_t step, uint64_t first)
{
    struct err err;
    struct engine_result r;
    struct engine_source source = {s, fill};
    if (engine_load(e, &source, first, &err) != 0)
        fail_msg("%s", err.text);
    engine_gradients(e, step, &r);
    return r;
}

static struct kernel_adamw adamw_at(int64_t step)
{
    return (struct kernel_adamw){.lr = 3e-3,
                                 .beta1 = 0.9,
                                 .beta2 = 0.95,
                                 .eps = 1e-8,
                                 .weight_decay = 0.1,
                                 .gradient_scale = 1,
                                 .step = step};
}

static struct engine *engine_filled(const struct job_spec *spec)
{
    struct engine *e = one_engine(spec);
    one_fill(e, 0.5);
    return e;
}

/* The gradients of all tensors, one after another; *count of them. free() it. */
static real *all_gradients(struct engine *e, size_t *count)
{
    real *out = NULL;
    *count = 0;
    for (size_t t = 0; t < engine_layout(e)->n_tensors; t++) {
        struct whole w = whole_at(e, t);
        out = mem_grow(out, *count + w.count, sizeof *out);
        memcpy(out + *count, w.gradients, w.count * sizeof *out);
        *count += w.count;
    }
    return out;
}

/* ---- micro-batches ---- */

static void expect_near(const char *what, double got, double expected, double tolerance)
{
    if (!(fabs(got - expected) <= tolerance * fmax(fabs(expected), 1e-9)))
        fail_msg("%s is %.9g, not %.9g", what, got, expected);
}

/* Gradients of two engines, relative to the norm of all. */
static void expect_same_gradients(struct engine *a, struct engine *b, double norm)
{
    size_t count_a, count_b;
    real *x = all_gradients(a, &count_a), *y = all_gradients(b, &count_b);
    assert_int_equal(count_a, count_b);
    for (size_t i = 0; i < count_a; i++)
        if (!(fabs((double)x[i] - (double)y[i]) <= 2e-6 * norm))
            fail_msg("gradient %zu is %.9g, not %.9g", i, (double)y[i], (double)x[i]);
    free(x);
    free(y);
}

/* 16 samples as (micro-batch, passes) = (16,1), (8,2), (4,4), (2,8), (1,16), in every ZeRO stage: the same loss and gradients, although each
 * sample counts another number of targets, some of them none. */
static void check_cuts(const struct job_model *model)
{
    struct samples s = {.failing = 0};
    struct job_spec whole_spec = one_spec(model, 16, 16);
    struct engine *whole = engine_filled(&whole_spec);
    struct engine_result expected = step_of(whole, &s, 3, 32);
    assert_int_equal(expected.counted, counted_of(&s, 32, 16));
    for (int64_t micro = 16; micro > 0; micro /= 2)
        for (int64_t zero = 0; zero < 4; zero++) {
            struct job_spec spec = one_spec(model, 16, micro);
            spec.zero = zero;
            struct engine *e = engine_filled(&spec);
            struct engine_result r = step_of(e, &s, 3, 32);
            expect_near("loss", r.loss, expected.loss, 1e-6);
            expect_near("router loss", r.router, expected.router, 1e-6);
            expect_near("norm", r.norm, expected.norm, 2e-6);
            assert_int_equal(r.counted, expected.counted);
            expect_same_gradients(whole, e, expected.norm);
            engine_free(e);
        }
    engine_free(whole);
}

static void micro_batches_do_not_matter(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(models); i++)
        check_cuts(&models[i]);
}

/* With this vocabulary logits are computed for 64 rows at a time: 15 sequences are 64, 64 and 52 rows, 5 sequences 60. */
static void pieces_of_logits_do_not_matter(void **state)
{
    (void)state;
    struct samples s = {.failing = 0};
    struct job_model model = models[2];
    model.vocab = 540000;
    model.hidden = 8;
    struct job_spec in_pieces = one_spec(&model, 15, 15), at_once = one_spec(&model, 15, 5);
    struct engine *a = engine_filled(&in_pieces), *b = engine_filled(&at_once);
    struct engine_result x = step_of(a, &s, 1, 0), y = step_of(b, &s, 1, 0);
    expect_near("loss", x.loss, y.loss, 1e-6);
    expect_near("norm", x.norm, y.norm, 2e-6);
    expect_same_gradients(a, b, x.norm);
    engine_free(a);
    engine_free(b);
}

/* A step's loss is the mean over its targets, not over its micro-batches or sequences. */
static void loss_is_the_mean_over_counted_targets(void **state)
{
    (void)state;
    struct samples s = {.failing = 0};
    struct job_spec all = one_spec(&models[0], 6, 2), single = one_spec(&models[0], 1, 1);
    struct engine *e = engine_filled(&all), *one = engine_filled(&single);
    double sum = 0;
    uint64_t counted = 0;
    for (uint64_t sample = 40; sample < 46; sample++) {
        struct engine_result r = step_of(one, &s, 1, sample);
        sum += r.loss * (double)r.counted;
        counted += r.counted;
    }
    struct engine_result r = step_of(e, &s, 1, 40);
    assert_int_equal(r.counted, counted);
    expect_near("loss", r.loss, sum / (double)counted, 1e-6);
    expect_near("own sum", r.own, sum, 1e-6);
    engine_free(e);
    engine_free(one);
}

/* ---- recomputation ---- */

/* In both types: what is computed again has the bits of the first time. */
static void recomputation_gives_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(models) * 4; i++) {
        struct samples s = {.failing = 0};
        enum kernel_type type = i % 2 ? KERNEL_BF16 : KERNEL_FP32;
        struct job_spec spec = one_spec(&models[i / 4], 6, 2), again = spec;
        again.train.recompute = i / 2 % 2 ? RECOMPUTE_FULL : RECOMPUTE_SELECTIVE;
        struct engine *a = one_engine_of(&spec, type), *b = one_engine_of(&again, type);
        one_fill(a, 0.5);
        one_fill(b, 0.5);
        assert_true(step_of(a, &s, 1, 0).loss == step_of(b, &s, 1, 0).loss);
        size_t count, count_b;
        real *x = all_gradients(a, &count), *y = all_gradients(b, &count_b);
        assert_memory_equal(x, y, count * sizeof *x);
        assert_true(engine_activation_bytes(b) < engine_activation_bytes(a));
        free(x);
        free(y);
        engine_free(a);
        engine_free(b);
    }
}

/* ---- nothing to learn from ---- */

static void without_targets_loss_and_gradients_are_zero(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(models); i++)
        for (int64_t zero = 0; zero < 4; zero++) {
            struct samples s = {.none_counted = true};
            struct job_model model = models[i];
            model.balance_loss = model.router_z_loss = 0; /* these need no targets */
            struct job_spec spec = one_spec(&model, 4, 2);
            spec.zero = zero;
            struct engine *e = engine_filled(&spec);
            struct engine_result r = step_of(e, &s, 1, 0);
            size_t count;
            real *gradients = all_gradients(e, &count);
            assert_true(r.loss == 0 && r.norm == 0 && r.counted == 0);
            for (size_t j = 0; j < count; j++)
                assert_true(gradients[j] == 0);
            free(gradients);
            engine_free(e);
        }
}

static void without_targets_routers_still_learn(void **state)
{
    (void)state;
    struct samples s = {.none_counted = true};
    struct job_spec spec = one_spec(&models[3], 4, 2);
    struct engine *e = engine_filled(&spec);
    struct engine_result r = step_of(e, &s, 1, 0);
    assert_true(r.loss == 0 && r.router > 0 && r.norm > 0);
    engine_free(e);
}

/* ---- dropout ---- */

static void dropout_depends_on_step_and_sample(void **state)
{
    (void)state;
    struct samples s = {.failing = 0};
    struct job_spec spec = one_spec(&models[1], 4, 4), other_seed = spec;
    other_seed.train.seed = 8;
    struct engine *e = engine_filled(&spec), *other = engine_filled(&other_seed);
    double loss = step_of(e, &s, 1, 0).loss;
    assert_true(step_of(e, &s, 1, 0).loss == loss);
    assert_true(fabs(step_of(e, &s, 2, 0).loss - loss) > 1e-4);
    assert_true(fabs(step_of(other, &s, 1, 0).loss - loss) > 1e-4);
    engine_free(e);
    engine_free(other);
}

/* ---- evaluation ---- */

static double evaluate(struct engine *e, struct samples *s, uint64_t first, uint64_t count)
{
    struct err err;
    struct engine_source source = {s, fill};
    double loss = NAN;
    s->reads = s->most = 0;
    if (engine_evaluate(e, &source, first, count, &loss, &err) != 0)
        fail_msg("%s", err.text);
    assert_true(s->reads == 0 || (s->least == first && s->most == first + count - 1));
    return loss;
}

/* The same from samples one by one, in an engine that drops nothing. */
static double one_by_one(const struct job_model *model, struct samples *s, uint64_t first, uint64_t count)
{
    struct job_model still = *model;
    still.dropout = 0;
    struct job_spec spec = one_spec(&still, 1, 1);
    struct engine *e = engine_filled(&spec);
    double sum = 0, counted = 0;
    for (uint64_t sample = first; sample < first + count; sample++) {
        struct engine_result r = step_of(e, s, 1, sample);
        sum += r.loss * (double)r.counted;
        counted += (double)r.counted;
    }
    engine_free(e);
    return counted > 0 ? sum / counted : 0;
}

static void evaluation_counts_exactly_what_was_asked_for(void **state)
{
    (void)state;
    static const struct {
        uint64_t first, count;
    } spans[] = {{0, 8}, {100, 13}, {7, 1}, {1000, 3}, {3, 5}, {50, 16}};
    for (size_t i = 0; i < COUNT(models); i++)
        for (size_t j = 0; j < COUNT(spans); j++) {
            struct samples s = {.failing = 0};
            struct job_spec spec = one_spec(&models[i], 8, 4);
            struct engine *e = engine_filled(&spec);
            double loss = evaluate(e, &s, spans[j].first, spans[j].count);
            expect_near("held-out loss", loss, one_by_one(&models[i], &s, spans[j].first, spans[j].count),
                        1e-6);
            engine_free(e);
        }
}

/* Evaluation between load and update leaves parameters and gradients alone. */
static void evaluation_changes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(models); i++) {
        struct samples s = {.failing = 0};
        struct job_spec spec = one_spec(&models[i], 8, 4);
        struct engine *a = engine_filled(&spec), *b = engine_filled(&spec);
        for (int64_t step = 1; step <= 3; step++) {
            struct kernel_adamw adamw = adamw_at(step);
            double loss = step_of(a, &s, step, 0).loss;
            assert_true(step_of(b, &s, step, 0).loss == loss);
            (void)evaluate(b, &s, 500, 6);
            engine_update(a, &adamw);
            engine_update(b, &adamw);
        }
        for (size_t t = 0; t < engine_layout(a)->n_tensors; t++)
            assert_memory_equal(whole_at(a, t).values, whole_at(b, t).values,
                                whole_at(a, t).count * sizeof(real));
        engine_free(a);
        engine_free(b);
    }
}

static void nothing_to_evaluate_is_no_loss(void **state)
{
    (void)state;
    struct samples s = {.none_counted = true};
    struct job_spec spec = one_spec(&models[0], 8, 4);
    struct engine *e = engine_filled(&spec);
    assert_true(isnan(evaluate(e, &s, 0, 6)));
    assert_true(isnan(evaluate(e, &s, 0, 0)));
    engine_free(e);
}

static void a_sample_that_cannot_be_read_is_said(void **state)
{
    (void)state;
    struct samples s = {.failing = 3};
    struct engine_source source = {&s, fill};
    struct job_spec spec = one_spec(&models[0], 8, 4);
    struct engine *e = engine_filled(&spec);
    struct err err = {""};
    double loss;
    assert_int_equal(engine_load(e, &source, 0, &err), -1);
    assert_string_equal(err.text, "sample 3 cannot be read");
    err.text[0] = 0;
    assert_int_equal(engine_evaluate(e, &source, 1, 5, &loss, &err), -1);
    assert_string_equal(err.text, "sample 3 cannot be read");
    assert_int_equal(engine_evaluate(e, &source, 4, 5, &loss, &err), 0);
    engine_free(e);
}

/* ---- training ---- */

static void train(struct engine *e, int64_t steps, double *losses)
{
    struct samples s = {.failing = 0};
    for (int64_t step = 1; step <= steps; step++) {
        struct kernel_adamw adamw = adamw_at(step);
        losses[step - 1] = step_of(e, &s, step, (uint64_t)(step % 3) * 8).loss;
        engine_update(e, &adamw);
    }
}

static void training_learns_and_repeats_bit_by_bit(void **state)
{
    (void)state;
    enum { STEPS = 60 };
    for (size_t i = 0; i < COUNT(models); i++) {
        double first[STEPS], second[STEPS];
        struct job_spec spec = one_spec(&models[i], 8, 4);
        struct engine *a = one_engine(&spec), *b = one_engine(&spec);
        store_init(engine_store(a), &models[i], 1337);
        store_init(engine_store(b), &models[i], 1337);
        train(a, STEPS, first);
        train(b, STEPS, second);
        assert_true(fabs(first[0] - log(97)) < 0.1);
        if (!(first[STEPS - 1] < 0.5 * first[0]))
            fail_msg("model %zu: loss %.3f after %.3f", i, first[STEPS - 1], first[0]);
        assert_memory_equal(first, second, sizeof first);
        for (size_t t = 0; t < engine_layout(a)->n_tensors; t++)
            assert_memory_equal(whole_at(a, t).values, whole_at(b, t).values,
                                whole_at(a, t).count * sizeof(real));
        engine_free(a);
        engine_free(b);
    }
}

static void what_the_model_refuses_the_engine_refuses(void **state)
{
    (void)state;
    struct err err = {""};
    struct job_spec spec = one_spec(&models[0], 8, 4);
    spec.train.model.heads = spec.train.model.kv_heads = 5;
    struct engine_request r = {.spec = &spec, .mesh = one_mesh(), .kernels = one_kernels(KERNEL_FP32)};
    assert_null(engine_new(&r, &err));
    assert_non_null(strstr(err.text, "hidden 24 is not a multiple of heads 5"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(micro_batches_do_not_matter),
        cmocka_unit_test(pieces_of_logits_do_not_matter),
        cmocka_unit_test(loss_is_the_mean_over_counted_targets),
        cmocka_unit_test(recomputation_gives_the_same_bits),
        cmocka_unit_test(without_targets_loss_and_gradients_are_zero),
        cmocka_unit_test(without_targets_routers_still_learn),
        cmocka_unit_test(dropout_depends_on_step_and_sample),
        cmocka_unit_test(evaluation_counts_exactly_what_was_asked_for),
        cmocka_unit_test(evaluation_changes_nothing),
        cmocka_unit_test(nothing_to_evaluate_is_no_loss),
        cmocka_unit_test(a_sample_that_cannot_be_read_is_said),
        cmocka_unit_test(training_learns_and_repeats_bit_by_bit),
        cmocka_unit_test(what_the_model_refuses_the_engine_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
