/* The inside of a tokenizer, for its readers and the trainer (each a file of its own in this folder) and their tests.
 *
 * A reader makes one with tokenizer_begin, puts all tokens into its vocab, calls tokenizer_seal, adds the merges, and ends with
 * tokenizer_finish. When it fails on the way it frees what it has: nothing half read is handed out. */
#ifndef BELAY_RUNTIME_TOKENIZER_PRIVATE_H
#define BELAY_RUNTIME_TOKENIZER_PRIVATE_H

#include <jansson.h>

#include "runtime/text/bpe.h"
#include "runtime/text/presplit.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/vocab.h"

#define TOKENIZER_FILE_MAX ((size_t)64 << 20) /* bytes of one file: three times Llama 3's tokenizer.json */

struct tokenizer {
    char *name;
    struct vocab *vocab;
    struct bpe *bpe; /* after tokenizer_seal */
    enum presplit split;
    bool whole_pieces;
    int32_t end;
    uint64_t fingerprint;
    json_t *post_processor; /* what tokenizer.json had: kept for tokenizer_write_json; or NULL */
};

struct tokenizer *tokenizer_begin(const char *name, enum presplit split);
int tokenizer_seal(struct tokenizer *t, struct err *err);
/* The merge of two tokens in the printable alphabet; the token that results must be there. `nth`, counted from 0, is its rank and for
 * the sentence. */
int tokenizer_add_merge(struct tokenizer *t, const char *left, size_t left_len, const char *right,
                        size_t right_len, size_t nth, struct err *err);
/* The same from "left right". */
int tokenizer_add_merge_line(struct tokenizer *t, const char *line, size_t len, size_t nth, struct err *err);
/* Sets end and fingerprint. */
void tokenizer_finish(struct tokenizer *t);
/* Tokens in the printable alphabet with their ids, {"Ġthe": 262, …}. Those of `specials` (a set of names; may be NULL) are special. */
int tokenizer_put_vocab(struct tokenizer *t, const json_t *tokens, const json_t *specials, struct err *err);

/* What tokenizer_write_json writes; the caller's to free. NULL with a sentence. */
char *tokenizer_print_json(const struct tokenizer *t, struct err *err);

/* The readers; `name` is what tokenizer_name gives. Each: NULL with a sentence. */
struct tokenizer *tokenizer_bytes_only(const char *name);
struct tokenizer *tokenizer_json_parse(const char *text, size_t len, const char *name, struct err *err);
struct tokenizer *gpt2_files_parse(const char *merges, size_t merges_len, const char *vocab, size_t vocab_len,
                                   const char *name, struct err *err);
struct tokenizer *tiktoken_parse(const char *text, size_t len, const char *name, struct err *err);

#endif
