/* store on one rank, in all four stages and both types of numbers: ranges, sums over micro-batches, the norm, and AdamW in two groups
 * against the same by hand. What several ranks do together is the matter of tests/mesh. */
#include "one_rank.h"

static const struct job_model gpt2 = {.arch = ARCH_GPT2,
                                      .layers = 2,
                                      .hidden = 8,
                                      .heads = 2,
                                      .kv_heads = 2,
                                      .ffn = 20,
                                      .vocab = 29,
                                      .context = 6,
                                      .tied = true};
static const struct job_model experts = {.arch = ARCH_LLAMA,
                                         .layers = 2,
                                         .hidden = 8,
                                         .heads = 4,
                                         .kv_heads = 2,
                                         .ffn = 6,
                                         .vocab = 37,
                                         .context = 6,
                                         .experts = 3,
                                         .top_k = 2};

static const struct kind {
    const struct job_model *model;
    int zero;
    enum kernel_type type;
} kinds[] = {
    {&gpt2, 0, KERNEL_FP32},    {&gpt2, 1, KERNEL_FP32},    {&gpt2, 2, KERNEL_FP32},
    {&gpt2, 3, KERNEL_FP32},    {&gpt2, 0, KERNEL_BF16},    {&gpt2, 1, KERNEL_BF16},
    {&gpt2, 2, KERNEL_BF16},    {&gpt2, 3, KERNEL_BF16},    {&experts, 0, KERNEL_FP32},
    {&experts, 2, KERNEL_FP32}, {&experts, 3, KERNEL_BF16},
};

struct fixture {
    const struct kind *kind;
    const struct kernels *k;
    struct layout layout;
    struct store *store;
    struct model_hooks hooks;
    struct model_unit *units;
};

static void layout_alone(struct layout *l, const struct job_model *model)
{
    int64_t layers = model->layers;
    struct layout_request r = {
        .model = model, .size = {1, 1, 1, 1, 1}, .piece_layers = &layers, .virtual_stages = 1};
    layout_make(l, &r);
}

static void fixture_open(struct fixture *f, const struct kind *kind, bool inference)
{
    struct err err;
    *f = (struct fixture){.kind = kind, .k = one_kernels(kind->type)};
    layout_alone(&f->layout, kind->model);
    struct store_request r = {.layout = &f->layout,
                              .mesh = one_mesh(),
                              .kernels = f->k,
                              .zero = kind->zero,
                              .inference = inference};
    f->store = store_new(&r, &err);
    if (!f->store)
        fail_msg("%s", err.text);
    f->hooks = store_hooks(f->store);
    f->units = store_units(f->store);
}

static void fixture_close(struct fixture *f)
{
    store_free(f->store);
    layout_free(&f->layout);
}

static void for_each_kind(void (*check)(struct fixture *f))
{
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct fixture f;
        fixture_open(&f, &kinds[i], false);
        check(&f);
        fixture_close(&f);
    }
}

static const struct layout_tensor *tensor_at(const struct fixture *f, size_t t)
{
    return &f->layout.tensors[t];
}

static size_t stored(const struct layout_tensor *t)
{
    return t->rows * t->columns;
}

static real *part_of(const struct fixture *f, size_t t, enum store_part part)
{
    struct store_range r = store_owned(f->store, t, part);
    assert_int_equal(r.begin, 0);
    assert_int_equal(r.end, stored(tensor_at(f, t)));
    return r.data;
}

/* ---- ranges ---- */

/* A number of its own for each element of each part. */
static real mark(size_t t, int part, size_t i)
{
    return (real)(((double)part * 64 + (double)t) * 1024 + (double)i);
}

static void check_ranges(struct fixture *f)
{
    for (size_t t = 0; t < f->layout.n_tensors; t++)
        for (int p = STORE_MASTER; p <= STORE_GRADIENT; p++)
            for (size_t i = 0; i < stored(tensor_at(f, t)); i++)
                part_of(f, t, (enum store_part)p)[i] = mark(t, p, i);
    for (size_t t = 0; t < f->layout.n_tensors; t++)
        for (int p = STORE_MASTER; p <= STORE_GRADIENT; p++) {
            struct store_range w = store_written(f->store, t, (enum store_part)p);
            assert_int_equal(w.begin, 0);
            assert_int_equal(w.end, stored(tensor_at(f, t)));
            for (size_t i = 0; i < w.end; i++)
                assert_true(w.data[i] == mark(t, p, i));
        }
}

