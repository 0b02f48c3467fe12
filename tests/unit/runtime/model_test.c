/* The model on one rank, in the numbers that it trains in: what is refused, what memory it takes, first values, tokens that are none, NaN, and the
 * counts of FLOPs. That it computes the right thing: reference_test and tests/unit/double. */
#include "one_rank.h"

#include <sys/resource.h>

#include "planner/flops.h"
#include "planner/params.h"

#define MODEL(arch_, layers_, hidden_, heads_, kv_heads_, ffn_, vocab_, context_, ...)                       \
    {                                                                                                        \
        .arch = (arch_), .layers = (layers_), .hidden = (hidden_), .heads = (heads_),                        \
        .kv_heads = (kv_heads_), .ffn = (ffn_), .vocab = (vocab_), .context = (context_), .norm_eps = 1e-5,  \
        .rope_theta = 10000, __VA_ARGS__                                                                     \
    }

static const struct job_model gpt2 = MODEL(ARCH_GPT2, 2, 48, 3, 3, 100, 257, 32, .tied = true);
static const struct job_model llama = MODEL(ARCH_LLAMA, 2, 48, 6, 2, 100, 257, 32, .tied = false);
static const struct job_model moe = MODEL(ARCH_LLAMA, 2, 48, 6, 2, 64, 257, 32, .experts = 4, .top_k = 2,
                                          .balance_loss = 0.1, .router_z_loss = 0.01);

/* ---- a model whose memory is watched and never written ---- */

static struct {
    size_t largest, largest_but_one, sum;
    size_t calls, failing; /* this call fails; 0: none does */
} taken;

static void *watched_alloc(size_t bytes)
{
    if (++taken.calls == taken.failing)
        return NULL;
    taken.sum += bytes;
    if (bytes > taken.largest) {
        taken.largest_but_one = taken.largest;
        taken.largest = bytes;
    } else if (bytes > taken.largest_but_one) {
        taken.largest_but_one = bytes;
    }
    return malloc(bytes ? bytes : 1);
}

static struct layout layout_of(const struct job_model *config)
{
    struct layout l;
    int64_t layers = config->layers;
    struct layout_request r = {
        .model = config, .size = {1, 1, 1, 1, 1}, .piece_layers = &layers, .virtual_stages = 1};
    layout_make(&l, &r);
    return l;
}

/* A model that is made and unmade with the watched memory: bytes of its activations, or 0 with a sentence in err. */
static size_t bytes_made(const struct job_model *config, size_t batch, enum job_recompute recompute,
                         int slots, struct err *err)
{
    struct kernels k = *one_kernels(KERNEL_FP32);
    struct layout layout = layout_of(config);
    struct model_unit *units = mem_zero(layout.n_units, sizeof *units);
    struct model_request r = {.config = config,
                              .mesh = one_mesh(),
                              .kernels = &k,
                              .layout = &layout,
                              .units = units,
                              .batch = batch,
                              .context = (size_t)config->context,
                              .recompute = recompute,
                              .slots = slots};
    k.alloc = watched_alloc;
    k.free = free;
    taken.largest = taken.largest_but_one = taken.sum = taken.calls = 0;
    struct model *m = model_new(&r, err);
    size_t bytes = m ? model_activation_bytes(m) : 0;
    for (size_t i = 0; m && i < r.context; i++)
        assert_int_equal(model_positions(m)[i], i);
    model_free(m);
    layout_free(&layout);
    free(units);
    return bytes;
}

static size_t bytes_of(const struct job_model *config, size_t batch, enum job_recompute recompute, int slots)
{
    struct err err;
    size_t bytes = bytes_made(config, batch, recompute, slots, &err);
    if (bytes == 0)
        fail_msg("%s", err.text);
    return bytes;
}

