/* tiktoken's rank files: a line for each ordinary token, its bytes in base64, a blank, and its rank, which is its id. Any two neighbours
 * whose bytes together are a token may merge, at the rank of that token (tiktoken, src/lib.rs); so every way to cut a token into two
 * tokens is a merge. The files carry neither pattern nor special tokens: both are known by the number of ranks.
 *
 * Merges are put in the order that Hugging Face's converter gives them (transformers, TikTokenConverter): by result, then by parts. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "runtime/text/tokenizer_private.h"

#define SPLIT_MAX 256 /* bytes of a token here: all its cuts are tried; the longest token in use has 128 */

/* What is known of each vocabulary: tiktoken's openai_public.py; Llama 3's tokenizer.py and, for the names, Llama 3.1's. */
struct known {
    size_t ranks;
    enum presplit split;
    struct {
        int32_t id;
        const char *name;
    } specials[5];
};
static const struct known known[] = {
    {50256, PRESPLIT_GPT2, {{50256, "<|endoftext|>"}}},
    {50280, PRESPLIT_GPT2, {{50256, "<|endoftext|>"}}}, /* p50k: GPT-2's with runs of blanks */
    {100256,
     PRESPLIT_LLAMA3,
     {{100257, "<|endoftext|>"},
      {100258, "<|fim_prefix|>"},
      {100259, "<|fim_middle|>"},
      {100260, "<|fim_suffix|>"},
      {100276, "<|endofprompt|>"}}},
    {128000, PRESPLIT_LLAMA3, {{0, NULL}}}, /* see put_llama3_specials */
};

/* ---- lines ---- */

static int sextet(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* The bytes of base64 text into out (room for SPLIT_MAX). Their number, or -1. */
static long decode_base64(const char *text, size_t len, char *out)
{
    unsigned bits = 0, have = 0;
    long n = 0;
    size_t data = len;
    while (data > 0 && len - data < 2 && text[data - 1] == '=')
        data--;
    if (len == 0 || len % 4 != 0 || len > (SPLIT_MAX + 2) / 3 * 4)
        return -1;
    for (size_t i = 0; i < data; i++) {
        int six = sextet(text[i]);
        if (six < 0)
            return -1;
        bits = bits << 6 | (unsigned)six;
        have += 6;
        if (have >= 8) {
            have -= 8;
            if (n == SPLIT_MAX)
                return -1;
            out[n++] = (char)(bits >> have & 0xff);
        }
    }
    return n;
}

/* A number of at most seven digits, or -1. */
static long decode_rank(const char *text, size_t len)
{
    long value = 0;
    if (len < 1 || len > 7)
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        value = 10 * value + (text[i] - '0');
    }
    return value;
}

static int read_line(struct tokenizer *t, const char *line, size_t len, size_t nth, struct err *err)
{
    char bytes[SPLIT_MAX];
    const char *blank = memchr(line, ' ', len);
    size_t first = blank ? (size_t)(blank - line) : 0;
    long n = blank ? decode_base64(line, first, bytes) : -1;
    long rank = blank ? decode_rank(blank + 1, len - first - 1) : -1;
    if (n < 1 || rank < 0)
        return err_set(err, "line %zu is not a token of 1 to %d bytes in base64, a blank, and its rank", nth,
                       SPLIT_MAX);
    if (vocab_put(t->vocab, rank, bytes, (size_t)n, false, err) < 0)
        return err_prefix(err, "line %zu", nth);
    return 0;
}

/* The number of ranks into *count. */
static int read_lines(struct tokenizer *t, const char *text, size_t len, size_t *count, struct err *err)
{
    const char *end = text + len;
    *count = 0;
    for (size_t nth = 1; text < end; nth++) {
        const char *eol = memchr(text, '\n', (size_t)(end - text));
        const char *stop = eol ? eol : end;
        size_t n = (size_t)(stop - text);
        if (n > 0 && text[n - 1] == '\r')
            n--;
        if (n > 0 && read_line(t, text, n, nth, err) < 0)
            return -1;
        *count += n > 0;
        text = stop + 1;
    }
    return 0;
}

/* ---- special tokens ---- */

static int put_special(struct tokenizer *t, int32_t id, const char *name, struct err *err)
{
    return vocab_put(t->vocab, id, name, strlen(name), true, err);
}

