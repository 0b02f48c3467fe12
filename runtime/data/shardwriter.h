/* shardwriter: a row of tokens as shard-00000.bin, shard-00001.bin, … of equal length (the last one may be shorter), each durable under its
 * name once it is whole. */
#ifndef BELAY_RUNTIME_DATA_SHARDWRITER_H
#define BELAY_RUNTIME_DATA_SHARDWRITER_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "runtime/data/indexfile.h"
#include "runtime/data/tokenfile.h"

struct shardwriter;

/* For shards of `tokens` tokens in a folder that is there. `layout` says type (U16 or U32), vocab, end and fingerprint. */
struct shardwriter *shardwriter_new(const char *folder, const struct token_layout *layout, uint64_t tokens);
/* Appends n tokens. counts[i] 0 = token i does not count as a target; NULL = all count. 0, or -1 with a sentence. */
int shardwriter_add(struct shardwriter *w, const int32_t *ids, const unsigned char *counts, size_t n,
                    struct err *err);
/* Completes the last shard; gives the list of all, and tokens and masked, to x. 0, or -1 with a sentence. */
int shardwriter_finish(struct shardwriter *w, struct indexfile *x, struct err *err);
/* Removes what is not whole. */
void shardwriter_free(struct shardwriter *w);

#endif
