/* What the model repeats (kernels.h, repeat) is the same each time: a backend is played here that notes, for each number, the calls and arguments
 * of its first time, and compares the later ones with them. It computes attention over whole sequences, too, as a device does. */
#include "common/mix.h"
#include "one_rank.h"

#define NUMBERS 256
#define STEPS   3

static const struct kernels *cpu;

static struct {
    bool within;    /* a repetition is being done */
    uint64_t trace; /* of its calls so far */
    struct {
        uint64_t number, trace;
    } known[NUMBERS];
    size_t n_known, repetitions, forgotten;
} played;

static void note(uint64_t x)
{
    played.trace = mix64(played.trace + MIX_GOLDEN) ^ x;
}

/* The pointers and sizes of a call, and its name's line. */
static void note_call(int line, const void *const *pointers, size_t count, size_t n)
{
    note((uint64_t)line);
    for (size_t i = 0; i < count; i++)
        note((uint64_t)(uintptr_t)pointers[i]);
    note(n);
}
#define NOTE(n, ...)                                                                                         \
    note_call(__LINE__, (const void *const[]){__VA_ARGS__}, COUNT(((const void *const[]){__VA_ARGS__})), n)

static void play_linear(act *y, const act *onto, const act *x, const struct kernel_linear *l, size_t n)
{
    NOTE(n, y, onto, x, l->weight, l->bias);
    cpu->linear_forward(y, onto, x, l, n);
}

static void play_backward(act *dx, bool accumulate, const act *dy, const struct kernel_linear *l, size_t n)
{
    NOTE(n + accumulate, dx, dy, l->weight);
    cpu->linear_backward(dx, accumulate, dy, l, n);
}

static void play_weights(real *dweight, real *dbias, const act *dy, const act *x,
                         const struct kernel_linear *l, size_t n)
{
    NOTE(n, dweight, dbias, dy, x, l->weight);
    cpu->linear_weights(dweight, dbias, dy, x, l, n);
}

static void play_norm(act *dx, real *dweight, real *dbias, const act *dout, const act *x, const act *weight,
                      const real *mean, const real *rstd, size_t n, size_t c)
{
    NOTE(n, dx, dweight, dbias, dout, x, weight, mean, rstd);
    cpu->layernorm_backward(dx, dweight, dbias, dout, x, weight, mean, rstd, n, c);
}

static real *reals(act *x)
{
    return (real *)(void *)x;
}

static void play_whole(act *out, real *lse, const act *q, const act *k, const act *v,
                       const struct kernel_attention *shape)
{
    NOTE(shape->queries, out, lse, q, k, v);
    cpu->attention_forward(reals(out), lse, true, q, k, v, shape);
}

/* dq, dk and dv lie side by side in rows, as the model has them. */
static void play_whole_backward(act *dq, act *dk, act *dv, const act *dout, const act *out, const real *lse,
                                const act *q, const act *k, const act *v,
                                const struct kernel_attention *shape)
{
    NOTE(shape->queries, dq, dk, dv, dout, out, lse, q, k, v);
    cpu->zero(dq, shape->batch * shape->q_batch * sizeof(real));
    cpu->attention_backward(reals(dq), reals(dk), reals(dv), dout, out, lse, q, k, v, shape);
}

static void play_repeat(uint64_t number, void (*work)(void *owner), void *owner)
{
    size_t i = 0;
    while (i < played.n_known && played.known[i].number != number)
        i++;
    assert_false(played.within);
    played.trace = 0;
    played.within = true;
    work(owner);
    played.within = false;
    played.repetitions++;
    if (i < played.n_known) {
        assert_true(played.known[i].trace == played.trace);
        return;
    }
    assert_true(i < NUMBERS);
    played.known[i].number = number;
    played.known[i].trace = played.trace;
    played.n_known++;
}

static void play_forget(void)
{
    played.forgotten++;
    played.n_known = 0;
}

/* What a repetition must not do. */
static void play_to_host(void *out, const void *x, size_t bytes)
{
    assert_false(played.within);
    cpu->to_host(out, x, bytes);
}
static void play_from_host(void *out, const void *x, size_t bytes)
{
    assert_false(played.within);
    cpu->from_host(out, x, bytes);
}
static void *play_alloc(size_t bytes)
{
    assert_false(played.within);
    return cpu->alloc(bytes);
}

