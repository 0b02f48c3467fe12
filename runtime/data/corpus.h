/* corpus: the shards that one path of a job file names, joined into one long row of tokens. Sequences are cut from the row, over the borders
 * of shards, so that shards of any size lose nothing. */
#ifndef BELAY_RUNTIME_DATA_CORPUS_H
#define BELAY_RUNTIME_DATA_CORPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct corpus;

/* Opens what `path` names:
 *   a folder with index.json, or the index.json      what belay-train prepare has made
 *   a folder with *.bin, or a pattern with * ? [     token files in the order of their names (llm.c, Megatron, our own)
 *   FILE.bin, FILE.idx, or FILE without either       one token file; Megatron's, when both FILE.bin and FILE.idx are there
 *   any other file                                   text whose bytes are the tokens
 * NULL with a sentence. */
struct corpus *corpus_open(const char *path, struct err *err);
void corpus_close(struct corpus *c);

uint64_t corpus_tokens(const struct corpus *c);
size_t corpus_shards(const struct corpus *c);
const char *corpus_path(const struct corpus *c);
bool corpus_is_text(const struct corpus *c); /* some of it is text */
uint64_t corpus_fingerprint(const struct corpus *c);
/* What its files say about the tokenizer: size of the vocabulary and fingerprint, 0 = nothing. Those of text are of `bytes`. */
uint64_t corpus_vocab(const struct corpus *c);
uint64_t corpus_tokenizer(const struct corpus *c);

/* Copies tokens at..at+n-1; as_targets: those that do not count are -1. 0, or -1 with a sentence when one is negative or not below vocab. */
int corpus_read(const struct corpus *c, uint64_t at, size_t n, int64_t vocab, bool as_targets, int32_t *out,
                struct err *err);

#endif
