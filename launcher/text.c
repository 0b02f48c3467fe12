/* text: see text.h. Characters are those of mbrtowc; a byte that is not part of one counts as one column. */
#include "launcher/text.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "common/mem.h"

/* Reads one character: its bytes in *len, its columns as result, or -1 when it is not printable UTF-8 (*len is 1 for a
 * bad byte). */
static int next(const char *s, size_t left, size_t *len)
{
    mbstate_t state;
    wchar_t wc;
    memset(&state, 0, sizeof state);
    size_t n = mbrtowc(&wc, s, left, &state);
    if (n == (size_t)-1 || n == (size_t)-2 || n == 0) {
        *len = 1;
        return -1;
    }
    *len = n;
    return wcwidth(wc);
}

char *text_clean(const char *s)
{
    size_t left = strlen(s), at = 0;
    char *out = mem_zero(left + 1, 1);
    while (left) {
        size_t len;
        int width = next(s, left, &len);
        if (width >= 0) {
            memcpy(out + at, s, len);
            at += len;
        } else {
            out[at++] = *s == '\n' || *s == '\t' ? ' ' : '?';
        }
        s += len;
        left -= len;
    }
    return out;
}

char *text_clean_vprintf(const char *fmt, va_list ap)
{
    char *raw = str_vprintf(fmt, ap);
    char *clean = text_clean(raw);
    free(raw);
    return clean;
}

size_t text_prefix(const char *s, size_t width)
{
    size_t left = strlen(s), used = 0, at = 0;
    while (left) {
        size_t len;
        int w = next(s + at, left, &len);
        size_t columns = w < 0 ? 1 : (size_t)w;
        if (used + columns > width)
            break;
        used += columns;
        at += len;
        left -= len;
    }
    return at;
}

size_t text_width(const char *s)
{
    size_t left = strlen(s), used = 0;
    while (left) {
        size_t len;
        int w = next(s, left, &len);
        used += w < 0 ? 1 : (size_t)w;
        s += len;
        left -= len;
    }
    return used;
}
