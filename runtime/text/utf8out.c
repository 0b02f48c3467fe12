/* utf8out: see utf8out.h. What may follow a first byte: the Unicode Standard, table 3-7. */
#include "runtime/text/utf8out.h"

#include <string.h>

static const struct {
    unsigned char from, to;  /* first byte */
    unsigned char low, high; /* second byte */
    size_t need;
} firsts[] = {
    {0xC2, 0xDF, 0x80, 0xBF, 1}, {0xE0, 0xE0, 0xA0, 0xBF, 2}, {0xE1, 0xEC, 0x80, 0xBF, 2},
    {0xED, 0xED, 0x80, 0x9F, 2}, {0xEE, 0xEF, 0x80, 0xBF, 2}, {0xF0, 0xF0, 0x90, 0xBF, 3},
    {0xF1, 0xF3, 0x80, 0xBF, 3}, {0xF4, 0xF4, 0x80, 0x8F, 3},
};

static const unsigned char replacement[] = {0xEF, 0xBF, 0xBD}; /* U+FFFD */

static size_t replace(struct utf8out *u, char *out)
{
    u->n = u->need = 0;
    memcpy(out, replacement, sizeof replacement);
    return sizeof replacement;
}

/* A byte where a character begins. */
static size_t begin(struct utf8out *u, unsigned char c, char *out)
{
    if (c < 0x80) {
        *out = (char)c;
        return 1;
    }
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++)
        if (c >= firsts[i].from && c <= firsts[i].to) {
            u->held[0] = c;
            u->n = 1;
            u->need = firsts[i].need;
            u->low = firsts[i].low;
            u->high = firsts[i].high;
            return 0;
        }
    return replace(u, out);
}

/* A byte within a character. */
static size_t go_on(struct utf8out *u, unsigned char c, char *out)
{
    if (c < u->low || c > u->high) {
        size_t n = replace(u, out);
        return n + begin(u, c, out + n);
    }
    u->held[u->n++] = c;
    u->low = 0x80;
    u->high = 0xBF;
    if (--u->need > 0)
        return 0;
    size_t n = u->n;
    memcpy(out, u->held, n);
    u->n = 0;
    return n;
}

size_t utf8out_feed(struct utf8out *u, const char *bytes, size_t len, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];
        n += u->need > 0 ? go_on(u, c, out + n) : begin(u, c, out + n);
    }
    return n;
}

size_t utf8out_end(struct utf8out *u, char *out)
{
    return u->need > 0 ? replace(u, out) : 0;
}