static struct kernels table(void)
{
    struct kernels k = *cpu;
    k.linear_forward = play_linear;
    k.linear_backward = play_backward;
    k.linear_weights = play_weights;
    k.layernorm_backward = play_norm;
    k.attention_whole = play_whole;
    k.attention_whole_backward = play_whole_backward;
    k.repeat = play_repeat;
    k.forget = play_forget;
    k.to_host = play_to_host;
    k.from_host = play_from_host;
    k.alloc = play_alloc;
    return k;
}

static int fill(void *owner, uint64_t first, size_t count, int32_t *tokens, int32_t *targets, struct err *err)
{
    size_t context = *(const size_t *)owner;
    (void)err;
    for (size_t i = 0; i < count * context; i++) {
        tokens[i] = (int32_t)(word(1, first * context + i) % 97);
        targets[i] = (int32_t)(word(2, first * context + i) % 97);
    }
    return 0;
}

/* Losses and norms of some steps; repetitions are counted in `played`. */
static void train(const struct job_spec *spec, const struct kernels *k, double out[2 * STEPS])
{
    struct err err;
    size_t context = (size_t)spec->train.model.context;
    struct engine_request r = {.spec = spec, .mesh = one_mesh(), .kernels = k};
    struct engine_source source = {&context, fill};
    struct engine *e = engine_new(&r, &err);
    if (!e)
        fail_msg("%s", err.text);
    one_fill(e, 0.3);
    for (int64_t step = 1; step <= STEPS; step++) {
        struct engine_result x;
        double held;
        struct kernel_adamw adamw = {
            .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .gradient_scale = 1, .step = step};
        assert_int_equal(engine_load(e, &source, (uint64_t)step * 8, &err), 0);
        engine_gradients(e, step, &x);
        engine_update(e, &adamw);
        assert_int_equal(engine_evaluate(e, &source, 1000, 4, &held, &err), 0);
        out[2 * step - 2] = x.loss;
        out[2 * step - 1] = x.norm;
    }
    engine_free(e);
}

static const struct job_model gpt2 = {.arch = ARCH_GPT2,
                                      .layers = 3,
                                      .hidden = 24,
                                      .heads = 3,
                                      .kv_heads = 3,
                                      .ffn = 40,
                                      .vocab = 97,
                                      .context = 16,
                                      .tied = true,
                                      .norm_eps = 1e-5};

static void layers_are_repeated_with_the_same_arguments(void **state)
{
    (void)state;
    static const enum job_recompute ways[] = {RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL};
    cpu = one_kernels(KERNEL_FP32);
    for (size_t i = 0; i < COUNT(ways); i++) {
        double plain[2 * STEPS], repeated[2 * STEPS];
        struct kernels k = table();
        struct job_spec spec = one_spec(&gpt2, 8, 4);
        spec.train.recompute = ways[i];
        train(&spec, cpu, plain);
        memset(&played, 0, sizeof played);
        train(&spec, &k, repeated);
        assert_memory_equal(plain, repeated, sizeof plain);
        assert_int_equal(played.repetitions,
                         STEPS * 2 * 2 * gpt2.layers); /* two micro-batches, out and back */
        assert_int_equal(played.forgotten, 1);
    }
}

/* Dropout follows the step, and what stages 2 and 3 lend moves. */
static void what_changes_is_not_repeated(void **state)
{
    (void)state;
    double ignored[2 * STEPS];
    struct kernels k = table();
    struct job_spec spec = one_spec(&gpt2, 8, 4);
    spec.train.model.dropout = 0.1;
    memset(&played, 0, sizeof played);
    train(&spec, &k, ignored);
    assert_int_equal(played.repetitions, 0);
    spec.train.model.dropout = 0;
    spec.zero = 3;
    train(&spec, &k, ignored);
    assert_int_equal(played.repetitions, 0);
    spec.zero = 2; /* weights stay */
    train(&spec, &k, ignored);
    assert_int_equal(played.repetitions, STEPS * 2 * gpt2.layers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers_are_repeated_with_the_same_arguments),
                                       cmocka_unit_test(what_changes_is_not_repeated)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
