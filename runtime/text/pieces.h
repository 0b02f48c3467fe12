/* pieces: how often each piece of text occurs. A piece is known by its number, 0 and on in the order in which they came. */
#ifndef BELAY_RUNTIME_PIECES_H
#define BELAY_RUNTIME_PIECES_H

#include <stddef.h>
#include <stdint.h>

struct pieces;

struct pieces *pieces_new(void);
void pieces_free(struct pieces *p);

/* Adds `times` to a piece of 1..65535 bytes (copied when it is new). Its number. */
size_t pieces_add(struct pieces *p, const char *bytes, size_t len, uint64_t times);

size_t pieces_count(const struct pieces *p);
/* The bytes of all pieces together. */
size_t pieces_bytes(const struct pieces *p);
/* How often piece i occurs, and its bytes (borrowed until the next change). */
uint64_t pieces_get(const struct pieces *p, size_t i, const char **bytes, size_t *len);

/* Adds all of `more`, in its order. */
void pieces_merge(struct pieces *p, const struct pieces *more);
/* Forgets the rarest until there are at most `count` pieces with at most `bytes` bytes: those that occur once, then fewer than 4, 8 …
 * times. What is left keeps its order and gets new numbers. */
void pieces_prune(struct pieces *p, size_t count, size_t bytes);

#endif
