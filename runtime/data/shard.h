/* shard: one mapped file of tokens, whatever its format. */
#ifndef BELAY_RUNTIME_DATA_SHARD_H
#define BELAY_RUNTIME_DATA_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/data/mapping.h"
#include "runtime/data/tokenfile.h"

struct shard {
    char *path;
    struct mapping map;
    struct token_layout layout;
};

/* Maps a file: a name that ends in .bin is a token file (with a .idx of the same name beside it: Megatron's), anything else is text whose
 * bytes are the tokens. 0, or -1 with a sentence and nothing to close. */
int shard_open(const char *path, struct shard *out, struct err *err);
/* What shard_open gave, or all zeros. */
void shard_close(struct shard *s);

/* Is there a Megatron index beside this .bin? */
bool shard_has_index(const char *bin_path);

/* Copies tokens at..at+n-1 (the caller keeps below layout.count). -1 when one of them is negative or not below vocab (1..2^31-1). */
int shard_read(const struct shard *s, uint64_t at, size_t n, int64_t vocab, int32_t *out);
/* Sets to -1 those of the n tokens from `at` on, already in `out`, that do not count as targets. */
void shard_mask(const struct shard *s, uint64_t at, size_t n, int32_t *out);
/* A hash of size, layout, beginning and end. */
uint64_t shard_fingerprint(const struct shard *s);

#endif