static void nothing_grows_with_the_square_of_the_sequence(void **state)
{
    (void)state;
    for (int64_t context = 64; context <= 65536; context *= 4) {
        for (int kind = 0; kind < 3; kind++) {
            struct job_model c = kind == 0 ? gpt2 : kind == 1 ? llama : moe;
            c.context = context;
            size_t n = (size_t)context, widest = 257 + 15; /* logits are the widest of all here */
            (void)bytes_of(&c, 1, RECOMPUTE_NONE, 1);
            if (taken.largest > n * widest * sizeof(real))
                fail_msg("an array of %zu bytes for %zu tokens", taken.largest, n);
            struct job_model twice = c;
            twice.context = 2 * context;
            size_t once = taken.sum;
            (void)bytes_of(&twice, 1, RECOMPUTE_NONE, 1);
            assert_true(taken.sum <= 2 * once);
        }
    }
}

/* 32 Mi logits at a time, and at least 64 rows: 67 MB of 3.3 GB here. */
static void logits_are_never_kept(void **state)
{
    (void)state;
    struct job_model c = gpt2;
    c.vocab = 50257;
    c.context = 1024;
    (void)bytes_of(&c, 16, RECOMPUTE_NONE, 1);
    size_t rows = ((size_t)32 << 20) / 50272;
    assert_int_equal(taken.largest, rows * 50272 * sizeof(real));
    assert_true(taken.largest_but_one <= (size_t)16 * 1024 * 3 * 48 * sizeof(real));
    c.vocab = 4 << 20;
    c.context = 32;
    (void)bytes_of(&c, 16, RECOMPUTE_NONE, 1);
    assert_int_equal(taken.largest, (size_t)64 * (4 << 20) * sizeof(real));
}

static void recomputation_takes_less_and_slots_take_more(void **state)
{
    (void)state;
    struct job_model c = gpt2;
    c.layers = 12;
    c.vocab = 16;
    size_t none = bytes_of(&c, 4, RECOMPUTE_NONE, 1);
    assert_int_equal(none, taken.sum);
    size_t selective = bytes_of(&c, 4, RECOMPUTE_SELECTIVE, 1), full = bytes_of(&c, 4, RECOMPUTE_FULL, 1);
    assert_true(full < selective && selective < none);
    /* of a layer full keeps its input alone, selective neither norms nor attention nor what follows the activation function */
    size_t n = 4 * 32, stream = n * 48 * sizeof(real);
    size_t cheap = 3 * stream + n * 3 * sizeof(real) + n * 100 * sizeof(real);
    assert_int_equal(none - selective, 11 * cheap);
    size_t inner = n * 4 * sizeof(real) + n * 144 * sizeof(real) + stream + n * 100 * sizeof(real);
    assert_int_equal(selective - full, 11 * inner);
    size_t two = bytes_of(&c, 4, RECOMPUTE_NONE, 2), three = bytes_of(&c, 4, RECOMPUTE_NONE, 3);
    assert_int_equal(three - two, two - none);
    assert_true(two - none > 12 * (cheap + inner));
}

/* Each allocation fails in turn: the model is refused, and nothing leaks (in a build with SANITIZER=address). */
static void lack_of_memory_is_said(void **state)
{
    (void)state;
    static const struct job_model *const models[] = {&gpt2, &llama, &moe};
    for (size_t m = 0; m < COUNT(models); m++)
        for (int recompute = RECOMPUTE_NONE; recompute <= RECOMPUTE_FULL; recompute++) {
            (void)bytes_of(models[m], 2, (enum job_recompute)recompute, 2);
            for (size_t n = taken.calls; n > 0; n--) {
                struct err err = {""};
                taken.failing = n;
                assert_int_equal(bytes_made(models[m], 2, (enum job_recompute)recompute, 2, &err), 0);
                assert_non_null(strstr(err.text, "no memory for the activations of micro-batches of 2"));
            }
            taken.failing = 0;
        }
}

static int fill_zeros(void *owner, uint64_t first, size_t count, int32_t *tokens, int32_t *targets,
                      struct err *err)
{
    size_t n = count * *(const size_t *)owner;
    (void)first, (void)err;
    memset(tokens, 0, n * sizeof *tokens);
    memset(targets, 0, n * sizeof *targets);
    return 0;
}

