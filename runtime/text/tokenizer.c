/* Which reader reads what; and what can be asked of a tokenizer once it is read. Encoding is in encode.c. */
#include "runtime/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "runtime/text/bytelevel.h"
#include "runtime/text/tokenizer_private.h"

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), m = strlen(tail);
    return n >= m && strcmp(s + n - m, tail) == 0;
}

static char *in_folder(const char *folder, const char *file)
{
    return str_printf("%s%s%s", folder, ends_with(folder, "/") ? "" : "/", file);
}

static bool is_there(const char *folder, const char *file)
{
    char *path = in_folder(folder, file);
    bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

/* ---- one of the forms ---- */

static struct tokenizer *open_file(const char *path, const char *name, struct err *err)
{
    bool json = ends_with(path, ".json");
    size_t len;
    char *text = fs_read(path, TOKENIZER_FILE_MAX, &len, err);
    if (!text)
        return NULL;
    struct tokenizer *t =
        json ? tokenizer_json_parse(text, len, name, err) : tiktoken_parse(text, len, name, err);
    free(text);
    if (!t)
        err_prefix(err, "tokenizer %s, read as %s", path, json ? "a tokenizer.json" : "ranks of tiktoken");
    return t;
}

static struct tokenizer *open_pair(const char *folder, const char *merges, const char *vocab, struct err *err)
{
    struct tokenizer *t = NULL;
    size_t merges_len, vocab_len;
    char *merges_path = in_folder(folder, merges), *vocab_path = in_folder(folder, vocab);
    char *merges_text = fs_read(merges_path, TOKENIZER_FILE_MAX, &merges_len, err);
    char *vocab_text = merges_text ? fs_read(vocab_path, TOKENIZER_FILE_MAX, &vocab_len, err) : NULL;
    if (vocab_text) {
        t = gpt2_files_parse(merges_text, merges_len, vocab_text, vocab_len, folder, err);
        if (!t)
            err_prefix(err, "tokenizer %s, read as GPT-2's %s and %s", folder, merges, vocab);
    }
    free(merges_text);
    free(vocab_text);
    free(merges_path);
    free(vocab_path);
    return t;
}

static struct tokenizer *open_in_folder(const char *folder, const char *file, struct err *err)
{
    char *path = in_folder(folder, file);
    struct tokenizer *t = open_file(path, folder, err);
    free(path);
    return t;
}

static struct tokenizer *open_folder(const char *folder, struct err *err)
{
    if (is_there(folder, "tokenizer.json"))
        return open_in_folder(folder, "tokenizer.json", err);
    if (is_there(folder, "vocab.bpe"))
        return open_pair(folder, "vocab.bpe", "encoder.json", err);
    if (is_there(folder, "merges.txt"))
        return open_pair(folder, "merges.txt", "vocab.json", err);
    if (is_there(folder, "tokenizer.model"))
        return open_in_folder(folder, "tokenizer.model", err);
    err_set(err,
            "tokenizer %s: the folder has neither tokenizer.json, nor vocab.bpe and encoder.json, nor "
            "merges.txt and "
            "vocab.json, nor tokenizer.model; name the folder of a model from Hugging Face, or a file",
            folder);
    return NULL;
}

struct tokenizer *tokenizer_open(const char *name, struct err *err)
{
    struct stat st;
    if (strcmp(name, "bytes") == 0)
        return tokenizer_bytes_only(name);
    if (stat(name, &st) < 0) {
        err_sys(err,
                "tokenizer %s: say bytes, or name a tokenizer.json, a file of tiktoken ranks, or a folder "
                "with one",
                name);
        return NULL;
    }
    return S_ISDIR(st.st_mode) ? open_folder(name, err) : open_file(name, name, err);
}

/* ---- making one ---- */

struct tokenizer *tokenizer_begin(const char *name, enum presplit split)
{
    struct tokenizer *t = mem_zero(1, sizeof *t);
    t->name = str_dup(name);
    t->vocab = vocab_new();
    t->split = split;
    t->end = -1;
    return t;
}

void tokenizer_free(struct tokenizer *t)
{
    if (!t)
        return;
    free(t->name);
    vocab_free(t->vocab);
    bpe_free(t->bpe);
    json_decref(t->post_processor);
    free(t);
}

int tokenizer_seal(struct tokenizer *t, struct err *err)
{
    int32_t byte_ids[256];
    if (vocab_seal(t->vocab, err) < 0)
        return -1;
    for (int b = 0; b < 256; b++)
        byte_ids[b] = vocab_byte(t->vocab, (unsigned char)b);
    t->bpe = bpe_new(byte_ids);
    return 0;
}

static int add_merge(struct tokenizer *t, const char *both, size_t left_len, size_t len, size_t nth,
                     struct err *err)
{
    struct bpe_merge merge = {.left = vocab_find(t->vocab, both, left_len),
                              .right = vocab_find(t->vocab, both + left_len, len - left_len),
                              .id = vocab_find(t->vocab, both, len),
                              .rank = (uint32_t)nth};
    if (merge.left < 0 || merge.right < 0 || merge.id < 0)
        return err_set(err,
                       "merge %zu: %s is not in the vocabulary; the file is damaged or from two tokenizers",
                       nth + 1,
                       merge.left < 0    ? "its first part"
                       : merge.right < 0 ? "its second part"
                                         : "what it makes");
    return bpe_add(t->bpe, merge, err);
}

int tokenizer_add_merge(struct tokenizer *t, const char *left, size_t left_len, const char *right,
                        size_t right_len, size_t nth, struct err *err)
{
    char both[2 * VOCAB_TOKEN_MAX]; /* a byte is at most two in the alphabet */
    if (left_len + right_len > sizeof both)
        return err_set(err, "merge %zu makes a token of more than %d bytes", nth + 1, VOCAB_TOKEN_MAX);
    long n = bytelevel_decode(left, left_len, both);
    long m = n < 0 ? -1 : bytelevel_decode(right, right_len, both + n);
    if (n < 0 || m < 0)
        return err_set(err, "merge %zu has a character that is not of the byte-level alphabet", nth + 1);
    return add_merge(t, both, (size_t)n, (size_t)(n + m), nth, err);
}

int tokenizer_add_merge_line(struct tokenizer *t, const char *line, size_t len, size_t nth, struct err *err)
{
    const char *blank = memchr(line, ' ', len);
    size_t first = blank ? (size_t)(blank - line) : 0;
    if (first < 1 || first + 1 >= len)
        return err_set(err, "merge %zu is not two tokens with a blank between them", nth + 1);
    return tokenizer_add_merge(t, line, first, blank + 1, len - first - 1, nth, err);
}

void tokenizer_finish(struct tokenizer *t)
{
    static const char *const names[] = {"<|endoftext|>", "<|end_of_text|>", "</s>"};
    for (size_t i = 0; i < sizeof names / sizeof *names && t->end < 0; i++)
        t->end = vocab_special(t->vocab, names[i]);
    t->fingerprint = vocab_fingerprint(t->vocab) * PRESPLIT_COUNT + t->split;
}

static int put_printable(struct tokenizer *t, const char *token, int64_t id, bool special, struct err *err)
{
    char bytes[2 * VOCAB_TOKEN_MAX];
    size_t len = strlen(token);
    if (special || len > sizeof bytes)
        return vocab_put(t->vocab, id, token, len, special, err);
    long n = bytelevel_decode(token, len, bytes);
    if (n < 0)
        return err_set(
            err,
            "token %lld, \"%.40s\", has a character that is not of the byte-level alphabet; only byte-level "
            "BPE can be read (SentencePiece and WordPiece cannot)",
            (long long)id, token);
    return vocab_put(t->vocab, id, bytes, (size_t)n, false, err);
}

int tokenizer_put_vocab(struct tokenizer *t, const json_t *tokens, const json_t *specials, struct err *err)
{
    const char *token;
    json_t *id;
    json_object_foreach((json_t *)tokens, token, id)
    {
        if (!json_is_integer(id))
            return err_set(err, "the id of token \"%.40s\" is not a whole number", token);
        bool special = specials && json_object_get(specials, token);
        if (put_printable(t, token, json_integer_value(id), special, err) < 0)
            return -1;
    }
    return 0;
}

struct tokenizer *tokenizer_bytes_only(const char *name)
{
    struct tokenizer *t = tokenizer_begin(name, PRESPLIT_NONE);
    for (int b = 0; b < 256; b++) {
        char byte = (char)b;
        (void)vocab_put(t->vocab, b, &byte, 1, false, NULL); /* none of these can be refused */
    }
    (void)tokenizer_seal(t, NULL);
    tokenizer_finish(t);
    return t;
}

/* ---- asking ---- */

size_t tokenizer_vocab(const struct tokenizer *t)
{
    return vocab_size(t->vocab);
}

int32_t tokenizer_end(const struct tokenizer *t)
{
    return t->end;
}

const char *tokenizer_name(const struct tokenizer *t)
{
    return t->name;
}

uint64_t tokenizer_fingerprint(const struct tokenizer *t)
{
    return t->fingerprint;
}

const char *tokenizer_bytes(const struct tokenizer *t, int32_t id, size_t *len)
{
    return vocab_bytes(t->vocab, id, len);
}

const char *tokenizer_presplit(const struct tokenizer *t)
{
    return presplit_name(t->split);
}

bool tokenizer_whole_pieces(const struct tokenizer *t)
{
    return t->whole_pieces;
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
    return vocab_is_special(t->vocab, id);
}

int32_t tokenizer_special(const struct tokenizer *t, const char *name)
{
    return vocab_special(t->vocab, name);
}

size_t tokenizer_merges(const struct tokenizer *t)
{
    size_t count;
    (void)bpe_merges(t->bpe, &count);
    return count;
}

void tokenizer_merge(const struct tokenizer *t, size_t i, int32_t *left, int32_t *right)
{
    size_t count;
    const struct bpe_merge *m = bpe_merges(t->bpe, &count);
    *left = m[i].left;
    *right = m[i].right;
}

char *tokenizer_printable(const struct tokenizer *t, int32_t id)
{
    size_t len;
    const char *bytes = tokenizer_bytes(t, id, &len);
    if (!tokenizer_is_special(t, id))
        return bytelevel_encode(bytes, len);
    return str_printf("%.*s", (int)len, bytes);
}
