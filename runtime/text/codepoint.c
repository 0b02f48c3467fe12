/* ASCII is looked up in a table of its own, since most text is ASCII; the rest is decoded and looked up by utf8proc. */
#include "runtime/text/codepoint.h"

#include <stdbool.h>
#include <utf8proc.h>

#define LETTER  CODEPOINT_LETTER
#define NUMBER  CODEPOINT_NUMBER
#define SPACE   CODEPOINT_SPACE
#define NEWLINE CODEPOINT_NEWLINE
static const uint8_t ascii_kind[128] = {
    ['\t'] = SPACE, ['\n'] = NEWLINE, ['\v'] = SPACE, ['\f'] = SPACE, ['\r'] = NEWLINE, [' '] = SPACE,
    ['0'] = NUMBER, ['1'] = NUMBER,   ['2'] = NUMBER, ['3'] = NUMBER, ['4'] = NUMBER,   ['5'] = NUMBER,
    ['6'] = NUMBER, ['7'] = NUMBER,   ['8'] = NUMBER, ['9'] = NUMBER, ['A'] = LETTER,   ['B'] = LETTER,
    ['C'] = LETTER, ['D'] = LETTER,   ['E'] = LETTER, ['F'] = LETTER, ['G'] = LETTER,   ['H'] = LETTER,
    ['I'] = LETTER, ['J'] = LETTER,   ['K'] = LETTER, ['L'] = LETTER, ['M'] = LETTER,   ['N'] = LETTER,
    ['O'] = LETTER, ['P'] = LETTER,   ['Q'] = LETTER, ['R'] = LETTER, ['S'] = LETTER,   ['T'] = LETTER,
    ['U'] = LETTER, ['V'] = LETTER,   ['W'] = LETTER, ['X'] = LETTER, ['Y'] = LETTER,   ['Z'] = LETTER,
    ['a'] = LETTER, ['b'] = LETTER,   ['c'] = LETTER, ['d'] = LETTER, ['e'] = LETTER,   ['f'] = LETTER,
    ['g'] = LETTER, ['h'] = LETTER,   ['i'] = LETTER, ['j'] = LETTER, ['k'] = LETTER,   ['l'] = LETTER,
    ['m'] = LETTER, ['n'] = LETTER,   ['o'] = LETTER, ['p'] = LETTER, ['q'] = LETTER,   ['r'] = LETTER,
    ['s'] = LETTER, ['t'] = LETTER,   ['u'] = LETTER, ['v'] = LETTER, ['w'] = LETTER,   ['x'] = LETTER,
    ['y'] = LETTER, ['z'] = LETTER,
};

/* White_Space has the separators (Zs, Zl, Zp) and, of the control characters, U+0009..U+000D and U+0085 (Unicode, PropList.txt). */
static enum codepoint_kind control_kind(int32_t value)
{
    if (value == '\n' || value == '\r')
        return CODEPOINT_NEWLINE;
    bool space = (value >= '\t' && value <= '\r') || value == 0x85;
    return space ? CODEPOINT_SPACE : CODEPOINT_SYMBOL;
}

enum codepoint_kind codepoint_kind(int32_t value)
{
    switch (utf8proc_category(value)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return CODEPOINT_LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return CODEPOINT_NUMBER;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return CODEPOINT_SPACE;
    case UTF8PROC_CATEGORY_CC:
        return control_kind(value);
    default:
        return CODEPOINT_SYMBOL;
    }
}

enum codepoint_kind codepoint_at(const char *text, size_t len, size_t *bytes)
{
    unsigned char first = (unsigned char)text[0];
    *bytes = 1;
    if (first < 128)
        return (enum codepoint_kind)ascii_kind[first];
    int32_t value;
    ptrdiff_t n = utf8proc_iterate((const uint8_t *)text, len < 4 ? (ptrdiff_t)len : 4, &value);
    if (n < 1)
        return CODEPOINT_SYMBOL;
    *bytes = (size_t)n;
    return codepoint_kind(value);
}
