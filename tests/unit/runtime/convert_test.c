/* convert: checkpoint to Hugging Face's layout and back is the same bits, GGUF has the rows where llama.cpp looks for them, and files that do not
 * fit are refused. */
#include "tests/unit/scratch.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "checkpoint/safetensors.h"
#include "common/jsonx.h"
#include "runtime/convert/bands.h"
#include "runtime/convert/export.h"
#include "runtime/convert/import.h"
#include "runtime/convert/mapping.h"
#include "runtime/convert/outfolder.h"
#include "runtime/signals.h"

static const struct {
    const char *name;
    struct manifest_model model;
} models[] = {
    {"gpt2", {"gpt2", 2, 8, 2, 2, 12, 300, 16, 0, 0, true, 1e-5, 0, "bytes", 0}},
    {"untied", {"gpt2", 1, 8, 4, 4, 10, 256, 8, 0, 0, false, 1e-5, 0, "bytes", 0}},
    {"llama", {"llama", 2, 8, 2, 1, 12, 256, 16, 0, 0, false, 1e-6, 5e5, "bytes", 0}},
    {"tied", {"llama", 1, 12, 3, 3, 7, 256, 16, 0, 0, true, 1e-5, 1e4, "bytes", 0}},
    {"mixtral", {"llama", 2, 8, 2, 1, 6, 256, 16, 3, 2, false, 1e-5, 1e6, "bytes", 0}},
};
enum { MODELS = sizeof models / sizeof *models };

static float value(size_t tensor, size_t i)
{
    return (float)((tensor * 7919 + i) * 2654435761u % 100003) / 1000 - 50;
}

/* A checkpoint of two ranks that cut every tensor in the middle of its numbers, into scratch/NAME. */
static char *save(size_t model)
{
    struct err err = {""};
    struct tensor_list list;
    struct manifest_file files[2];
    struct checkpoint_record records[2];
    char *folder = str_printf("%s/%s.checkpoint", scratch, models[model].name);
    assert_int_equal(fs_mkdirs(folder, 0755, &err), 0);
    tensors_of_model(&models[model].model, &list);
    struct checkpoint_array *arrays = calloc(list.count, sizeof *arrays);
    struct checkpoint_piece(*pieces)[3] = calloc(list.count, sizeof *pieces);
    float **memory = calloc(list.count, sizeof *memory);
    for (size_t rank = 0; rank < 2; rank++) {
        for (size_t i = 0; i < list.count; i++) {
            const struct tensor_desc *t = &list.items[i];
            struct box whole = {{0, 0}, {t->shape[0], t->shape[1]}};
            size_t n = box_count(&whole), from = rank == 0 ? 0 : n / 2, to = rank == 0 ? n / 2 : n;
            memory[i] = calloc(n, sizeof(float));
            for (size_t k = 0; k < n; k++)
                memory[i][k] = value(i, k);
            memcpy(arrays[i].name, t->name, sizeof t->name);
            memcpy(arrays[i].shape, t->shape, sizeof t->shape);
            arrays[i].dims = t->dims;
            arrays[i].pieces = pieces[i];
            arrays[i].n_pieces = checkpoint_range(&whole, from, to, memory[i] + from, pieces[i]);
        }
        assert_int_equal(checkpoint_write_shard(folder, (int)rank, arrays, list.count, &files[rank], &err),
                         0);
        records[rank] = checkpoint_describe(arrays, list.count, &files[rank]);
        for (size_t i = 0; i < list.count; i++)
            free(memory[i]);
    }
    const struct manifest_state at = {
        .step = 7, .tp = 1, .pp = 1, .cp = 1, .dp = 2, .ep = 1, .model = models[model].model};
    if (checkpoint_seal(folder, records, NULL, 2, &at, &err) != 0)
        fail_msg("%s", err.text);
    free(records[0].bytes);
    free(records[1].bytes);
    free(memory);
    free(pieces);
    free(arrays);
    tensors_free(&list);
    return folder;
}

