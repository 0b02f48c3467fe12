/* utf8: the well-formed byte sequences of Unicode, table 3-7, as a table. */
#include "schema/utf8.h"

#include <string.h>

struct form {
    unsigned char first_min, first_max;
    size_t length;
    unsigned char second_min, second_max; /* the third and fourth are always 80..BF */
};

static const struct form forms[] = {
    {0x00, 0x7f, 1, 0, 0},       {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
    {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
    {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
};

static size_t matches(const struct form *f, const unsigned char *s, size_t len)
{
    if (s[0] < f->first_min || s[0] > f->first_max || len < f->length)
        return 0;
    if (f->length > 1 && (s[1] < f->second_min || s[1] > f->second_max))
        return 0;
    for (size_t i = 2; i < f->length; i++)
        if (s[i] < 0x80 || s[i] > 0xbf)
            return 0;
    return f->length;
}

size_t utf8_length(const char *text, size_t len)
{
    size_t found = 0;
    if (len == 0)
        return 0;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0] && !found; i++)
        found = matches(&forms[i], (const unsigned char *)text, len);
    return found;
}

size_t utf8_bad(const char *text, size_t len)
{
    size_t at = 0;
    while (at < len) {
        size_t n = utf8_length(text + at, len - at);
        if (n == 0)
            break;
        at += n;
    }
    return at;
}

void utf8_clean(char *text)
{
    size_t len = strlen(text);
    for (size_t at = utf8_bad(text, len); at < len; at += utf8_bad(text + at, len - at))
        text[at] = '?';
}
