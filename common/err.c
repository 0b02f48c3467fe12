/* err: see err.h. A sentence that does not fit is cut and ends in "…", so that a reader sees it was cut. */
#include "common/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void mark_cut(char *text, size_t size)
{
    static const char cut[] = "…";
    memcpy(text + size - sizeof cut, cut, sizeof cut);
}

static void print(struct err *err, const char *fmt, va_list args)
{
    int n = vsnprintf(err->text, sizeof err->text, fmt, args);
    if (n >= (int)sizeof err->text)
        mark_cut(err->text, sizeof err->text);
}

int err_set(struct err *err, const char *fmt, ...)
{
    if (!err)
        return -1;
    va_list args;
    va_start(args, fmt);
    print(err, fmt, args);
    va_end(args);
    return -1;
}

int err_sys(struct err *err, const char *fmt, ...)
{
    int saved = errno;
    if (!err)
        return -1;
    va_list args;
    va_start(args, fmt);
    print(err, fmt, args);
    va_end(args);
    size_t used = strlen(err->text);
    int n = snprintf(err->text + used, sizeof err->text - used, ": %s", strerror(saved));
    if (n >= (int)(sizeof err->text - used))
        mark_cut(err->text, sizeof err->text);
    errno = saved;
    return -1;
}

int err_prefix(struct err *err, const char *fmt, ...)
{
    if (!err)
        return -1;
    struct err was = *err;
    va_list args;
    va_start(args, fmt);
    print(err, fmt, args);
    va_end(args);
    size_t used = strlen(err->text);
    int n = snprintf(err->text + used, sizeof err->text - used, ": %s", was.text);
    if (n >= (int)(sizeof err->text - used))
        mark_cut(err->text, sizeof err->text);
    return -1;
}
