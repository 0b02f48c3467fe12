/* Reads Hugging Face's tokenizer.json. Only what this program computes exactly is taken: a byte-level BPE without a normalizer, cut as
 * GPT-2, Llama 3 or not at all. Whatever else would change the ids is refused with its name rather than passed over. What only changes
 * the names of things, or happens after the ids are known (decoder, truncation, padding), is not looked at; the post-processor is kept. */
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "runtime/text/tokenizer_private.h"

/* ---- how text is cut ---- */

static const char *type_of(const json_t *obj)
{
    return jsonx_str_or(obj, "type", "");
}

/* The cuts of a pattern; -1 with a sentence when it is none of the known. */
static int split_of_pattern(const json_t *split, enum presplit *out, struct err *err)
{
    const char *pattern = jsonx_str_or(json_object_get(split, "pattern"), "Regex", "");
    *out = PRESPLIT_GPT2;
    while (*out < PRESPLIT_COUNT && strcmp(pattern, presplit_pattern(*out)) != 0)
        (*out)++;
    return *out < PRESPLIT_COUNT ? 0
                                 : err_set(err,
                                           "it cuts text by the pattern \"%.200s\"; known are those of GPT-2 "
                                           "and of Llama 3 (cl100k)",
                                           pattern);
}

static int split_of_byte_level(const json_t *part, enum presplit *out, struct err *err)
{
    if (jsonx_bool_or(part, "add_prefix_space", false))
        return err_set(
            err,
            "its pre-tokenizer puts a blank before each text (add_prefix_space), which is not done here");
    if (jsonx_bool_or(part, "use_regex", true))
        *out = PRESPLIT_GPT2;
    return 0;
}

static int split_of_part(const json_t *part, enum presplit *out, struct err *err)
{
    const char *type = type_of(part);
    if (strcmp(type, "ByteLevel") == 0)
        return split_of_byte_level(part, out, err);
    if (strcmp(type, "Split") != 0)
        return err_set(err, "its pre-tokenizer \"%.40s\" is not known; ByteLevel and Split are", type);
    if (*out != PRESPLIT_NONE || jsonx_bool_or(part, "invert", false) ||
        strcmp(jsonx_str_or(part, "behavior", ""), "Isolated") != 0)
        return err_set(
            err, "its pre-tokenizer cuts twice or in a way that is not known; one Split, \"Isolated\", is");
    return split_of_pattern(part, out, err);
}

/* A pre-tokenizer is one part or a sequence of them; ByteLevel, which makes bytes of the text, comes last. */
static int read_split(const json_t *pre, enum presplit *out, struct err *err)
{
    *out = PRESPLIT_NONE;
    bool sequence = strcmp(type_of(pre), "Sequence") == 0;
    const json_t *parts = json_object_get(pre, "pretokenizers");
    size_t n = sequence ? json_array_size(parts) : 1;
    const json_t *last = sequence ? json_array_get(parts, n - 1) : pre;
    if (n < 1 || n > 2 || strcmp(type_of(last), "ByteLevel") != 0)
        return err_set(
            err,
            "its pre-tokenizer is not one Split, or none, followed by ByteLevel; only byte-level BPE can be "
            "read (GPT-2, Llama 3)");
    if (n == 2 && split_of_part(json_array_get(parts, 0), out, err) < 0)
        return -1;
    enum presplit before = *out;
    if (split_of_part(last, out, err) < 0)
        return -1;
    if (before != PRESPLIT_NONE && jsonx_bool_or(last, "use_regex", true))
        return err_set(err,
                       "its pre-tokenizer cuts twice, by Split and by ByteLevel; one of the two is known");
    return 0;
}

/* ---- added tokens ---- */

/* The id of an added token, and whether the vocabulary has it (with this very id). -1 with a sentence. */
static int check_added(const json_t *added, const json_t *vocab, int64_t *id, bool *there, struct err *err)
{
    const char *content;
    if (jsonx_str(added, "content", &content, err) < 0 ||
        jsonx_int(added, "id", 0, VOCAB_MAX - 1, id, err) < 0)
        return err_prefix(err, "added_tokens");
    if (!jsonx_bool_or(added, "special", false))
        return err_set(
            err,
            "its added token \"%.40s\" is not special: it would be looked for in text before anything else, "
            "which is not done here",
            content);
    const json_t *known = json_object_get(vocab, content);
    *there = known != NULL;
    if (known && (!json_is_integer(known) || json_integer_value(known) != *id))
        return err_set(err, "its added token \"%.40s\" has another id in the vocabulary", content);
    return 0;
}

