/* What a checkpoint says of its model is not believed: sizes that mean nothing are refused before anything is made of them. */
#include "tests/unit/scratch.h"

#include "checkpoint/manifest.h"
#include "runtime/inference.h"

static const struct manifest_model sound = {.arch = "llama",
                                            .layers = 1,
                                            .hidden = 8,
                                            .heads = 2,
                                            .kv_heads = 1,
                                            .ffn = 8,
                                            .vocab = 256,
                                            .context = 8,
                                            .norm_eps = 1e-5,
                                            .rope_theta = 10000,
                                            .tokenizer = "bytes"};

/* What opening a checkpoint of this model comes to; it has no tensors. */
static void open_model(const struct manifest_model *model, struct err *err)
{
    struct inference in;
    struct manifest manifest = {.state = {.step = 3, .tp = 1, .pp = 1, .cp = 1, .dp = 1, .ep = 1}};
    struct inference_request r = {.path = scratch};
    manifest.state.model = *model;
    err->text[0] = 0;
    if (manifest_write(scratch, &manifest, err) != 0)
        fail_msg("%s", err->text);
    assert_int_equal(inference_open(&in, &r, err), -1);
    inference_close(&in);
}

static void sizes_that_mean_nothing(void **state)
{
    (void)state;
    struct {
        size_t at;
        int64_t value;
        const char *sentence;
    } rows[] = {
        {offsetof(struct manifest_model, layers), 0, "a size of its model is 0"},
        {offsetof(struct manifest_model, layers), 1 << 20, "layers"},
        {offsetof(struct manifest_model, hidden), (int64_t)1 << 40, "a size of its model is 1099511627776"},
        {offsetof(struct manifest_model, hidden), 9, "do not divide a width of 9"},
        {offsetof(struct manifest_model, heads), 3, "do not divide"},
        {offsetof(struct manifest_model, kv_heads), 0, "a size of its model is 0"},
        {offsetof(struct manifest_model, vocab), 255, "has 256 tokens, the model knows 255"},
        {offsetof(struct manifest_model, context), 0, "a size of its model is 0"},
        {offsetof(struct manifest_model, experts), 4, "tokens go to 0 of 4 experts"},
        {offsetof(struct manifest_model, experts), 1 << 20, "experts"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct manifest_model model = sound;
        struct err err;
        memcpy((char *)&model + rows[i].at, &rows[i].value, sizeof rows[i].value);
        open_model(&model, &err);
        assert_contains(err.text, scratch);
        assert_contains(err.text, rows[i].sentence);
    }
}

static void other_things_that_are_missing(void **state)
{
    (void)state;
    struct err err;
    struct manifest_model model = sound;
    open_model(&model, &err);
    assert_contains(err.text, "embed.weight"); /* it lacks that one, and all others */
    (void)snprintf(model.arch, sizeof model.arch, "mamba");
    open_model(&model, &err);
    assert_contains(err.text, "\"mamba\"");
    model = sound;
    model.tokenizer[0] = 0;
    open_model(&model, &err);
    assert_contains(err.text, "--tokenizer NAME");
    (void)snprintf(model.tokenizer, sizeof model.tokenizer, "/nowhere/tokenizer.json");
    open_model(&model, &err);
    assert_contains(err.text, "its tokenizer (--tokenizer NAME takes another)");
    model = sound;
    model.tokenizer_fingerprint = 1; /* of no tokenizer */
    open_model(&model, &err);
    assert_contains(err.text, "bytes is not what it was when the model was trained with it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_that_mean_nothing),
        cmocka_unit_test(other_things_that_are_missing),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