/* Kernels take scratch of their own: the scores of 8,192 tokens would be 256 MiB. */
static void a_pass_takes_no_square_either(void **state)
{
    (void)state;
    static const struct job_model longer = MODEL(ARCH_LLAMA, 1, 8, 1, 1, 8, 16, 8192, .tied = true);
    size_t context = 8192;
    struct err err;
    struct engine_result result;
    struct engine_source source = {&context, fill_zeros};
    struct rusage before, after;
    struct job_spec spec = one_spec(&longer, 1, 1);
    struct engine *e = one_engine(&spec);
    assert_int_equal(engine_load(e, &source, 0, &err), 0);
    assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
    engine_gradients(e, 1, &result);
    assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
    assert_true(after.ru_maxrss - before.ru_maxrss < 64 * 1024); /* KiB */
    engine_free(e);
}

/* ---- refusals ---- */

struct refusal {
    struct job_model config;
    struct mesh_sizes size;
    size_t batch, context;
    bool sequence, split;
    enum job_recompute recompute;
    const char *text;
};
#define ALONE                                                                                                \
    {                                                                                                        \
        1, 1, 1, 1, 1                                                                                        \
    }
#define PLAIN false, false, RECOMPUTE_NONE
static const struct refusal refusals[] = {
    {MODEL(ARCH_GPT2, 1, 50, 3, 3, 8, 97, 8, .tied = true), ALONE, 1, 8, PLAIN,
     "hidden 50 is not a multiple of heads 3"},
    {MODEL(ARCH_LLAMA, 1, 48, 6, 4, 8, 97, 8, .tied = true), ALONE, 1, 8, PLAIN,
     "heads 6 is not a multiple of kv_heads 4"},
    {MODEL(ARCH_GPT2, 1, 48, 6, 2, 8, 97, 8, .tied = true), ALONE, 1, 8, PLAIN, "use arch: llama"},
    {MODEL(ARCH_GPT2, 1, 48, 6, 6, 8, 97, 8, .experts = 2), ALONE, 1, 8, PLAIN, "arch: llama for experts"},
    {MODEL(ARCH_LLAMA, 1, 15, 3, 3, 8, 97, 8, .tied = true), ALONE, 1, 8, PLAIN, "an odd number"},
    {MODEL(ARCH_GPT2, 1, 48, 3, 3, 8, 97, 8, .tied = true), ALONE, 1, 9, PLAIN,
     "9 tokens do not fit its context of 8"},
    {MODEL(ARCH_GPT2, 1, 48, 3, 3, 8, 97, 8, .tied = true), ALONE, 1, 0, PLAIN, "0 tokens do not fit"},
    {MODEL(ARCH_GPT2, 1, 48, 3, 3, 8, 97, 8, .tied = true), ALONE, 0, 8, PLAIN,
     "a micro-batch of 0 sequences"},
    {MODEL(ARCH_GPT2, 1, 48, 3, 3, 8, 97, 8, .tied = true), ALONE, SIZE_MAX / 8, 8, PLAIN,
     "make it 1 to 268435455"},
    {MODEL(ARCH_GPT2, 0, 48, 3, 3, 8, 97, 8, .tied = true), ALONE, 1, 8, PLAIN, "one of them is 0"},
    {MODEL(ARCH_GPT2, 1, 48, 3, 3, 8, INT64_MAX, 8, .tied = true), ALONE, 1, 8, PLAIN,
     "one of them is 9223372036854775807"},
    {MODEL(ARCH_GPT2, 1, 48, 3, 3, -8, 97, 8, .tied = true), ALONE, 1, 8, PLAIN, "one of them is -8"},
    {MODEL(ARCH_GPT2, 1, 48, 3, 3, 9, 97, 8, .tied = true),
     {3, 1, 1, 1, 1},
     1,
     8,
     true,
     false,
     RECOMPUTE_NONE,
     "cannot be shared by tp 3 ranks"},
    {MODEL(ARCH_GPT2, 1, 48, 3, 3, 8, 97, 8, .tied = true),
     {3, 1, 1, 1, 1},
     1,
     8,
     PLAIN,
     "must be multiples of tp 3"},
    {MODEL(ARCH_LLAMA, 1, 48, 6, 3, 8, 97, 8, .tied = true),
     {2, 1, 1, 1, 1},
     1,
     8,
     PLAIN,
     "must be multiples of tp 2"},
    {MODEL(ARCH_LLAMA, 1, 48, 6, 3, 8, 97, 10, .tied = true),
     {1, 1, 2, 1, 1},
     1,
     10,
     PLAIN,
     "cannot be cut into 2 x cp = 4 chunks"},
    {MODEL(ARCH_LLAMA, 1, 48, 6, 3, 8, 97, 8, .experts = 3, .top_k = 1),
     {1, 1, 1, 2, 2},
     1,
     8,
     PLAIN,
     "3 experts cannot be shared by ep 2 ranks"},
    {MODEL(ARCH_LLAMA, 1, 48, 6, 3, 8, 97, 8, .tied = true), ALONE, 1, 8, false, true, RECOMPUTE_FULL,
     "weight gradients of their own need the activations"},
    {MODEL(ARCH_LLAMA, 1, 48, 6, 3, 8, 97, 8, .tied = true), ALONE, 1, 8, false, true, RECOMPUTE_SELECTIVE,
     "weight gradients of their own need the activations"},
    {MODEL(ARCH_GPT2, 2, 100000, 1, 1, 400000, 97, 1 << 20, .tied = true), ALONE, 1, 1 << 20, PLAIN,
     "no memory for the activations of micro-batches of 1 sequences"},
};