/* 256 of them behind the ranks: eleven with names of their own, those that are kept in reserve counted around them. */
static int put_llama3_specials(struct tokenizer *t, int32_t first, struct err *err)
{
    static const char *const names[] = {"<|begin_of_text|>",
                                        "<|end_of_text|>",
                                        NULL,
                                        NULL,
                                        "<|finetune_right_pad_id|>",
                                        NULL,
                                        "<|start_header_id|>",
                                        "<|end_header_id|>",
                                        "<|eom_id|>",
                                        "<|eot_id|>",
                                        "<|python_tag|>"};
    const int32_t named = sizeof names / sizeof *names;
    int reserved = 0, rc = 0;
    for (int32_t i = 0; i < 256 && rc == 0; i++) {
        bool has_name = i < named && names[i];
        char *name = has_name ? str_dup(names[i]) : str_printf("<|reserved_special_token_%d|>", reserved++);
        rc = put_special(t, first + i, name, err);
        free(name);
    }
    return rc;
}

static int put_specials(struct tokenizer *t, const struct known *k, struct err *err)
{
    if (!k->specials[0].name)
        return put_llama3_specials(t, (int32_t)k->ranks, err);
    for (size_t i = 0; i < 5 && k->specials[i].name; i++)
        if (put_special(t, k->specials[i].id, k->specials[i].name, err) < 0)
            return -1;
    return 0;
}

static const struct known *whose(size_t ranks, struct err *err)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].ranks == ranks)
            return &known[i];
    err_set(err,
            "it has %zu ranks; known are those with 50256 or 50280 (GPT-2), 100256 (cl100k) and 128000 "
            "(Llama 3); for "
            "another one use its tokenizer.json, which says how it cuts text",
            ranks);
    return NULL;
}

/* ---- merges ---- */

static int by_parts(const void *a, const void *b)
{
    const struct bpe_merge *x = a, *y = b;
    if (x->left != y->left)
        return x->left < y->left ? -1 : 1;
    return (x->right > y->right) - (x->right < y->right);
}

static int add_cuts(struct tokenizer *t, int32_t id, struct err *err)
{
    struct bpe_merge merges[SPLIT_MAX];
    size_t n = 0, len;
    const char *bytes = vocab_bytes(t->vocab, id, &len);
    for (size_t cut = 1; cut < len; cut++) {
        struct bpe_merge m = {vocab_find(t->vocab, bytes, cut), vocab_find(t->vocab, bytes + cut, len - cut),
                              id, (uint32_t)id};
        if (m.left >= 0 && m.right >= 0)
            merges[n++] = m;
    }
    if (n > 1)
        qsort(merges, n, sizeof *merges, by_parts);
    for (size_t i = 0; i < n; i++)
        if (bpe_add(t->bpe, merges[i], err) < 0)
            return -1;
    return 0;
}

static int add_all_cuts(struct tokenizer *t, struct err *err)
{
    for (size_t id = 0; id < vocab_size(t->vocab); id++)
        if (!vocab_is_special(t->vocab, (int32_t)id) && add_cuts(t, (int32_t)id, err) < 0)
            return -1;
    return 0;
}

/* ---- the whole ---- */

static int read_all(struct tokenizer *t, const char *text, size_t len, struct err *err)
{
    size_t ranks;
    if (memchr(text, '\0', len) || (len > 1 && text[0] == '\n'))
        return err_set(
            err,
            "it is a binary file, perhaps SentencePiece's (Llama 2, Mistral), which cannot be read; use a "
            "tokenizer with a byte-level BPE (GPT-2, Llama 3)");
    if (read_lines(t, text, len, &ranks, err) < 0)
        return -1;
    const struct known *k = whose(ranks, err);
    if (!k)
        return -1;
    t->split = k->split;
    t->whole_pieces = true;
    return put_specials(t, k, err) < 0 || tokenizer_seal(t, err) < 0 ? -1 : add_all_cuts(t, err);
}

struct tokenizer *tiktoken_parse(const char *text, size_t len, const char *name, struct err *err)
{
    struct tokenizer *t = tokenizer_begin(name, PRESPLIT_NONE);
    if (read_all(t, text, len, err) < 0) {
        tokenizer_free(t);
        return NULL;
    }
    tokenizer_finish(t);
    return t;
}
