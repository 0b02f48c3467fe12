/* bytelevel: the alphabet in which GPT-2's files write bytes as printable characters (src/encoder.py, bytes_to_unicode): a byte that
 * prints in Latin-1 is itself, the others, in order, are U+0100 and on; a blank is "Ġ", a newline "Ċ". */
#ifndef BELAY_RUNTIME_BYTELEVEL_H
#define BELAY_RUNTIME_BYTELEVEL_H

#include <stddef.h>

/* The bytes that `text` (UTF-8) stands for, into out (room for len). Their number, or -1 when a character is not of the alphabet. */
long bytelevel_decode(const char *text, size_t len, char *out);

/* The text for `len` bytes, terminated; the caller's to free. */
char *bytelevel_encode(const char *bytes, size_t len);

#endif