static void what_cannot_be_is_refused_with_a_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refusals); i++) {
        const struct refusal *x = &refusals[i];
        struct err err = {""};
        struct mesh mesh = *one_mesh();
        struct layout layout = {.n_chunks = 0};
        mesh.size = x->size;
        struct model_request r = {.config = &x->config,
                                  .mesh = &mesh,
                                  .kernels = one_kernels(KERNEL_FP32),
                                  .layout = &layout,
                                  .batch = x->batch,
                                  .context = x->context,
                                  .sequence = x->sequence,
                                  .split_weights = x->split,
                                  .recompute = x->recompute,
                                  .slots = 1};
        assert_null(model_new(&r, &err));
        if (!strstr(err.text, x->text))
            fail_msg("refusal %zu says '%s', not '%s'", i, err.text, x->text);
    }
}

/* ---- tokens and numbers that are none ---- */

/* One sample: token `at` and its target are set, everything else is in order. */
struct spoiled {
    int32_t token, target;
    size_t at;
};

static int fill_spoiled(void *owner, uint64_t first, size_t count, int32_t *tokens, int32_t *targets,
                        struct err *err)
{
    const struct spoiled *s = owner;
    (void)err;
    for (size_t i = 0; i < count * 32; i++) {
        tokens[i] = (int32_t)(word((uint32_t)first, i) % 257);
        targets[i] = (int32_t)(word((uint32_t)first + 9, i) % 257);
    }
    if (first == 1) {
        tokens[s->at] = s->token;
        targets[s->at] = s->target;
    }
    return 0;
}

static double loss_of(struct engine *e, const struct spoiled *s)
{
    struct err err;
    struct engine_result r;
    struct engine_source source = {(void *)s, fill_spoiled};
    assert_int_equal(engine_load(e, &source, 0, &err), 0);
    engine_gradients(e, 1, &r);
    return r.loss;
}