static void ranges_cover_all_tensors_without_overlap(void **state)
{
    (void)state;
    for_each_kind(check_ranges);
}

/* ---- weights ---- */

/* What the model sees of a tensor, as real (rows x columns); free() it. */
static real *seen(struct fixture *f, size_t t)
{
    const struct layout_tensor *x = tensor_at(f, t);
    real *out = mem_zero(stored(x), sizeof *out);
    f->hooks.ahead(f->hooks.owner, x->unit);
    f->hooks.need(f->hooks.owner, x->unit, false);
    f->k->real_from_act(out, act_in(f->k, f->units[x->unit].weights, x->offset), stored(x));
    f->hooks.done(f->hooks.owner, x->unit);
    return out;
}

/* The weights are the master copy, rounded to the type. */
static void expect_weights_follow(struct fixture *f)
{
    for (size_t t = 0; t < f->layout.n_tensors; t++) {
        size_t count = stored(tensor_at(f, t));
        real *weights = seen(f, t), *expected = mem_zero(count, sizeof *expected);
        act *rounded = mem_zero(count, f->k->act_size);
        f->k->act_from_real(rounded, part_of(f, t, STORE_MASTER), count);
        f->k->real_from_act(expected, rounded, count);
        if (memcmp(weights, expected, count * sizeof *weights) != 0)
            fail_msg("zero %d: weights of %s are not their master copy", f->kind->zero,
                     tensor_at(f, t)->name);
        free(weights);
        free(expected);
        free(rounded);
    }
}

static void check_init(struct fixture *f)
{
    store_init(f->store, f->kind->model, 11);
    for (size_t t = 0; t < f->layout.n_tensors; t++) {
        real *expected = mem_zero(stored(tensor_at(f, t)), sizeof *expected);
        model_init_tensor(tensor_at(f, t), f->kind->model, 11, expected);
        assert_memory_equal(part_of(f, t, STORE_MASTER), expected,
                            stored(tensor_at(f, t)) * sizeof *expected);
        free(expected);
    }
    expect_weights_follow(f);
    assert_true(store_replicas_equal(f->store));
}

static void first_values_are_those_of_the_model(void **state)
{
    (void)state;
    for_each_kind(check_init);
}

static void fill_masters(struct fixture *f)
{
    for (size_t t = 0; t < f->layout.n_tensors; t++)
        for (size_t i = 0; i < stored(tensor_at(f, t)); i++)
            part_of(f, t, STORE_MASTER)[i] = (real)fraction((uint32_t)t, i);
    store_spread(f->store);
}

static void check_spread(struct fixture *f)
{
    fill_masters(f);
    expect_weights_follow(f);
}

static void weights_follow_masters_that_were_written(void **state)
{
    (void)state;
    for_each_kind(check_spread);
}

/* ---- gradients ---- */

/* One pass adds its gradients to unit u, as a model does. */
static void add_pass(struct fixture *f, size_t u, uint32_t pass)
{
    f->hooks.need(f->hooks.owner, u, true);
    for (size_t t = f->layout.units[u].first; t < f->layout.units[u].first + f->layout.units[u].count; t++)
        for (size_t i = 0; i < stored(tensor_at(f, t)); i++)
            f->units[u].gradients[tensor_at(f, t)->offset + i] +=
                (real)fraction(100 * (pass + 1) + (uint32_t)t, i);
    f->hooks.gradients(f->hooks.owner, u);
    f->hooks.done(f->hooks.owner, u);
    f->hooks.idle(f->hooks.owner);
}

/* A step of `passes` micro-batches. */
static void step(struct fixture *f, uint32_t passes)
{
    store_begin(f->store, (int)passes);
    for (uint32_t pass = 0; pass < passes; pass++)
        for (size_t u = f->layout.n_units; u-- > 0;)
            add_pass(f, u, pass);
    store_finish(f->store);
}

static real summed(size_t t, size_t i, uint32_t passes)
{
    real sum = 0;
    for (uint32_t pass = 0; pass < passes; pass++)
        sum += (real)fraction(100 * (pass + 1) + (uint32_t)t, i);
    return sum;
}