static struct weights *open_weights(const char *path)
{
    struct err err = {""};
    struct weights *w = weights_open(path, &err);
    if (!w)
        fail_msg("%s", err.text);
    return w;
}

/* Exports; the caller frees the path. */
static char *export_folder(const struct weights *w, const char *name, enum dtype type, uint64_t shard)
{
    struct err err = {""};
    uint64_t bytes;
    struct tokenizer *t = tokenizer_open("bytes", &err);
    const struct export_request request = {w, t, name, type, shard};
    char *folder = scratch_path(name);
    assert_int_equal(mkdir(folder, 0755), 0);
    if (export_check(&request, &err) != 0 || export_hf(&request, folder, &bytes, &err) != 0)
        fail_msg("%s", err.text);
    tokenizer_free(t);
    return folder;
}

/* Do the weights hold the numbers that save() wrote, rounded to the type? */
static void assert_values(const struct weights *w, size_t model, enum dtype type)
{
    struct tensor_list list;
    struct err err = {""};
    tensors_of_model(&models[model].model, &list);
    for (size_t i = 0; i < list.count; i++) {
        const struct tensor_desc *t = &list.items[i];
        size_t n = t->shape[0] * t->shape[1];
        float *x = calloc(n, sizeof *x);
        struct checkpoint_piece piece = {{0, 0}, {t->shape[0], t->shape[1]}, x, t->shape[1]};
        struct checkpoint_array a = {
            .shape = {t->shape[0], t->shape[1]}, .dims = t->dims, .pieces = &piece, .n_pieces = 1};
        memcpy(a.name, t->name, sizeof a.name);
        if (weights_load(w, &a, 1, &err) != 0)
            fail_msg("%s", err.text);
        for (size_t k = 0; k < n; k++) {
            float should = value(i, k);
            char narrow[8];
            dtype_from_float(type, &should, narrow, 1);
            dtype_to_float(type, narrow, &should, 1);
            assert_true(x[k] == should);
        }
        free(x);
    }
    tensors_free(&list);
}

/* No file is larger than asked, unless for one tensor, and none could have taken the next one's first tensor, too. */
static void assert_shards(const char *folder, uint64_t most)
{
    struct err err = {""};
    char *index_path = str_printf("%s/model.safetensors.index.json", folder);
    json_t *index = jsonx_read_file(index_path, 1u << 20, &err), *map = json_object_get(index, "weight_map"),
           *file;
    const char *name, *last = "";
    uint64_t bytes = 0, all = 0;
    size_t tensors = 0;
    json_object_foreach(map, name, file)
    {
        char *path = str_printf("%s/%s", folder, json_string_value(file));
        struct safetensors *f = safetensors_open(path, &err);
        const struct safetensors_tensor *t = safetensors_find(f, name);
        bool next = strcmp(last, json_string_value(file)) != 0;
        if (next)
            assert_true(tensors == 0 || bytes + (t->to - t->from) > most);
        bytes = (next ? 0 : bytes) + (t->to - t->from);
        tensors = next ? 1 : tensors + 1;
        all += t->to - t->from;
        assert_true(bytes <= most || tensors == 1);
        last = json_string_value(file);
        safetensors_close(f);
        free(path);
    }
    assert_int_equal(jsonx_int_or(json_object_get(index, "metadata"), "total_size", 0), all);
    json_decref(index);
    free(index_path);
}