static void tokens_outside_the_vocabulary_give_nan_and_nothing_else(void **state)
{
    (void)state;
    static const struct spoiled bad[] = {{-1, 0, 0},        {257, 0, 3},        {271, 0, 3}, {272, 0, 31},
                                         {INT32_MAX, 0, 1}, {INT32_MIN, 0, 31}, {0, 257, 0}, {0, 271, 5},
                                         {0, 272, 5},       {0, INT32_MAX, 31}};
    static const struct spoiled good[] = {{256, 0, 0}, {0, 256, 0}, {0, -1, 31}, {0, INT32_MIN, 31}};
    static const struct job_model *const models[] = {&gpt2, &llama, &moe};
    for (size_t m = 0; m < COUNT(models); m++) {
        struct job_spec spec = one_spec(models[m], 2, 2);
        struct engine *e = one_engine(&spec);
        store_init(engine_store(e), models[m], 3);
        for (size_t i = 0; i < COUNT(bad); i++)
            assert_true(isnan(loss_of(e, &bad[i])));
        for (size_t i = 0; i < COUNT(good); i++)
            assert_true(isfinite(loss_of(e, &good[i])));
        engine_free(e);
    }
}

static void nan_in_a_parameter_reaches_the_loss(void **state)
{
    (void)state;
    static const struct {
        const struct job_model *model;
        const char *tensor;
    } spoils[] = {{&gpt2, "embed.weight"},
                  {&gpt2, "position.weight"},
                  {&gpt2, "layers.0.norm1.bias"},
                  {&gpt2, "layers.1.attn.k.weight"},
                  {&gpt2, "layers.0.ffn.up.bias"},
                  {&gpt2, "norm.weight"},
                  {&llama, "layers.1.attn.v.weight"},
                  {&llama, "layers.0.ffn.down.weight"},
                  {&llama, "head.weight"},
                  {&moe, "layers.1.router.weight"},
                  {&moe, "layers.0.experts.0.up.weight"}};
    static const struct spoiled none = {1, 1, 0};
    for (size_t i = 0; i < COUNT(spoils); i++) {
        struct job_spec spec = one_spec(spoils[i].model, 2, 2);
        struct engine *e = one_engine(&spec);
        store_init(engine_store(e), spoils[i].model, 3);
        assert_true(isfinite(loss_of(e, &none)));
        whole_named(e, spoils[i].tensor).values[0] = NAN;
        if (!isnan(loss_of(e, &none)))
            fail_msg("NaN in %s does not reach the loss", spoils[i].tensor);
        engine_free(e);
    }
}

/* ---- first values ---- */

/* What each rank of a mesh gets of a tensor is what lies there of the whole one; rows of padding are 0. */
static void check_first_values(const struct job_model *config, const struct layout *whole,
                               const struct layout_tensor *part)
{
    size_t at = 0;
    while (strcmp(whole->tensors[at].name, part->name) != 0)
        at++;
    const struct layout_tensor *x = &whole->tensors[at];
    real *all = mem_zero(x->rows * x->columns, sizeof *all),
         *mine = mem_zero(part->rows * part->columns, sizeof *mine);
    memset(mine, 0xFF, part->rows * part->columns * sizeof *mine);
    model_init_tensor(x, config, 42, all);
    model_init_tensor(part, config, 42, mine);
    for (size_t i = 0; i < part->rows * part->columns; i++) {
        size_t row = part->from[0] + i / part->columns, column = part->from[1] + i % part->columns;
        real expected = row < part->to[0] ? all[row * x->columns + column] : 0;
        if (mine[i] != expected)
            fail_msg("%s (%zu, %zu) is %.9g, on one rank %.9g", part->name, row, column, (double)mine[i],
                     (double)expected);
    }
    free(all);
    free(mine);
}

