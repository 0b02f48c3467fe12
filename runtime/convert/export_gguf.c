/* export_gguf: see export.h. Keys are those of llama.cpp's architectures gpt2 and llama, which also has Mixtral's experts; the tokenizer is of its
 * kind "gpt2", byte-level BPE. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "runtime/convert/bands.h"
#include "runtime/convert/export.h"
#include "runtime/convert/gguf.h"

enum { TOKEN_NORMAL = 1, TOKEN_CONTROL = 3, TOKEN_UNUSED = 5 }; /* llama.cpp's kinds of tokens */

static void set_size(struct gguf *g, const struct manifest_model *m, const char *key, int64_t value)
{
    char *name = str_printf("%s.%s", m->arch, key);
    gguf_set_u32(g, name, (uint32_t)value);
    free(name);
}

static void set_real(struct gguf *g, const struct manifest_model *m, const char *key, double value)
{
    char *name = str_printf("%s.%s", m->arch, key);
    gguf_set_f32(g, name, (float)value);
    free(name);
}

static void set_general(struct gguf *g, const struct export_request *r)
{
    static const uint32_t file_types[] = {[DTYPE_F32] = 0, [DTYPE_F16] = 1, [DTYPE_BF16] = 32};
    gguf_set_str(g, "general.architecture", weights_model(r->weights)->arch);
    gguf_set_str(g, "general.type", "model");
    gguf_set_str(g, "general.name", r->name);
    gguf_set_u32(g, "general.alignment", GGUF_ALIGNMENT);
    gguf_set_u32(g, "general.file_type", file_types[r->type]);
}

static void set_model(struct gguf *g, const struct manifest_model *m)
{
    set_size(g, m, "block_count", m->layers);
    set_size(g, m, "context_length", m->context);
    set_size(g, m, "embedding_length", m->hidden);
    set_size(g, m, "feed_forward_length", m->ffn);
    set_size(g, m, "attention.head_count", m->heads);
    set_size(g, m, "attention.head_count_kv", m->kv_heads);
    set_size(g, m, "vocab_size", m->vocab);
    if (strcmp(m->arch, "gpt2") == 0) {
        set_real(g, m, "attention.layer_norm_epsilon", m->norm_eps);
        return;
    }
    set_real(g, m, "attention.layer_norm_rms_epsilon", m->norm_eps);
    set_size(g, m, "rope.dimension_count", m->hidden / m->heads);
    set_real(g, m, "rope.freq_base", m->rope_theta);
    if (m->experts > 0) {
        set_size(g, m, "expert_count", m->experts);
        set_size(g, m, "expert_used_count", m->top_k);
    }
}

/* ---- the tokenizer ---------------------------------------------------------------------------------------------------- */

/* llama.cpp knows ways to cut text by name; dbrx's is cl100k's: Llama 3's expression, but pieces are always merged. */
static const char *cut_name(const struct tokenizer *t)
{
    if (strcmp(tokenizer_presplit(t), "llama3") != 0)
        return "gpt-2";
    return tokenizer_whole_pieces(t) ? "llama-bpe" : "dbrx";
}

/* The text and the kind of id `id`; ids that the tokenizer does not have are there to fill the rows of the embeddings. */
static char *token(const struct tokenizer *t, size_t id, int32_t *kind)
{
    size_t len = 0;
    if (id < tokenizer_vocab(t))
        (void)tokenizer_bytes(t, (int32_t)id, &len); /* only its length counts here */
    *kind = TOKEN_UNUSED;
    if (len == 0)
        return str_printf("[PAD%zu]", id);
    *kind = tokenizer_is_special(t, (int32_t)id) ? TOKEN_CONTROL : TOKEN_NORMAL;
    return tokenizer_printable(t, (int32_t)id);
}

static void set_tokens(struct gguf *g, const struct tokenizer *t, size_t vocab)
{
    int32_t *kinds = mem_zero(vocab, sizeof *kinds);
    gguf_set_strs(g, "tokenizer.ggml.tokens", vocab);
    for (size_t id = 0; id < vocab; id++) {
        char *text = token(t, id, &kinds[id]);
        gguf_add_str(g, text);
        free(text);
    }
    gguf_set_i32s(g, "tokenizer.ggml.token_type", kinds, vocab);
    free(kinds);
}

static void set_merges(struct gguf *g, const struct tokenizer *t)
{
    size_t count = tokenizer_merges(t);
    gguf_set_strs(g, "tokenizer.ggml.merges", count);
    for (size_t i = 0; i < count; i++) {
        int32_t left, right;
        tokenizer_merge(t, i, &left, &right);
        char *a = tokenizer_printable(t, left), *b = tokenizer_printable(t, right),
             *both = str_printf("%s %s", a, b);
        gguf_add_str(g, both);
        free(both);
        free(a);
        free(b);
    }
}

/* Without ids of its own llama.cpp takes 11 for both ends, which would be a tab among bytes; 0 is a byte that texts do not have. */
static void set_tokenizer(struct gguf *g, const struct tokenizer *t, size_t vocab)
{
    int32_t bos = export_bos(t), eos = tokenizer_end(t);
    gguf_set_str(g, "tokenizer.ggml.model", "gpt2");
    gguf_set_str(g, "tokenizer.ggml.pre", cut_name(t));
    set_tokens(g, t, vocab);
    set_merges(g, t);
    gguf_set_u32(g, "tokenizer.ggml.bos_token_id", bos < 0 ? 0 : (uint32_t)bos);
    gguf_set_u32(g, "tokenizer.ggml.eos_token_id", eos < 0 ? 0 : (uint32_t)eos);
    gguf_set_bool(g, "tokenizer.ggml.add_bos_token", false);
    gguf_set_bool(g, "tokenizer.ggml.add_eos_token", false);
    gguf_set_bool(g, "tokenizer.ggml.add_space_prefix", false);
}

static int put(void *to, const float *x, size_t n)
{
    return gguf_put(to, x, n);
}

static int write_tensors(const struct export_request *r, struct gguf *g, const struct mapping *mapping,
                         const char *path, struct err *err)
{
    struct bands_sink sink = {put, g};
    int rc = 0;
    for (size_t i = 0; i < mapping->count; i++) {
        const struct mapping_tensor *t = &mapping->tensors[i];
        gguf_add_tensor(g, t->name, t->type, t->shape, t->dims);
    }
    gguf_open(g, path);
    for (size_t i = 0; rc == 0 && i < mapping->count; i++)
        rc = bands_put(r->weights, &mapping->tensors[i], &sink, err);
    return rc;
}

int export_gguf(const struct export_request *request, const char *path, uint64_t *bytes, struct err *err)
{
    const struct manifest_model *m = weights_model(request->weights);
    struct tensor_list list;
    struct mapping mapping;
    struct gguf *g = gguf_new();
    err->text[0] = 0;
    tensors_of_model(m, &list);
    mapping_gguf(m, &list, request->type, &mapping);
    set_general(g, request);
    set_model(g, m);
    set_tokenizer(g, request->tokenizer, (size_t)m->vocab);
    int rc = write_tensors(request, g, &mapping, path, err);
    if (gguf_finish(g, bytes, err->text[0] ? NULL : err) != 0)
        rc = -1;
    mapping_free(&mapping);
    tensors_free(&list);
    return rc;
}