/* In one file and in many, in every type; then back as a checkpoint. */
static void test_there_and_back(void **state)
{
    (void)state;
    static const struct {
        enum dtype type;
        uint64_t shard;
    } ways[] = {{DTYPE_F32, 5000000000}, {DTYPE_F32, 3000}, {DTYPE_BF16, 1}, {DTYPE_F16, 2000}};
    for (size_t m = 0; m < MODELS; m++) {
        char *saved = save(m);
        struct weights *from = open_weights(saved);
        assert_values(from, m, DTYPE_F32);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            struct err err = {""};
            uint64_t bytes;
            char *name = str_printf("%s.hf%zu", models[m].name, i),
                 *folder = export_folder(from, name, ways[i].type, ways[i].shard),
                 *index = str_printf("%s/model.safetensors.index.json", folder),
                 *again = str_printf("%s.checkpoint", folder);
            assert_int_equal(access(index, F_OK), i == 0 ? -1 : 0);
            if (i > 0)
                assert_shards(folder, ways[i].shard);
            struct weights *there = open_weights(folder);
            assert_int_equal(manifest_same_model(weights_model(there), &models[m].model, &err), 0);
            assert_values(there, m, ways[i].type);
            assert_int_equal(mkdir(again, 0755), 0);
            if (import_write(there, again, &bytes, &err) != 0)
                fail_msg("%s", err.text);
            struct weights *back = open_weights(again);
            assert_int_equal(weights_verify(back, 0, 1, &err), 0);
            assert_values(back, m, ways[i].type);
            char *tokenizer = weights_tokenizer(back);
            assert_contains(tokenizer, "checkpoint/tokenizer.json");
            free(tokenizer);
            weights_close(back);
            weights_close(there);
            free(again);
            free(index);
            free(folder);
            free(name);
        }
        weights_close(from);
        free(saved);
    }
}

/* ---- GGUF ------------------------------------------------------------------------------------------------------------- */

struct numbers {
    float *x;
    size_t n, room;
};

static int keep(void *to, const float *x, size_t n)
{
    struct numbers *k = to;
    assert_true(k->n + n <= k->room);
    memcpy(k->x + k->n, x, n * sizeof *x);
    k->n += n;
    return 0;
}

/* Which tensor of ours has this name. */
static size_t index_of(const struct tensor_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, name) == 0)
            return i;
    fail_msg("no %s", name);
    return 0;
}

/* Streams the tensor called so in GGUF; the caller frees the numbers. */
static float *stream(size_t model, const struct tensor_list *list, const char *name, const size_t *shape,
                     size_t dims)
{
    struct mapping mapping;
    struct err err = {""};
    char *saved = str_printf("%s/%s.checkpoint", scratch, models[model].name);
    struct weights *w = open_weights(saved);
    struct numbers kept = {calloc(4096, sizeof(float)), 0, 4096};
    struct bands_sink sink = {keep, &kept};
    size_t n = 1;
    mapping_gguf(&models[model].model, list, DTYPE_F16, &mapping);
    for (size_t i = 0; i < mapping.count; i++) {
        const struct mapping_tensor *t = &mapping.tensors[i];
        if (strcmp(t->name, name) != 0)
            continue;
        assert_int_equal(t->dims, dims);
        assert_int_equal(t->type, dims == 1 || strstr(name, "gate_inp") ? DTYPE_F32 : DTYPE_F16);
        for (size_t d = 0; d < dims; d++) {
            assert_int_equal(t->shape[d], shape[d]);
            n *= shape[d];
        }
        assert_int_equal(bands_put(w, t, &sink, &err), 0);
        assert_int_equal(kept.n, n);
    }
    assert_true(kept.n > 0);
    mapping_free(&mapping);
    weights_close(w);
    free(saved);
    return kept.x;
}

/* Row 2i of a head is our row i of it, row 2i+1 our row i + D/2. */
static void test_rotary_rows(void **state)
{
    (void)state;
    struct tensor_list list;
    const size_t shape[] = {8, 8};
    tensors_of_model(&models[2].model, &list);
    float *x = stream(2, &list, "blk.1.attn_q.weight", shape, 2);
    size_t q = index_of(&list, "layers.1.attn.q.weight");
    static const size_t from[] = {0, 2, 1, 3, 4, 6, 5, 7};
    for (size_t r = 0; r < 8; r++)
        for (size_t c = 0; c < 8; c++)
            assert_true(x[r * 8 + c] == value(q, from[r] * 8 + c));
    free(x);
    tensors_free(&list);
}

