/* bpe: merges the bytes of a piece of text, pair by pair, into tokens.
 *
 * A piece starts as the tokens of its bytes. As long as two neighbours are a pair that has a merge, the pair of the lowest rank, of
 * several the leftmost, becomes the token of its merge. That is what tiktoken does with the rank of the token that results, and Hugging Face's
 * tokenizers with the place of the pair in the list of merges (Sennrich et al. 2016, arXiv:1508.07909, over bytes). */
#ifndef BELAY_RUNTIME_BPE_H
#define BELAY_RUNTIME_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define BPE_PIECE_MAX                                                                                        \
    ((size_t)16                                                                                              \
     << 20) /* bytes merged as one: longer pieces are cut, or a text without blanks would need 30 times itself */

struct bpe_merge {
    int32_t left, right, id; /* left and right become id */
    uint32_t rank;           /* lower goes first */
};

struct bpe;

/* byte_ids (256): the token of each byte (copied). */
struct bpe *bpe_new(const int32_t *byte_ids);
void bpe_free(struct bpe *b);
/* Adds a merge. -1: the pair has one already. */
int bpe_add(struct bpe *b, struct bpe_merge merge, struct err *err);

/* The merges in the order in which they were added (borrowed). */
const struct bpe_merge *bpe_merges(const struct bpe *b, size_t *count);

/* A growing list of token ids. */
struct bpe_ids {
    int32_t *at;
    size_t count, room;
};
void bpe_ids_append(struct bpe_ids *ids, const int32_t *more, size_t count);

/* What one thread needs to merge. */
struct bpe_scratch;
struct bpe_scratch *bpe_scratch_new(void);
void bpe_scratch_free(struct bpe_scratch *s);

/* Appends the tokens of a piece of any length. Its time grows as n log n. */
void bpe_encode(const struct bpe *b, struct bpe_scratch *s, const char *piece, size_t len,
                struct bpe_ids *ids);

#endif
