/* vocab: token ids and the bytes they stand for.
 *
 * First every token is put in, in any order; vocab_seal then checks the whole and makes it ready to be searched by bytes. Ids may leave
 * gaps. A special token has a name that is not looked for in text, so it is never found by its bytes. */
#ifndef BELAY_RUNTIME_VOCAB_H
#define BELAY_RUNTIME_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define VOCAB_MAX       (1 << 20) /* ids are below this: four times the largest vocabulary in use */
#define VOCAB_TOKEN_MAX 1024      /* bytes of one token; the longest in use have 128 */

struct vocab;

struct vocab *vocab_new(void);
void vocab_free(struct vocab *v);

/* Puts in a token of 1..VOCAB_TOKEN_MAX bytes (copied). -1: the id is out of range or taken, or the length is not allowed. */
int vocab_put(struct vocab *v, int64_t id, const char *bytes, size_t len, bool special, struct err *err);
/* Makes the token `id`, which is there, a special one. Before vocab_seal. */
void vocab_make_special(struct vocab *v, int32_t id);
/* -1: two tokens stand for the same bytes, or a byte (0..255) has no token of its own. */
int vocab_seal(struct vocab *v, struct err *err);

/* Sealed: the id of the ordinary token with these bytes, or -1. */
int32_t vocab_find(const struct vocab *v, const char *bytes, size_t len);
/* Sealed: the token of one byte. */
int32_t vocab_byte(const struct vocab *v, unsigned char byte);

/* Ids are below this. */
size_t vocab_size(const struct vocab *v);
/* The bytes of a token (borrowed, not terminated); of an id in a gap none, *len 0. NULL when the id is out of range. */
const char *vocab_bytes(const struct vocab *v, int32_t id, size_t *len);
bool vocab_is_special(const struct vocab *v, int32_t id);
/* The lowest special token with this name, or -1. */
int32_t vocab_special(const struct vocab *v, const char *name);
/* A hash of ids, bytes and which are special. */
uint64_t vocab_fingerprint(const struct vocab *v);

#endif