static void first_values_do_not_depend_on_the_mesh(void **state)
{
    (void)state;
    static const struct mesh_sizes sizes[] = {
        {2, 1, 1, 1, 1}, {4, 2, 1, 1, 1}, {8, 1, 1, 2, 2}, {1, 1, 2, 2, 4}};
    static const struct job_model config =
        MODEL(ARCH_LLAMA, 2, 72, 8, 8, 40, 97, 32, .experts = 4, .top_k = 2);
    struct layout whole = layout_of(&config);
    const int64_t pieces[] = {1, 1}, all[] = {2};
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (int rank = 0; rank < sizes[i].tp * sizes[i].pp * sizes[i].cp * sizes[i].dp; rank++) {
            struct mesh at = mesh_at(&sizes[i], rank);
            struct layout l;
            struct layout_request r = {.model = &config,
                                       .size = sizes[i],
                                       .tp = at.tp,
                                       .pp = at.pp,
                                       .replica = at.replica,
                                       .piece_layers = sizes[i].pp == 2 ? pieces : all,
                                       .virtual_stages = 1};
            layout_make(&l, &r);
            for (size_t t = 0; t < l.n_tensors; t++)
                check_first_values(&config, &whole, &l.tensors[t]);
            layout_free(&l);
        }
    layout_free(&whole);
}

/* Mean, deviation and fourth moment of what should be N(0, std^2), within five deviations of each. */
static void check_normal(const char *name, const real *x, size_t count, double std)
{
    double n = (double)count, moments[4] = {0, 0, 0, 0};
    for (size_t i = 0; i < count; i++) {
        double z = (double)x[i] / std;
        moments[0] += z / n;
        moments[1] += z * z / n;
        moments[2] += z * z * z * z / n;
        moments[3] += i > 0 ? z * (double)x[i - 1] / std / n : 0; /* with its neighbour */
    }
    const double expected[4] = {0, 1, 3, 0}, deviation[4] = {1, sqrt(2), sqrt(96), 1};
    for (int i = 0; i < 4; i++)
        if (!(fabs(moments[i] - expected[i]) <= 5 * deviation[i] / sqrt(n)))
            fail_msg("%s: moment %d is %.5f, not %.5f", name, i, moments[i], expected[i]);
}

static void first_values_have_their_statistics(void **state)
{
    (void)state;
    static const struct job_model *const models[] = {&gpt2, &llama, &moe};
    for (size_t m = 0; m < COUNT(models); m++) {
        struct job_model large = *models[m];
        large.hidden = 240;
        large.ffn = 500;
        struct layout l = layout_of(&large);
        for (size_t t = 0; t < l.n_tensors; t++) {
            const struct layout_tensor *x = &l.tensors[t];
            size_t count = x->shape[0] * x->shape[1];
            real *values = mem_zero(x->rows * x->columns, sizeof *values);
            bool scaled = strstr(x->name, "attn.out.weight") || strstr(x->name, "down.weight");
            model_init_tensor(x, &large, 1, values);
            if (x->dims == 2)
                check_normal(x->name, values, count, scaled ? 0.02 / sqrt(2 * 2) : 0.02);
            for (size_t i = 0; x->dims == 1 && i < count; i++)
                assert_true(values[i] == (strstr(x->name, ".weight") ? 1 : 0));
            free(values);
        }
        layout_free(&l);
    }
}

static size_t equal_values(const struct layout_tensor *a, uint64_t seed_a, const struct layout_tensor *b,
                           uint64_t seed_b)
{
    size_t count = a->rows * a->columns, same = 0;
    real *x = mem_zero(count, sizeof *x), *y = mem_zero(count, sizeof *y);
    model_init_tensor(a, &gpt2, seed_a, x);
    model_init_tensor(b, &gpt2, seed_b, y);
    for (size_t i = 0; i < count; i++)
        same += x[i] == y[i];
    free(x);
    free(y);
    return same;
}

static void first_values_depend_on_seed_and_name(void **state)
{
    (void)state;
    struct layout l = layout_of(&gpt2);
    size_t layer0 = layout_unit_of(&l, UNIT_LAYER, 0), layer1 = layout_unit_of(&l, UNIT_LAYER, 1);
    const struct layout_tensor *q = &l.tensors[layout_tensor_of(&l, layer0, "attn.q.weight")];
    const struct layout_tensor *k = &l.tensors[layout_tensor_of(&l, layer0, "attn.k.weight")];
    const struct layout_tensor *other = &l.tensors[layout_tensor_of(&l, layer1, "attn.q.weight")];
    assert_int_equal(equal_values(q, 7, q, 7), 48 * 48);
    assert_true(equal_values(q, 7, q, 8) < 5);
    assert_true(equal_values(q, 7, k, 7) < 5);
    assert_true(equal_values(q, 7, other, 7) < 5);
    layout_free(&l);
}

