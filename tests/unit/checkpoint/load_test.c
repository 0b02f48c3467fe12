/* load: checkpoints of format 1 (tests/fixtures/checkpoint, written by the program of that time on three ranks) under today's names. */
#include "tests/unit/scratch.h"

#include "checkpoint/checkpoint.h"
#include "checkpoint/names.h"

#define FIXTURES "tests/fixtures/checkpoint/"
#define HIDDEN   4
#define FFN      6

/* The box of one tensor, read into memory of its own. */
struct tensor {
    struct checkpoint_piece piece;
    struct checkpoint_array array;
    float x[256 * HIDDEN];
};

static void tensor_box(struct tensor *t, const char *name, size_t rows, size_t columns, const struct box *box)
{
    *t = (struct tensor){.array = {.shape = {rows, columns}, .dims = columns > 1 ? 2 : 1, .n_pieces = 1}};
    t->piece = (struct checkpoint_piece){
        {box->from[0], box->from[1]}, {box->to[0], box->to[1]}, t->x, box->to[1] - box->from[1]};
    t->array.pieces = &t->piece;
    (void)snprintf(t->array.name, sizeof t->array.name, "%s", name);
}

static void tensor_load(struct tensor *t, const char *folder, const char *name, size_t rows, size_t columns)
{
    struct err err = {""};
    const struct box whole = {{0, 0}, {rows, columns}};
    tensor_box(t, name, rows, columns, &whole);
    if (checkpoint_load(folder, &t->array, 1, &err) != CHECKPOINT_OK)
        fail_msg("%s", err.text);
}

