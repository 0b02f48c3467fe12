/* text: UTF-8 that came from outside, made fit for a terminal: what is not printable never reaches it.
 *
 * Needs LC_CTYPE set to a UTF-8 locale (main does; C.UTF-8 is always there). */
#ifndef BELAY_LAUNCHER_TEXT_H
#define BELAY_LAUNCHER_TEXT_H

#include <stdarg.h>
#include <stddef.h>

/* A fresh copy in which each control character and each byte that is not UTF-8 is a '?' (a newline or tab a space). */
char *text_clean(const char *s);
/* vprintf, then text_clean. */
char *text_clean_vprintf(const char *fmt, va_list ap) __attribute__((format(printf, 1, 0)));

/* Columns a cleaned string takes on a terminal: wide characters count two, combining ones none. */
size_t text_width(const char *s);

/* Bytes of the longest beginning of a cleaned string that takes at most `width` columns. */
size_t text_prefix(const char *s, size_t width);

#endif
