/* mem: see mem.h. The last words are one write(2): printf may itself need memory. */
#include "common/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_ROOM 16 /* elements: small beside a page, large enough that short lists grow once */

static void out_of_memory(void)
{
    static const char text[] = "belay: out of memory\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        abort();
    abort();
}

/* At least 1, so that NULL only ever means failure. A product too large is a lack of memory like any other. */
static size_t bytes(size_t count, size_t size)
{
    size_t n;
    if (__builtin_mul_overflow(count, size, &n))
        out_of_memory();
    return n ? n : 1;
}

void *mem_zero(size_t count, size_t size)
{
    void *p = calloc(1, bytes(count, size));
    if (!p)
        out_of_memory();
    return p;
}

void *mem_grow(void *p, size_t count, size_t size)
{
    void *q = realloc(p, bytes(count, size));
    if (!q)
        out_of_memory();
    return q;
}

void *mem_one_more(void *p, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return p;
    *room = *room ? *room * 2 : FIRST_ROOM;
    return mem_grow(p, *room, size);
}

char *str_dup(const char *s)
{
    if (!s)
        return NULL;
    char *copy = strdup(s);
    if (!copy)
        out_of_memory();
    return copy;
}

char *str_vprintf(const char *fmt, va_list args)
{
    char *s = NULL;
    if (vasprintf(&s, fmt, args) < 0)
        out_of_memory();
    return s;
}

char *str_printf(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *s = str_vprintf(fmt, args);
    va_end(args);
    return s;
}