/* Matrices of GPT-2 lay (in,out), query, key and value side by side. */
static void test_gpt2(void **state)
{
    (void)state;
    static const struct {
        const char *ours, *theirs;
        size_t rows, columns, all,
            first; /* theirs: columns x all, or all numbers; ours begins at column first */
    } rows[] = {
        {"layers.0.attn.q.weight", "h.0.attn.c_attn.weight", HIDDEN, HIDDEN, 3 * HIDDEN, 0},
        {"layers.0.attn.k.weight", "h.0.attn.c_attn.weight", HIDDEN, HIDDEN, 3 * HIDDEN, HIDDEN},
        {"adam.m.layers.0.attn.v.weight", "adam.m.h.0.attn.c_attn.weight", HIDDEN, HIDDEN, 3 * HIDDEN,
         2 * HIDDEN},
        {"layers.0.attn.v.bias", "h.0.attn.c_attn.bias", HIDDEN, 1, 3 * HIDDEN, 2 * HIDDEN},
        {"layers.0.ffn.up.weight", "h.0.mlp.c_fc.weight", FFN, HIDDEN, FFN, 0},
        {"adam.v.layers.0.ffn.down.weight", "adam.v.h.0.mlp.c_proj.weight", HIDDEN, FFN, HIDDEN, 0},
        {"layers.0.norm1.bias", "h.0.ln_1.bias", HIDDEN, 1, HIDDEN, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tensor ours, theirs, part;
        size_t all = rows[i].all, r = rows[i].rows, c = rows[i].columns;
        tensor_load(&ours, FIXTURES "format1-gpt2", rows[i].ours, r, c);
        tensor_load(&theirs, FIXTURES "format1-gpt2", rows[i].theirs, c > 1 ? c : all, c > 1 ? all : 1);
        for (size_t k = 0; k < r * c; k++)
            assert_true(ours.x[k] == theirs.x[k % c * all + rows[i].first + k / c]);
        const struct box box = {{1, c > 1}, {3, c}};
        tensor_box(&part, rows[i].ours, r, c, &box);
        assert_int_equal(checkpoint_load(FIXTURES "format1-gpt2", &part.array, 1, NULL), CHECKPOINT_OK);
        for (size_t row = 1; row < 3; row++)
            for (size_t k = c > 1; k < c; k++)
                assert_true(part.x[(row - 1) * (c - (c > 1)) + k - (c > 1)] == ours.x[row * c + k]);
    }
}

static void test_llama(void **state)
{
    (void)state;
    static const struct {
        const char *ours, *theirs;
        size_t rows, columns;
    } rows[] = {
        {"embed.weight", "model.embed_tokens.weight", 256, HIDDEN},
        {"layers.0.attn.k.weight", "model.layers.0.self_attn.k_proj.weight", HIDDEN / 2, HIDDEN},
        {"adam.m.layers.0.ffn.gate.weight", "adam.m.model.layers.0.mlp.gate_proj.weight", FFN, HIDDEN},
        {"adam.v.norm.weight", "adam.v.model.norm.weight", HIDDEN, 1},
        {"head.weight", "lm_head.weight", 256, HIDDEN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tensor ours, theirs;
        tensor_load(&ours, FIXTURES "format1-llama", rows[i].ours, rows[i].rows, rows[i].columns);
        tensor_load(&theirs, FIXTURES "format1-llama", rows[i].theirs, rows[i].rows, rows[i].columns);
        assert_memory_equal(ours.x, theirs.x, sizeof ours.x);
        bool some = false;
        for (size_t k = 0; k < rows[i].rows * rows[i].columns; k++)
            some = some || ours.x[k] != 0;
        assert_true(some);
    }
}

/* What the tensors show of the model. */
static void test_model_of_format_1(void **state)
{
    (void)state;
    struct manifest_model gpt2 = {.arch = "gpt2",
                                  .layers = 1,
                                  .hidden = 4,
                                  .heads = 2,
                                  .kv_heads = 2,
                                  .ffn = 6,
                                  .vocab = 256,
                                  .context = 4,
                                  .tied = true,
                                  .norm_eps = 1e-5},
                          llama = {.arch = "llama",
                                   .layers = 1,
                                   .hidden = 4,
                                   .heads = 2,
                                   .kv_heads = 1,
                                   .ffn = 6,
                                   .vocab = 256,
                                   .context = 4,
                                   .norm_eps = 1e-5,
                                   .rope_theta = 1e4};
    const struct {
        const char *folder;
        const struct manifest_model *model;
    } rows[] = {{FIXTURES "format1-gpt2", &gpt2}, {FIXTURES "format1-llama", &llama}};
    for (size_t i = 0; i < 2; i++) {
        struct err err = {""};
        struct manifest_state found;
        struct manifest_model other = *rows[i].model;
        if (checkpoint_verify(rows[i].folder, 0, 1, &found, &err) != 0 ||
            manifest_same_model(rows[i].model, &found.model, &err) != 0)
            fail_msg("%s", err.text);
        assert_int_equal(found.step, 2);
        other.layers = 2;
        assert_int_equal(manifest_same_model(&other, &found.model, &err), -1);
        assert_contains(err.text, "layers is 1 there and 2 in the job");
        other.layers = 1;
        other.tied = !other.tied;
        assert_int_equal(manifest_same_model(&other, &found.model, &err), -1);
        assert_contains(err.text, "tied");
        assert_int_equal(manifest_same_model(rows[1 - i].model, &found.model, &err), -1);
        assert_contains(err.text, "another model: ");
    }
}

/* ---- memory that the host cannot touch: its addresses lie far from where the numbers are ---- */

#define FAR ((uintptr_t)1 << 60)

static float *away(float *x)
{
    return (float *)((uintptr_t)x + FAR);
}
static void away_to_host(void *out, const void *x, size_t bytes)
{
    memcpy(out, (const void *)((uintptr_t)x - FAR), bytes);
}
static void away_from_host(void *out, const void *x, size_t bytes)
{
    memcpy((void *)((uintptr_t)out - FAR), x, bytes);
}

/* Whole tensors and boxes of them, as they are and turned, land there as they do here. */
static void test_loading_elsewhere(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t rows, columns;
    } tensors[] = {{"layers.0.attn.k.weight", HIDDEN, HIDDEN},
                   {"layers.0.ffn.up.weight", FFN, HIDDEN},
                   {"h.0.mlp.c_fc.weight", HIDDEN, FFN},
                   {"layers.0.attn.v.bias", HIDDEN, 1}};
    for (size_t i = 0; i < 2 * sizeof tensors / sizeof *tensors; i++) {
        struct tensor here, there;
        struct err err = {""};
        size_t rows = tensors[i / 2].rows, columns = tensors[i / 2].columns;
        struct box box = {{i % 2, i % 2 && columns > 1}, {rows, columns}};
        tensor_box(&here, tensors[i / 2].name, rows, columns, &box);
        tensor_box(&there, tensors[i / 2].name, rows, columns, &box);
        there.piece.data = away(there.x);
        there.array.memory = (struct checkpoint_memory){away_to_host, away_from_host};
        const struct checkpoint_array both[] = {here.array, there.array};
        if (checkpoint_load(FIXTURES "format1-gpt2", both, 2, &err) != CHECKPOINT_OK)
            fail_msg("%s", err.text);
        assert_memory_equal(here.x, there.x, sizeof here.x);
    }
}

/* Columns of a matrix with others between them, and more numbers than are copied at a time. */
static void test_writing_elsewhere(void **state)
{
    (void)state;
    enum { ROWS = 3, WIDE = 1500000, FROM = 10 };
    float *x = malloc(ROWS * WIDE * sizeof *x);
    struct manifest_file files[2];
    for (size_t i = 0; i < (size_t)ROWS * WIDE; i++)
        x[i] = (float)i;
    for (int far = 0; far < 2; far++) {
        struct checkpoint_piece piece = {{0, FROM}, {ROWS, WIDE}, far ? away(x + FROM) : x + FROM, WIDE};
        struct checkpoint_array a = {
            .name = "x", .shape = {ROWS, WIDE}, .dims = 2, .pieces = &piece, .n_pieces = 1};
        if (far)
            a.memory = (struct checkpoint_memory){away_to_host, away_from_host};
        assert_int_equal(checkpoint_write_shard(scratch, far, &a, 1, &files[far], NULL), 0);
    }
    assert_string_equal(files[0].hash, files[1].hash);
    free(x);
}

static void test_names(void **state)
{
    (void)state;
    static const struct {
        enum names_layout layout;
        const char *ours, *theirs;
        enum names_kind kind;
        size_t part;
        bool transposed;
    } rows[] = {
        {NAMES_HF_GPT2, "layers.12.attn.k.bias", "h.12.attn.c_attn.bias", NAMES_THIRD, 1, false},
        {NAMES_HF_GPT2, "layers.0.ffn.up.weight", "h.0.mlp.c_fc.weight", NAMES_WHOLE, 0, true},
        {NAMES_HF_GPT2, "layers.0.ffn.gate.weight", NULL, NAMES_WHOLE, 0, false},
        {NAMES_HF_LLAMA, "layers.125.ffn.gate.weight", "model.layers.125.mlp.gate_proj.weight", NAMES_WHOLE,
         0, false},
        {NAMES_HF_LLAMA, "layers.x.ffn.gate.weight", NULL, NAMES_WHOLE, 0, false},
        {NAMES_HF_LLAMA, "layers.1234567.ffn.gate.weight", NULL, NAMES_WHOLE, 0, false},
        {NAMES_HF_LLAMA, "layers.1.ffn.gate.weights", NULL, NAMES_WHOLE, 0, false},
        {NAMES_HF_LLAMA, "layers.1.ffn.gate.weigh", NULL, NAMES_WHOLE, 0, false},
        {NAMES_HF_LLAMA, "layers.1.router.weight", NULL, NAMES_WHOLE, 0, false},
        {NAMES_HF_MIXTRAL, "layers.1.router.weight", "model.layers.1.block_sparse_moe.gate.weight",
         NAMES_WHOLE, 0, false},
        {NAMES_HF_MIXTRAL, "layers.31.experts.7.down.weight",
         "model.layers.31.block_sparse_moe.experts.7.w2.weight", NAMES_WHOLE, 0, false},
        {NAMES_GGUF_GPT2, "layers.3.attn.v.weight", "blk.3.attn_qkv.weight", NAMES_THIRD, 2, false},
        {NAMES_GGUF_GPT2, "layers.3.ffn.up.weight", "blk.3.ffn_up.weight", NAMES_WHOLE, 0, false},
        {NAMES_GGUF_LLAMA, "layers.3.attn.v.weight", "blk.3.attn_v.weight", NAMES_WHOLE, 0, false},
        {NAMES_GGUF_LLAMA, "layers.3.experts.12.up.weight", "blk.3.ffn_up_exps.weight", NAMES_EXPERT, 12,
         false},
        {NAMES_GGUF_LLAMA, "position.weight", NULL, NAMES_WHOLE, 0, false},
        {NAMES_HF_MIXTRAL, "layers.1.ffn.gate.weight", NULL, NAMES_WHOLE, 0, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct names_place p;
        assert_int_equal(names_place(rows[i].layout, rows[i].ours, &p), rows[i].theirs != NULL);
        if (!rows[i].theirs)
            continue;
        assert_string_equal(p.name, rows[i].theirs);
        assert_int_equal(p.part, rows[i].part);
        assert_int_equal(p.kind, rows[i].kind);
        assert_int_equal(p.transposed, rows[i].transposed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gpt2),
                                       cmocka_unit_test(test_llama),
                                       cmocka_unit_test(test_model_of_format_1),
                                       cmocka_unit_test(test_loading_elsewhere),
                                       cmocka_unit_test(test_writing_elsewhere),
                                       cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