static void check_sums(struct fixture *f)
{
    for (uint32_t passes = 4; passes > 0; passes--) {
        double squares = 0;
        step(f, passes);
        for (size_t t = 0; t < f->layout.n_tensors; t++)
            for (size_t i = 0; i < stored(tensor_at(f, t)); i++) {
                real expected = summed(t, i, passes), got = part_of(f, t, STORE_GRADIENT)[i];
                if (got != expected)
                    fail_msg("zero %d, %u passes: %s[%zu] is %.9g, not %.9g", f->kind->zero, passes,
                             tensor_at(f, t)->name, i, (double)got, (double)expected);
                squares += (double)expected * (double)expected;
            }
        assert_true(fabs(store_norm(f->store) - sqrt(squares)) <= 1e-12 * sqrt(squares));
    }
}

static void gradients_of_all_passes_of_a_step_add_up(void **state)
{
    (void)state;
    for_each_kind(check_sums);
}

/* ---- the update ---- */

#define STEPS 4

static struct kernel_adamw adamw_at(int64_t number)
{
    return (struct kernel_adamw){.lr = 0.01 * (double)number,
                                 .beta1 = 0.9,
                                 .beta2 = 0.95,
                                 .eps = 1e-8,
                                 .weight_decay = 0.3,
                                 .gradient_scale = 0.5,
                                 .step = number};
}

static bool decays(const struct layout_tensor *t)
{
    return t->dims == 2 && strcmp(t->name, "position.weight") != 0;
}

/* Algorithm 2 of arXiv 1711.05101 for one number with the same gradient g each time. */
static double by_hand(double p, double g, bool decay)
{
    double m = 0, v = 0;
    for (int64_t n = 1; n <= STEPS; n++) {
        struct kernel_adamw a = adamw_at(n);
        m = a.beta1 * m + (1 - a.beta1) * g * a.gradient_scale;
        v = a.beta2 * v + (1 - a.beta2) * g * a.gradient_scale * g * a.gradient_scale;
        double m_hat = m / (1 - pow(a.beta1, (double)n)), v_hat = v / (1 - pow(a.beta2, (double)n));
        p -= a.lr * (m_hat / (sqrt(v_hat) + a.eps) + (decay ? a.weight_decay * p : 0));
    }
    return p;
}

static void check_update(struct fixture *f)
{
    fill_masters(f);
    for (int64_t n = 1; n <= STEPS; n++) {
        struct kernel_adamw adamw = adamw_at(n);
        step(f, 2);
        store_update(f->store, &adamw);
    }
    for (size_t t = 0; t < f->layout.n_tensors; t++)
        for (size_t i = 0; i < stored(tensor_at(f, t)); i++) {
            double got = (double)part_of(f, t, STORE_MASTER)[i];
            double expected =
                by_hand(fraction((uint32_t)t, i), (double)summed(t, i, 2), decays(tensor_at(f, t)));
            if (!(fabs(got - expected) <= 2e-6))
                fail_msg("zero %d: %s[%zu] is %.9g, by hand %.9g", f->kind->zero, tensor_at(f, t)->name, i,
                         got, expected);
        }
    expect_weights_follow(f);
}

static void updates_are_adamw_in_two_groups(void **state)
{
    (void)state;
    for_each_kind(check_update);
}

/* Without gradients only decay is left: matrices shrink, everything else keeps its bits. */
static void check_decay(struct fixture *f)
{
    struct kernel_adamw adamw = adamw_at(1);
    size_t matrices = 0, others = 0;
    fill_masters(f);
    store_begin(f->store, 1);
    store_finish(f->store);
    store_update(f->store, &adamw);
    for (size_t t = 0; t < f->layout.n_tensors; t++) {
        bool decay = decays(tensor_at(f, t));
        double factor = decay ? 1 - adamw.lr * adamw.weight_decay : 1;
        for (size_t i = 0; i < stored(tensor_at(f, t)); i++) {
            double got = (double)part_of(f, t, STORE_MASTER)[i],
                   before = (double)(real)fraction((uint32_t)t, i);
            assert_true(decay ? fabs(got - factor * before) <= 1e-7 : got == before);
        }
        matrices += decay;
        others += !decay;
    }
    assert_true(matrices > 0 && others > 0);
    expect_weights_follow(f);
}

static void weight_decay_is_for_matrices_only(void **state)
{
    (void)state;
    for_each_kind(check_decay);
}

/* ---- leases ---- */

