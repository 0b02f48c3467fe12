/* Characters of the alphabet end below U+0144, so each has one or two bytes in UTF-8. */
#include "runtime/text/bytelevel.h"

#include <stdbool.h>
#include <stdint.h>

#include "common/mem.h"

static bool stands_for_itself(unsigned byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xff && byte != 0xad);
}

/* The character of a byte. The others before it: 0..32, 127..160, 173. */
static unsigned char_of(unsigned byte)
{
    if (stands_for_itself(byte))
        return byte;
    if (byte <= 32)
        return 256 + byte;
    return 256 + (byte == 173 ? 67 : 33 + byte - 127);
}

/* The byte of a character, -1 when it is not of the alphabet. */
static int byte_of(unsigned c)
{
    if (c < 256)
        return stands_for_itself(c) ? (int)c : -1;
    unsigned nth = c - 256;
    if (nth <= 32)
        return (int)nth;
    if (nth == 67)
        return 173;
    return nth < 67 ? (int)(nth - 33 + 127) : -1;
}

long bytelevel_decode(const char *text, size_t len, char *out)
{
    long n = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned c = (unsigned char)text[i];
        if (c >= 0x80) {
            if (c < 0xc2 || c > 0xc5 || i + 1 == len || ((unsigned char)text[i + 1] & 0xc0) != 0x80)
                return -1;
            c = (c & 0x1f) << 6 | ((unsigned char)text[++i] & 0x3f);
        }
        int byte = byte_of(c);
        if (byte < 0)
            return -1;
        out[n++] = (char)byte;
    }
    return n;
}

char *bytelevel_encode(const char *bytes, size_t len)
{
    char *text = mem_zero(2 * len + 1, 1);
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned c = char_of((unsigned char)bytes[i]);
        if (c >= 0x80)
            text[n++] = (char)(0xc0 | c >> 6);
        text[n++] = (char)(c >= 0x80 ? 0x80 | (c & 0x3f) : c);
    }
    return text;
}
