/* GPT-2's own files: a list of merges (vocab.bpe, merges.txt: "#version: 0.2", then "left right" a line) and the ids of tokens
 * (encoder.json, vocab.json), both in the printable alphabet. */
#include <stdlib.h>
#include <string.h>

#include "runtime/text/tokenizer_private.h"

#define SPECIAL "<|endoftext|>"

static int read_vocab(struct tokenizer *t, const char *text, size_t len, struct err *err)
{
    json_error_t why;
    json_t *tokens = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    json_t *specials = json_pack("{s:b}", SPECIAL, 1);
    int rc = -1;
    if (!json_is_object(tokens))
        err_set(err, "the vocabulary is not a JSON object of tokens and ids: %s (line %d)",
                tokens ? "it is something else" : why.text, tokens ? 1 : why.line);
    else
        rc = tokenizer_put_vocab(t, tokens, specials, err);
    json_decref(specials);
    json_decref(tokens);
    return rc;
}

static int read_merges(struct tokenizer *t, const char *text, size_t len, struct err *err)
{
    const char *end = text + len;
    size_t nth = 0;
    while (text < end) {
        const char *eol = memchr(text, '\n', (size_t)(end - text));
        const char *stop = eol ? eol : end;
        size_t n = (size_t)(stop - text);
        if (n > 0 && text[n - 1] == '\r')
            n--;
        bool header = nth == 0 && n >= 9 && memcmp(text, "#version:", 9) == 0;
        if (n > 0 && !header && tokenizer_add_merge_line(t, text, n, nth++, err) < 0)
            return -1;
        text = stop + 1;
    }
    return 0;
}

struct tokenizer *gpt2_files_parse(const char *merges, size_t merges_len, const char *vocab, size_t vocab_len,
                                   const char *name, struct err *err)
{
    struct tokenizer *t = tokenizer_begin(name, PRESPLIT_GPT2);
    if (read_vocab(t, vocab, vocab_len, err) < 0 || tokenizer_seal(t, err) < 0 ||
        read_merges(t, merges, merges_len, err) < 0) {
        tokenizer_free(t);
        return NULL;
    }
    tokenizer_finish(t);
    return t;
}
