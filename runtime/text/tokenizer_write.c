/* tokenizer_write_json: the form that Hugging Face's tokenizers library (docs: huggingface.co/docs/tokenizers) writes itself. Special tokens
 * are added tokens; merges are texts, which old and new versions read. */
#include <stdlib.h>
#include <string.h>

#include "common/fsutil.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "runtime/text/bytelevel.h"
#include "runtime/text/tokenizer_private.h"

static json_t *byte_level(bool use_regex)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
                     "use_regex", (int)use_regex);
}

static json_t *pre_tokenizer(enum presplit split)
{
    if (split != PRESPLIT_LLAMA3)
        return byte_level(split == PRESPLIT_GPT2);
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type",
                     "Split", "pattern", "Regex", presplit_pattern(split), "behavior", "Isolated", "invert",
                     0, byte_level(false));
}

/* Llama 3 begins each text with a token; what a file had is written as it was. */
static json_t *post_processor(const struct tokenizer *t)
{
    static const char begin[] = "<|begin_of_text|>";
    int32_t id = tokenizer_special(t, begin);
    if (t->post_processor)
        return json_incref(t->post_processor);
    if (id < 0)
        return byte_level(true);
    json_t *first = json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", begin, "type_id", 0);
    json_t *a = json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0);
    json_t *b = json_pack("{s:{s:s, s:i}}", "Sequence", "id", "B", "type_id", 1);
    json_t *first_b = json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", begin, "type_id", 1);
    json_t *template = json_pack("{s:s, s:[O, O], s:[o, o, o, o], s:{s:{s:s, s:[i], s:[s]}}}", "type",
                                 "TemplateProcessing", "single", first, a, "pair", first, a, first_b, b,
                                 "special_tokens", begin, "id", begin, "ids", (int)id, "tokens", begin);
    return json_pack("{s:s, s:[o, o]}", "type", "Sequence", "processors", byte_level(true), template);
}

static json_t *added_tokens(const struct tokenizer *t)
{
    json_t *list = json_array();
    for (size_t id = 0; id < tokenizer_vocab(t); id++) {
        if (!tokenizer_is_special(t, (int32_t)id))
            continue;
        char *name = tokenizer_printable(t, (int32_t)id);
        (void)json_array_append_new(list, json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (int)id,
                                                    "content", name, "single_word", 0, "lstrip", 0, "rstrip",
                                                    0, "normalized", 0, "special", 1));
        free(name);
    }
    return list;
}

static json_t *vocabulary(const struct tokenizer *t)
{
    json_t *tokens = json_object();
    for (size_t id = 0; id < tokenizer_vocab(t); id++) {
        size_t len;
        const char *bytes = tokenizer_bytes(t, (int32_t)id, &len);
        if (len == 0 || tokenizer_is_special(t, (int32_t)id))
            continue;
        char *printable = bytelevel_encode(bytes, len);
        jsonx_set(tokens, printable, json_integer((json_int_t)id));
        free(printable);
    }
    return tokens;
}

static json_t *merges(const struct tokenizer *t)
{
    json_t *list = json_array();
    for (size_t i = 0; i < tokenizer_merges(t); i++) {
        int32_t left, right;
        tokenizer_merge(t, i, &left, &right);
        char *a = tokenizer_printable(t, left), *b = tokenizer_printable(t, right),
             *both = str_printf("%s %s", a, b);
        (void)json_array_append_new(list, json_string(both));
        free(a);
        free(b);
        free(both);
    }
    return list;
}

static json_t *model(const struct tokenizer *t)
{
    return json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout",
                     "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
                     "byte_fallback", 0, "ignore_merges", (int)t->whole_pieces, "vocab", vocabulary(t),
                     "merges", merges(t));
}

char *tokenizer_print_json(const struct tokenizer *t, struct err *err)
{
    json_t *root =
        json_pack("{s:s, s:n, s:n, s:o, s:n, s:o, s:o, s:o, s:o}", "version", "1.0", "truncation", "padding",
                  "added_tokens", added_tokens(t), "normalizer", "pre_tokenizer", pre_tokenizer(t->split),
                  "post_processor", post_processor(t), "decoder", byte_level(true), "model", model(t));
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    if (!text)
        err_set(err, "tokenizer %s cannot be written as JSON: it has a token that is no text", t->name);
    return text;
}

int tokenizer_write_json(const struct tokenizer *t, const char *path, struct err *err)
{
    char *text = tokenizer_print_json(t, err);
    int rc = text ? fs_write_durable(path, text, strlen(text), 0644, err) : -1;
    free(text);
    return rc;
}