/* With stage 3 weights are there between need and done only, however many need them; gradients until they are given in. */
static void whole_weights_are_lent_in_stage_three(void **state)
{
    (void)state;
    static const struct kind three = {&gpt2, 3, KERNEL_FP32};
    struct fixture f;
    fixture_open(&f, &three, false);
    void *o = f.hooks.owner;
    fill_masters(&f);
    store_begin(f.store, 1);
    assert_null(f.units[0].weights);
    f.hooks.ahead(o, 0);
    f.hooks.ahead(o, 0);
    f.hooks.need(o, 0, false);
    f.hooks.need(o, 0, true);
    assert_non_null(f.units[0].gradients);
    f.hooks.done(o, 0);
    assert_non_null(f.units[0].weights);
    f.hooks.gradients(o, 0);
    assert_null(f.units[0].gradients);
    f.hooks.done(o, 0);
    assert_null(f.units[0].weights);
    store_finish(f.store);
    fixture_close(&f);
}

/* ---- memory ---- */

static void bytes_are_those_of_the_formula(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * COUNT(kinds); i++) {
        const struct kind *kind = &kinds[i / 2];
        bool inference = i % 2, wide = kind->type == KERNEL_FP32;
        struct fixture f;
        fixture_open(&f, kind, inference);
        struct store_bytes b = store_bytes(f.store);
        size_t n = f.layout.elements, width = wide ? 4 : 2, master = wide ? 0 : 4 * n;
        assert_int_equal(b.weights, width * n);
        assert_int_equal(b.gradients, inference ? 0 : 4 * n);
        assert_int_equal(b.optimizer, master + (inference ? 0 : 8 * n));
        fixture_close(&f);
    }
}

static size_t calls, failing; /* this allocation fails; 0: none does */

static void *failing_alloc(size_t bytes)
{
    return ++calls == failing ? NULL : calloc(bytes ? bytes : 1, 1);
}

/* Was the store made although allocation `number` fails, because there is none? Else its sentence is checked. */
static bool made_with_failure(const struct kind *kind, size_t number)
{
    struct err err = {""};
    struct kernels k = *one_kernels(kind->type);
    struct layout layout;
    layout_alone(&layout, kind->model);
    struct store_request r = {.layout = &layout, .mesh = one_mesh(), .kernels = &k, .zero = kind->zero};
    k.alloc = failing_alloc;
    k.free = free;
    calls = 0;
    failing = number;
    struct store *s = store_new(&r, &err);
    assert_true(s || strstr(err.text, "no memory for weights, gradients and optimizer state"));
    store_free(s);
    layout_free(&layout);
    return s != NULL;
}

static void lack_of_memory_is_said(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        size_t number = 1;
        while (!made_with_failure(&kinds[i], number))
            number++;
        assert_int_equal(calls, number - 1);
        assert_true(number > 4);
    }
}

static void too_large_a_model_is_refused_with_a_sentence(void **state)
{
    (void)state;
    const struct job_model huge = {.arch = ARCH_LLAMA,
                                   .layers = 100,
                                   .hidden = 1 << 20,
                                   .heads = 1,
                                   .kv_heads = 1,
                                   .ffn = 1 << 22,
                                   .vocab = 1 << 20,
                                   .context = 8};
    struct err err = {""};
    struct layout layout;
    layout_alone(&layout, &huge);
    struct store_request r = {.layout = &layout, .mesh = one_mesh(), .kernels = one_kernels(KERNEL_FP32)};
    assert_null(store_new(&r, &err));
    assert_non_null(strstr(err.text, "no memory for weights, gradients and optimizer state"));
    assert_non_null(strstr(err.text, "parallel.zero"));
    layout_free(&layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_cover_all_tensors_without_overlap),
        cmocka_unit_test(first_values_are_those_of_the_model),
        cmocka_unit_test(weights_follow_masters_that_were_written),
        cmocka_unit_test(gradients_of_all_passes_of_a_step_add_up),
        cmocka_unit_test(updates_are_adamw_in_two_groups),
        cmocka_unit_test(weight_decay_is_for_matrices_only),
        cmocka_unit_test(whole_weights_are_lent_in_stage_three),
        cmocka_unit_test(bytes_are_those_of_the_formula),
        cmocka_unit_test(lack_of_memory_is_said),
        cmocka_unit_test(too_large_a_model_is_refused_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
