/* bpe_learn: finds the merges of a byte-level BPE from pieces of text and how often each occurs.
 *
 * Again and again the pair of neighbouring tokens that occurs most often becomes a token (Sennrich et al. 2016, arXiv:1508.07909); of
 * equally frequent pairs the one with the lower left id, then the lower right id. The result depends on the pieces and their counts only,
 * not on their order. */
#ifndef BELAY_RUNTIME_BPE_LEARN_H
#define BELAY_RUNTIME_BPE_LEARN_H

#include <stddef.h>

#include "runtime/text/bpe.h"
#include "runtime/text/pieces.h"

/* Called after each merge with the number of tokens there are and of those wanted. */
typedef void bpe_learn_progress(void *arg, size_t tokens, size_t wanted);

/* Learns merges until there are `wanted` tokens, the 256 bytes (whose ids are their values) included, or no pair occurs twice. The merges
 * in order, *count, with ids 256 and on, each with its place as rank; the caller's to free. `tokens`, empty before, receives the bytes of
 * each token; its number there is its id. */
struct bpe_merge *bpe_learn(const struct pieces *pieces, size_t wanted, struct pieces *tokens, size_t *count,
                            bpe_learn_progress *progress, void *arg);

#endif
