/* decode: text one token further at a time, by a model that keeps the keys and values of what it has read.
 *
 * Several sequences of any lengths go on together. A pass works on rows, each a token of some sequence: a prompt is many rows, a token that was
 * just chosen is one; the layers are the model's own (model.h), only attention looks back into what is kept. What a sequence's logits come to
 * does not depend on which others are with it, up to rounding.
 *
 * Experts take all rows that choose them: capacity, which is counted within a sequence, means nothing where each row counts as one. */
#ifndef BELAY_RUNTIME_DECODE_H
#define BELAY_RUNTIME_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "runtime/model/model.h"

struct decode;

/* request: config, mesh (of one rank), kernels, layout, units and hooks as for model_new; `sequences` B, `context` T: tokens that each may come
 * to, within the model's; `batch` rows of a pass, 0: as many as are worth while. The rest is not looked at. NULL with a sentence. */
struct decode *decode_new(const struct model_request *request, struct err *err);
void decode_free(struct decode *decode);

/* Tokens of a sequence so far. */
size_t decode_length(const struct decode *decode, size_t sequence);
/* Forgets it: the next token fed is the first of another text. */
void decode_forget(struct decode *decode, size_t sequence);
/* Reads counts[b] further tokens of each sequence b (0 = none): tokens holds those of the first sequence, then those of the second, …. Row b of
 * logits (B, vocab) becomes what may come next after the last of them; rows of sequences that were fed nothing stay. 0, or -1 with a sentence,
 * nothing read: a token outside of the vocabulary, or more than T. */
int decode_feed(struct decode *decode, const int32_t *tokens, const size_t *counts, real *logits,
                struct err *err);
/* Bytes held for keys, values and activations. */
size_t decode_bytes(const struct decode *decode);

#endif
