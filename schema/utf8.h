/* utf8: is it UTF-8, and where not. */
#ifndef BELAY_SCHEMA_UTF8_H
#define BELAY_SCHEMA_UTF8_H

#include <stddef.h>

/* Bytes of the well-formed character at text (len bytes are left), or 0 when there is none: overlong forms, surrogates and
 * values beyond U+10FFFF are not well-formed (Unicode 15, table 3-7). */
size_t utf8_length(const char *text, size_t len);

/* Index of the first byte that is not part of a well-formed character; len when all is well. */
size_t utf8_bad(const char *text, size_t len);

/* Replaces every such byte by '?'. */
void utf8_clean(char *text);

#endif