/* Query, key and value one below the other; experts one behind the other; vectors and routers stay F32. */
static void test_parts(void **state)
{
    (void)state;
    struct tensor_list list;
    const size_t qkv[] = {24, 8}, bias[] = {24}, experts[] = {3, 6, 8}, router[] = {3, 8};
    tensors_of_model(&models[0].model, &list);
    float *x = stream(0, &list, "blk.1.attn_qkv.weight", qkv, 2);
    size_t q = index_of(&list, "layers.1.attn.q.weight"), b = index_of(&list, "layers.1.attn.q.bias");
    for (size_t i = 0; i < 24 * 8; i++)
        assert_true(x[i] == value(q + i / 64, i % 64));
    free(x);
    x = stream(0, &list, "blk.1.attn_qkv.bias", bias, 1);
    for (size_t i = 0; i < 24; i++)
        assert_true(x[i] == value(b + i / 8, i % 8));
    free(x);
    tensors_free(&list);
    tensors_of_model(&models[4].model, &list);
    x = stream(4, &list, "blk.0.ffn_up_exps.weight", experts, 3);
    size_t up = index_of(&list, "layers.0.experts.0.up.weight");
    for (size_t i = 0; i < 3 * 48; i++)
        assert_true(x[i] == value(up + i / 48 * TENSORS_PER_EXPERT, i % 48));
    free(x);
    free(stream(4, &list, "blk.0.ffn_gate_inp.weight", router, 2));
    tensors_free(&list);
}

/* ---- refusals --------------------------------------------------------------------------------------------------------- */

static void test_export_refuses(void **state)
{
    (void)state;
    static const struct {
        struct manifest_model model;
        const char *says;
    } rows[] = {
        {{"gpt2", 1, 8, 2, 1, 12, 256, 16, 0, 0, true, 1e-5, 0, "bytes", 0},
         "fewer kv_heads (1) than heads (2)"},
        {{"llama", 1, 8, 2, 1, 12, 256, 16, 2, 1, false, 1e-5, 1e4, "bytes", 0},
         "top_k 1 cannot be exported"},
        {{"llama", 1, 8, 2, 1, 12, 255, 16, 0, 0, false, 1e-5, 1e4, "bytes", 0},
         "has 256 tokens, the model 255"},
        {{"llama", 1, 8, 2, 1, 12, 256, 0, 0, 0, false, 1e-5, 1e4, "bytes", 0}, "does not tell the length"},
    };
    struct err err = {""};
    float x = 0;
    struct tokenizer *t = tokenizer_open("bytes", &err);
    struct checkpoint_piece piece = {{0, 0}, {1, 1}, &x, 1};
    struct checkpoint_array a = {.name = "x", .shape = {1}, .dims = 1, .pieces = &piece, .n_pieces = 1};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct manifest_state at = {.tp = 1, .pp = 1, .cp = 1, .dp = 1, .ep = 1, .model = rows[i].model};
        struct manifest_file file;
        char *name = str_printf("refuse%zu", i), *folder = scratch_path(name);
        assert_int_equal(fs_mkdirs(folder, 0755, &err), 0);
        assert_int_equal(checkpoint_write_shard(folder, 0, &a, 1, &file, &err), 0);
        struct checkpoint_record record = checkpoint_describe(&a, 1, &file);
        assert_int_equal(checkpoint_seal(folder, &record, NULL, 1, &at, &err), 0);
        struct weights *w = open_weights(folder);
        const struct export_request request = {w, t, "x", DTYPE_F32, 1};
        assert_int_equal(export_check(&request, &err), -1);
        assert_contains(err.text, rows[i].says);
        weights_close(w);
        free(record.bytes);
        free(folder);
        free(name);
    }
    tokenizer_free(t);
}

