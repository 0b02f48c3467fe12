/* data: a mapped corpus, and which of its sequences is the k-th sample of a run.
 *
 * The whole data position of a run is one number, the count of samples used so far. Which sequence a sample is depends only on
 * (seed, number of sequences, sample index): ranks and restarts do not enter into it. */
#ifndef BELAY_RUNTIME_DATA_H
#define BELAY_RUNTIME_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct data;

#define DATA_TOKEN_MAX 65536 /* tokens are at most 16 bits wide */

/* Maps a corpus. `path` ends in .bin: tokens of 16 bits, little endian, behind a header (docs/checkpoint-format.md) or without any;
 * anything else: text whose bytes are the tokens. It is cut into sequences of context+1 tokens that overlap by one.
 * NULL with a sentence: missing, empty, shorter than one sequence, torn, or byte tokens that do not fit in `vocab`. */
struct data *data_open(const char *path, int64_t vocab, size_t context, struct err *err);
void data_close(struct data *data);

/* Tokens of the corpus, and how many sequences of `context` tokens (with their targets) it has. */
uint64_t data_tokens(const struct data *data);
uint64_t data_sequences(const struct data *data);
/* A hash of the corpus' size, beginning and end: tells whether a resumed run reads the same corpus. */
uint64_t data_fingerprint(const struct data *data);

/* The sequence (0..sequences-1) that sample `sample` of a run is. Each epoch of `sequences` samples visits every sequence exactly
 * once, in an order of its own. */
uint64_t data_pick(uint64_t sequences, uint64_t seed, uint64_t sample);

/* Fills tokens and targets (count,T) with samples first..first+count-1; targets are the tokens one further on.
 * 0, or -1 with a sentence when a token is not below vocab. */
int data_fill(const struct data *data, uint64_t seed, uint64_t first, size_t count, int32_t *tokens,
              int32_t *targets, struct err *err);

/* Writes the bytes of a text as a token file (.bin with header), durably. */
int data_tokenize(const char *text_path, const char *bin_path, struct err *err);

#endif