/* ---- FLOPs ---- */

static void flops_of_gpt2_are_those_of_the_palm_paper(void **state)
{
    (void)state;
    static const struct job_model small = MODEL(ARCH_GPT2, 12, 768, 12, 12, 3072, 50257, 1024, .tied = true);
    double expected = 6.0 * (124439808 - 1024 * 768) + 12.0 * 12 * 768 * 1024;
    assert_true(model_flops_per_token(&small, 1024) == expected);
    assert_true(model_hardware_flops_per_token(&small, 1024, RECOMPUTE_NONE) == expected);
    /* half of 12 L C T is that of a sequence of half the length */
    assert_true(model_flops_per_token(&small, 512) == expected - 6.0 * 12 * 768 * 1024);
}

static struct job_spec *preset(const char *name)
{
    struct job_spec *spec;
    struct job_diagnostics d;
    char *text =
        str_printf("name: x\ntrain: {model: {preset: %s}, data: {path: x, tokenizer: bytes}, steps: 1, "
                   "batch: {global: 1, micro: 1}}\n",
                   name);
    if (job_spec_parse_plan(text, strlen(text), "preset", NULL, 0, &spec, &d) != 0)
        fail_msg("%s", d.text[0]);
    free(text);
    return spec;
}

/* The planner counts matrices alone; the usual estimate, 6 N, norms and biases as well. */
static void flops_agree_with_the_planner(void **state)
{
    (void)state;
    for (size_t i = 0; job_preset_name(i); i++) {
        struct job_spec *spec = preset(job_preset_name(i));
        const struct job_model *m = &spec->train.model;
        struct flops f;
        struct params p;
        flops_count(m, RECOMPUTE_NONE, &f);
        params_count(m, &p);
        double looked_up = (double)(p.positions + (m->tied ? 0 : p.embedding));
        double expected = f.six_n - 6 * looked_up + f.attention_full;
        double got = model_flops_per_token(m, (size_t)m->context);
        if (fabs(got - expected) > 1e-12 * expected || fabs(got - f.model_full) > 0.005 * f.model_full)
            fail_msg("%s: %.9g, by the planner's counts %.9g and %.9g", job_preset_name(i), got, expected,
                     f.model_full);
        flops_count(m, RECOMPUTE_FULL, &f);
        double again = model_hardware_flops_per_token(m, (size_t)m->context, RECOMPUTE_FULL) - got;
        assert_true(fabs(again - (f.blocks + f.attention_full) / 3) <= 0.005 * again);
        double selective = model_hardware_flops_per_token(m, (size_t)m->context, RECOMPUTE_SELECTIVE) - got;
        assert_true(fabs(selective - f.attention_full / 3) <= 1e-12 * got);
        job_spec_free(spec);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_grows_with_the_square_of_the_sequence),
        cmocka_unit_test(logits_are_never_kept),
        cmocka_unit_test(lack_of_memory_is_said),
        cmocka_unit_test(a_pass_takes_no_square_either),
        cmocka_unit_test(recomputation_takes_less_and_slots_take_more),
        cmocka_unit_test(what_cannot_be_is_refused_with_a_sentence),
        cmocka_unit_test(tokens_outside_the_vocabulary_give_nan_and_nothing_else),
        cmocka_unit_test(nan_in_a_parameter_reaches_the_loss),
        cmocka_unit_test(first_values_do_not_depend_on_the_mesh),
        cmocka_unit_test(first_values_have_their_statistics),
        cmocka_unit_test(first_values_depend_on_seed_and_name),
        cmocka_unit_test(flops_of_gpt2_are_those_of_the_palm_paper),
        cmocka_unit_test(flops_agree_with_the_planner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
