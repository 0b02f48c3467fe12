/* tokenizer: text to token ids and back.
 *
 * All tokenizers here are byte-level: every byte has a token of its own, so each string of bytes, also one that is no UTF-8, can be encoded
 * and decodes to itself. Text is cut into pieces (presplit.h) and the bytes of each are merged (bpe.h). Names of special tokens are not
 * looked for in text: "<|endoftext|>" in a corpus is thirteen characters, as for tiktoken's encode_ordinary. No token is put before or
 * after the text. */
#ifndef BELAY_RUNTIME_TOKENIZER_H
#define BELAY_RUNTIME_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct tokenizer;

/* What `name` may be:
 *   bytes            256 tokens, one a byte, without an end of text
 *   FILE.json        Hugging Face's tokenizer.json with a byte-level BPE model (GPT-2, Llama 3, those trained here)
 *   FOLDER           with tokenizer.json, or vocab.bpe + encoder.json, or merges.txt + vocab.json (GPT-2), or tokenizer.model
 *   any other file   tiktoken's ranks, "BASE64 RANK" a line; their number tells whose they are: 50256 or 50280 GPT-2's, 100256 cl100k,
 *                    128000 Llama 3's (tokenizer.model)
 * NULL with a sentence that says which form was tried and what to do. */
struct tokenizer *tokenizer_open(const char *name, struct err *err);
void tokenizer_free(struct tokenizer *t);

/* Ids are below this; special tokens included. */
size_t tokenizer_vocab(const struct tokenizer *t);
/* The id of the end-of-text token that separates documents (<|endoftext|>, <|end_of_text|> or </s>), -1 when there is none. */
int32_t tokenizer_end(const struct tokenizer *t);
/* What it was opened as. */
const char *tokenizer_name(const struct tokenizer *t);
/* Same tokens with same ids, cut the same way = same number, from whichever form of file. */
uint64_t tokenizer_fingerprint(const struct tokenizer *t);

/* What one thread needs to encode; any number of threads may use one tokenizer at once, each with a scratch of its own made for it. */
struct tokenizer_scratch;
struct tokenizer_scratch *tokenizer_scratch_new(const struct tokenizer *t);
void tokenizer_scratch_free(struct tokenizer_scratch *s);
/* Appends the ids of `text` to *ids, which grows (mem_grow; the caller's to free; begin with NULL, 0, 0). Never fails. The ids depend on
 * the text alone, except that of a piece longer than BPE_PIECE_MAX (bpe.h) the parts are merged apart. */
void tokenizer_encode(const struct tokenizer *t, struct tokenizer_scratch *s, const char *text, size_t len,
                      int32_t **ids, size_t *count, size_t *room);
/* The bytes of one id (borrowed, not terminated): decoding is putting them one after the other. Of a special token its name; of an id that
 * no token has none, *len 0. NULL for ids out of range. */
const char *tokenizer_bytes(const struct tokenizer *t, int32_t id, size_t *len);

/* ---- for exporters ---- */

/* How text is cut: "none", "gpt2" or "llama3" (cl100k cuts as Llama 3 does). */
const char *tokenizer_presplit(const struct tokenizer *t);
/* A piece that is a token as a whole becomes that without merging ("ignore_merges" of tokenizer.json). */
bool tokenizer_whole_pieces(const struct tokenizer *t);
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);
/* The id of the special token of this name, -1 when there is none. */
int32_t tokenizer_special(const struct tokenizer *t, const char *name);
/* Merges in the order in which they are tried: their number, and the pair of one (0..number-1). */
size_t tokenizer_merges(const struct tokenizer *t);
void tokenizer_merge(const struct tokenizer *t, size_t i, int32_t *left, int32_t *right);
/* The bytes in the printable alphabet of GPT-2's files (bytelevel.h), or the name of a special token; the caller's to free. */
char *tokenizer_printable(const struct tokenizer *t, int32_t id);

/* Writes it, durably, as a tokenizer.json that Hugging Face's tokenizers and llama.cpp's converters read. 0 or -1 with a sentence. */
int tokenizer_write_json(const struct tokenizer *t, const char *path, struct err *err);

#endif
