/* utf8out: bytes that come piece by piece, as UTF-8 that is well-formed at every moment.
 *
 * A token may end in the middle of a character: its bytes are held back until the rest is there. What can be no part of a character becomes U+FFFD,
 * one for each longest beginning of a character (the Unicode Standard, 3.9, "U+FFFD Substitution of Maximal Subparts"). */
#ifndef BELAY_RUNTIME_UTF8OUT_H
#define BELAY_RUNTIME_UTF8OUT_H

#include <stddef.h>

/* Zeroed to begin with. */
struct utf8out {
    unsigned char held[4];
    size_t n, need;          /* bytes held; bytes that must follow */
    unsigned char low, high; /* what the next may be */
};

/* Bytes that utf8out_feed may write for `len` that come in, and utf8out_end. */
#define UTF8OUT_ROOM(len) (3 * ((len) + 1) + 1)

/* Writes what is whole to out (UTF8OUT_ROOM(len) bytes). Returns how many bytes. */
size_t utf8out_feed(struct utf8out *u, const char *bytes, size_t len, char *out);
/* Nothing follows: what is still held becomes U+FFFD. Returns how many bytes. */
size_t utf8out_end(struct utf8out *u, char *out);

#endif
