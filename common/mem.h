/* mem: memory and strings for callers who have nothing better to do than end when there is none left: each function says so on stderr
 * and aborts, and therefore never returns NULL for lack of it. What comes back is the caller's to free(). */
#ifndef BELAY_COMMON_MEM_H
#define BELAY_COMMON_MEM_H

#include <stdarg.h>
#include <stddef.h>

/* count*size bytes of zeros; at least one byte. Overflow of the product counts as lack of memory. */
void *mem_zero(size_t count, size_t size);
/* p (or NULL) with room for count*size bytes, its content kept; what is new is not cleared. Overflow as above. */
void *mem_grow(void *p, size_t count, size_t size);
/* The array p of `count` elements with room for one more: when *room is used up it doubles, so that appending costs O(1) on average.
 * Begin with p NULL, count and *room 0. */
void *mem_one_more(void *p, size_t count, size_t *room, size_t size);

/* A copy; NULL stays NULL. */
char *str_dup(const char *s);
/* printf and vprintf into a fresh string. */
char *str_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *str_vprintf(const char *fmt, va_list args) __attribute__((format(printf, 1, 0)));

#endif