/* Puts in the added tokens that the vocabulary lacks; the names of all go into `specials`. */
static int put_added(struct tokenizer *t, const json_t *list, const json_t *vocab, json_t *specials,
                     struct err *err)
{
    size_t i;
    json_t *added;
    if (list && !json_is_null(list) && !json_is_array(list))
        return err_set(err, "its added_tokens are no list");
    json_array_foreach((json_t *)list, i, added)
    {
        int64_t id = -1;
        bool there = false;
        if (check_added(added, vocab, &id, &there, err) < 0)
            return -1;
        const char *content = jsonx_str_or(added, "content", "");
        jsonx_set(specials, content, json_true());
        if (!there && vocab_put(t->vocab, id, content, strlen(content), true, err) < 0)
            return err_prefix(err, "added token \"%.40s\"", content);
    }
    return 0;
}

/* ---- the model ---- */

static int check_model(const json_t *model, struct err *err)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const char *type = jsonx_str_or(model, "type", "BPE"); /* the first files had none */
    if (strcmp(type, "BPE") != 0)
        return err_set(err, "its model is %.40s; only BPE can be read", type);
    for (size_t i = 0; i < 2; i++)
        if (jsonx_str_or(model, affixes[i], "")[0])
            return err_set(err, "its model has a %s, which is not known here", affixes[i]);
    if (jsonx_bool_or(model, "byte_fallback", false))
        return err_set(
            err, "its model falls back to bytes, as SentencePiece does; only byte-level BPE can be read");
    if (jsonx_real_or(model, "dropout", 0) != 0)
        return err_set(err, "its model drops merges at random (dropout); set that to null");
    return 0;
}

/* A merge is "left right" or, in newer files, ["left", "right"]. */
static int add_merge(struct tokenizer *t, const json_t *merge, size_t nth, struct err *err)
{
    if (json_is_string(merge))
        return tokenizer_add_merge_line(t, json_string_value(merge), json_string_length(merge), nth, err);
    const char *left = json_string_value(json_array_get(merge, 0)),
               *right = json_string_value(json_array_get(merge, 1));
    if (!left || !right || json_array_size(merge) != 2)
        return err_set(err, "merge %zu is neither a text nor a pair of texts", nth + 1);
    return tokenizer_add_merge(t, left, strlen(left), right, strlen(right), nth, err);
}

static int add_merges(struct tokenizer *t, const json_t *merges, struct err *err)
{
    size_t i;
    json_t *merge;
    json_array_foreach((json_t *)merges, i, merge)
    {
        if (add_merge(t, merge, i, err) < 0)
            return -1;
    }
    return 0;
}

static int read_tokens(struct tokenizer *t, const json_t *root, const json_t *vocab, struct err *err)
{
    json_t *specials = json_object();
    int rc = put_added(t, json_object_get(root, "added_tokens"), vocab, specials, err);
    if (rc == 0)
        rc = tokenizer_put_vocab(t, vocab, specials, err);
    json_decref(specials);
    return rc < 0 ? -1 : tokenizer_seal(t, err);
}

static int read_all(struct tokenizer *t, json_t *root, struct err *err)
{
    const json_t *model = json_object_get(root, "model"), *normalizer = json_object_get(root, "normalizer");
    const json_t *vocab = json_object_get(model, "vocab"), *merges = json_object_get(model, "merges");
    if (!json_is_object(vocab) || !json_is_array(merges))
        return err_set(err,
                       "it has no model with a vocab and merges; is it a tokenizer.json of a BPE model?");
    if (normalizer && !json_is_null(normalizer))
        return err_set(err, "it changes text before it is cut (normalizer %.40s), which is not done here",
                       type_of(normalizer));
    if (check_model(model, err) < 0 || read_split(json_object_get(root, "pre_tokenizer"), &t->split, err) < 0)
        return -1;
    t->whole_pieces = jsonx_bool_or(model, "ignore_merges", false);
    if (json_is_object(json_object_get(root, "post_processor")))
        t->post_processor = json_incref(json_object_get(root, "post_processor"));
    return read_tokens(t, root, vocab, err) < 0 ? -1 : add_merges(t, merges, err);
}

struct tokenizer *tokenizer_json_parse(const char *text, size_t len, const char *name, struct err *err)
{
    json_error_t why;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (!root) {
        err_set(err, "line %d: %s", why.line, why.text);
        return NULL;
    }
    struct tokenizer *t = tokenizer_begin(name, PRESPLIT_NONE);
    int rc = read_all(t, root, err);
    json_decref(root);
    if (rc < 0) {
        tokenizer_free(t);
        return NULL;
    }
    tokenizer_finish(t);
    return t;
}