/* Puts a file into a fresh copy of a good folder, or removes it (text NULL), and opens that. */
static void assert_refused(const char *good, size_t number, const char *file, const char *text,
                           const char *says)
{
    static const char *const files[] = {"config.json", "model.safetensors"};
    struct err err = {""};
    char *folder = str_printf("%s.bad%zu", good, number), *path = str_printf("%s/%s", folder, file);
    assert_int_equal(mkdir(folder, 0755), 0);
    for (size_t i = 0; i < 2; i++) {
        char *from = str_printf("%s/%s", good, files[i]), *to = str_printf("%s/%s", folder, files[i]);
        assert_int_equal(link(from, to), 0);
        free(from);
        free(to);
    }
    (void)unlink(path);
    if (text)
        scratch_write(path, text, strlen(text));
    assert_null(weights_open(folder, &err));
    assert_contains(err.text, says);
    free(path);
    free(folder);
}

static void test_folder_refuses(void **state)
{
    (void)state;
    char *saved = str_printf("%s/llama.checkpoint", scratch);
    struct weights *w = open_weights(saved);
    char *good = export_folder(w, "good", DTYPE_F32, 5000000000);
    static const struct {
        const char *file, *text, *says;
    } rows[] = {
        {"config.json", NULL, "is no checkpoint (manifest.json), no directory"},
        {"config.json", "{", "config.json"},
        {"config.json", "{\"model_type\":\"bert\"}", "config.json: \"model_type\" is \"bert\""},
        {"model.safetensors", NULL, "has no model.safetensors"},
        {"model.safetensors", "x", "only 1 bytes"},
        {"model.safetensors.index.json", "{\"weight_map\":{\"x\":\"../y\"}}", "names the file \"../y\""},
        {"model.safetensors.index.json", "{\"weight_map\":{\"x\":3}}", "has no file for x"},
        {"model.safetensors.index.json", "{\"weight_map\":{\"x\":\"other.safetensors\"}}",
         "other.safetensors: No such file"},
        {"model.safetensors.index.json", "{\"weight_map\":{}}", "has no tensor model.embed_tokens.weight"},
        {"config.json",
         "{\"model_type\":\"llama\",\"vocab_size\":256,\"max_position_embeddings\":16,\"hidden_size\":8,"
         "\"intermediate_size\":13,\"num_hidden_layers\":2,\"num_attention_heads\":2,\"num_key_value_heads\":"
         "1}",
         "does not have the shape"},
        {"config.json",
         "{\"model_type\":\"llama\",\"vocab_size\":256,\"max_position_embeddings\":16,\"hidden_size\":8,"
         "\"intermediate_size\":12,\"num_hidden_layers\":3,\"num_attention_heads\":2,\"num_key_value_heads\":"
         "1}",
         "has no tensor model.layers.2.input_layernorm.weight"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_refused(good, i, rows[i].file, rows[i].text, rows[i].says);
    weights_close(w);
    free(good);
    free(saved);
}

/* Beside a good folder's file a second one with one more tensor; opened, or refused by its name. */
static void open_with(const char *good, const char *name, bool refused)
{
    struct err err = {""};
    struct safetensors_tensor t = {.shape = {2}, .dims = 1, .type = DTYPE_F32};
    uint64_t bytes;
    char hash[DIGEST_SIZE], *more = str_printf("%s/more.safetensors", good),
                            *index = str_printf("%s/model.safetensors.index.json", good);
    static const char text[] = "{\"weight_map\":{\"a\":\"model.safetensors\",\"b\":\"more.safetensors\"}}";
    (void)snprintf(t.name, sizeof t.name, "%.*s", (int)strcspn(name, " "), name);
    scratch_write(index, text, sizeof text - 1);
    struct safetensors_writer *file = safetensors_create(more, &t, 1, NULL, NULL, &err);
    assert_int_equal(safetensors_put(file, (const float[]){1, 2}, 2), 0);
    assert_int_equal(safetensors_finish(file, &bytes, hash, &err), 0);
    struct weights *w = weights_open(good, &err);
    if ((w == NULL) != refused)
        fail_msg("%s: %s", name, w ? "opened" : err.text);
    if (refused)
        assert_contains(err.text, name);
    weights_close(w);
    assert_int_equal(unlink(more), 0);
    assert_int_equal(unlink(index), 0);
    free(index);
    free(more);
}

/* What would make another model of it is not passed over; what transformers passes over beside the model is. */
static void test_tensors_to_spare(void **state)
{
    (void)state;
    static const struct {
        const char *folder, *name;
        bool refused;
    } rows[] = {
        {"good", "model.layers.1.self_attn.q_proj.bias", true},
        {"good", "model.layers.0.a_first", true},
        {"good", "model.layers.1.self_attn.q_norm.weight", true},
        {"good", "model.norm.bias", true},
        {"good", "model.norm.weight twice", true},
        {"good", "lm_head.bias", true},
        {"good", "model.layers.0.self_attn.rotary_emb.inv_freq", false},
        {"good", "model.layers.2.self_attn.q_proj.weight", false},
        {"good", "model.layers.10.self_attn.q_proj.bias", false},
        {"good", "score.weight", false},
        {"good", "x", false},
        {"gpt2.hf0", "transformer.h.1.attn.bias", false},
        {"gpt2.hf0", "transformer.h.1.attn.masked_bias", false},
        {"gpt2.hf0", "transformer.h.1.ln_3.weight", true},
        {"gpt2.hf0", "lm_head.weight", false}, /* tied: the table of embeddings is */
        {"gpt2.hf0", "v_head.summary.bias", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *good = scratch_path(rows[i].folder);
        open_with(good, rows[i].name, rows[i].refused);
        free(good);
    }
}

/* A list of that many layers would take all memory. */
static void test_endless_models(void **state)
{
    (void)state;
    struct err err = {""};
    char *good = scratch_path("good");
    assert_refused(
        good, 100, "config.json",
        "{\"model_type\":\"llama\",\"vocab_size\":256,\"max_position_embeddings\":16,\"hidden_size\":8,"
        "\"intermediate_size\":12,\"num_hidden_layers\":2000000000,\"num_attention_heads\":2}",
        "is said to have 2000000000 layers");
    struct manifest_model m = {.layers = 70000, .experts = 0};
    assert_int_equal(tensors_check_count(&m, 70000, &err), 0);
    assert_int_equal(tensors_check_count(&m, 69999, &err), -1);
    m = (struct manifest_model){.layers = (int64_t)1 << 40, .experts = (int64_t)1 << 40};
    assert_int_equal(tensors_check_count(&m, 1000, &err), -1);
    m = (struct manifest_model){.layers = 100, .experts = 8};
    assert_int_equal(tensors_check_count(&m, 1, &err), 0);
    free(good);
}

/* A job may use a part of the positions, and no more than there are; without a table of them, any number. */
static void test_other_context(void **state)
{
    (void)state;
    struct err err = {""};
    float x[4 * 8];
    char *saved = str_printf("%s/gpt2.checkpoint", scratch), *folder = str_printf("%s/gpt2.hf0", scratch);
    const char *const paths[] = {saved, folder};
    for (size_t i = 0; i < 2; i++) {
        struct weights *w = open_weights(paths[i]);
        struct manifest_model now = models[0].model;
        struct checkpoint_piece piece = {{0, 0}, {4, 8}, x, 8};
        struct checkpoint_array a = {
            .name = "position.weight", .shape = {4, 8}, .dims = 2, .pieces = &piece, .n_pieces = 1};
        now.context = 4;
        assert_int_equal(weights_suit(w, &now, &err), 0);
        assert_int_equal(weights_load(w, &a, 1, &err), 0);
        for (size_t k = 0; k < 32; k++)
            assert_true(x[k] == value(1, k));
        now.context = 17;
        assert_int_equal(weights_suit(w, &now, &err), -1);
        assert_contains(err.text, "context is 16 there and 17 in the job");
        a.shape[0] = 17;
        assert_int_equal(weights_load(w, &a, 1, &err), -1);
        weights_close(w);
    }
    char *rotary = str_printf("%s/llama.checkpoint", scratch);
    struct weights *w = open_weights(rotary);
    struct manifest_model longer = models[2].model;
    longer.context = 1000;
    assert_int_equal(weights_suit(w, &longer, &err), 0);
    weights_close(w);
    free(rotary);
    free(saved);
    free(folder);
}

/* The newest checkpoint of a directory that is complete. */
static void test_directory(void **state)
{
    (void)state;
    struct err err = {""};
    char *saved = str_printf("%s/llama.checkpoint", scratch), *directory = scratch_path("directory"),
         *seven = str_printf("%s/step-00000007", directory),
         *nine = str_printf("%s/step-00000009", directory);
    assert_int_equal(mkdir(directory, 0755), 0);
    assert_null(weights_open(directory, &err));
    assert_contains(err.text, "no directory with a complete one");
    assert_int_equal(rename(saved, seven), 0);
    assert_int_equal(mkdir(nine, 0755), 0);
    struct weights *w = open_weights(directory);
    assert_string_equal(weights_path(w), seven);
    assert_int_equal(weights_state(w)->step, 7);
    weights_close(w);
    assert_int_equal(rename(seven, saved), 0);
    free(nine);
    free(seven);
    free(directory);
    free(saved);
}

/* In a process of its own: a request to stop is never forgotten. */
static void test_stopped(void **state)
{
    (void)state;
    char *saved = str_printf("%s/llama.checkpoint", scratch), *folder = scratch_path("stopped");
    struct err err = {""};
    int status;
    assert_int_equal(mkdir(folder, 0755), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        uint64_t bytes;
        struct weights *w = open_weights(saved);
        signals_install();
        weights_stop_when(w, signals_stop);
        (void)raise(SIGTERM);
        _exit(import_write(w, folder, &bytes, &err) == -1 && strstr(err.text, "stopped by a signal") ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(rmdir(folder), 0); /* it is empty */
    free(folder);
    free(saved);
}

/* Two exports to one name may have begun before either was there. */
static void test_taken_file(void **state)
{
    (void)state;
    struct err err = {""};
    char *path = scratch_path("taken.gguf"), *first = scratch_path("first.tmp"),
         *second = scratch_path("second.tmp");
    struct stat st;
    scratch_write(first, "1", 1);
    scratch_write(second, "22", 2);
    assert_int_equal(outfolder_commit_file(first, path, &err), 0);
    assert_int_equal(outfolder_commit_file(second, path, &err), -1);
    assert_contains(err.text, "taken.gguf is already there; name another file");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 1);
    assert_int_equal(access(second, F_OK), -1);
    free(second);
    free(first);
    free(path);
}

static void test_outfolder(void **state)
{
    (void)state;
    struct err err = {""};
    char *path = scratch_path("out/of/it/"), *file = str_printf("%sfile", path);
    char *folder = outfolder_begin(path, &err);
    assert_non_null(folder);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(outfolder_commit(folder, path, &err), 0);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(access(folder, F_OK), -1);
    free(folder);
    folder = outfolder_begin(path, &err); /* empty: may be replaced */
    assert_non_null(folder);
    assert_int_equal(outfolder_commit(folder, path, &err), 0);
    scratch_write(file, "x", 1);
    assert_null(outfolder_begin(path, &err));
    assert_contains(err.text, "is not empty");
    assert_null(outfolder_begin(file, &err));
    assert_contains(err.text, "Not a directory");
    free(folder);
    free(file);
    free(path);
}

static void test_job_model(void **state)
{
    (void)state;
    char *text = import_job_model(&models[4].model);
    assert_string_equal(
        text, "model: {arch: llama, layers: 2, hidden: 8, heads: 2, kv_heads: 1, ffn: 6, vocab: 256, "
              "context: 16, experts: 3, top_k: 2, tied: false, norm_eps: 1e-05, rope_theta: 1000000}");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_rotary_rows),
        cmocka_unit_test(test_parts),          cmocka_unit_test(test_export_refuses),
        cmocka_unit_test(test_folder_refuses), cmocka_unit_test(test_tensors_to_spare),
        cmocka_unit_test(test_endless_models), cmocka_unit_test(test_other_context),
        cmocka_unit_test(test_directory),      cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_taken_file),     cmocka_unit_test(test_outfolder),
        cmocka_unit_test(test_job_model)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
