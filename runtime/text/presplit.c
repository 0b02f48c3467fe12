/* A function for each alternative of the patterns; each returns the end of its match, or `at` when it does not match. presplit_next
 * takes the first that does, as a regular expression would. */
#include "runtime/text/presplit.h"

#include <stdbool.h>
#include <stdint.h>

#include "runtime/text/codepoint.h"

struct text {
    const char *bytes;
    size_t len;
};

/* The kind of the character at `at`, and in *next where it ends. At the end of the text: false. */
static bool look(const struct text *t, size_t at, enum codepoint_kind *kind, size_t *next)
{
    if (at >= t->len)
        return false;
    size_t bytes;
    *kind = codepoint_at(t->bytes + at, t->len - at, &bytes);
    *next = at + bytes;
    return true;
}

static bool is_space(enum codepoint_kind kind)
{
    return kind == CODEPOINT_SPACE || kind == CODEPOINT_NEWLINE;
}

/* The end of the run of at most `most` characters of a kind that begins at `at`. */
static size_t run(const struct text *t, size_t at, enum codepoint_kind wanted, size_t most)
{
    enum codepoint_kind kind;
    size_t next;
    while (most-- > 0 && look(t, at, &kind, &next) && kind == wanted)
        at = next;
    return at;
}

static bool byte_is(const struct text *t, size_t at, char c)
{
    return at < t->len && t->bytes[at] == c;
}

/* A letter of a contraction; upper case too when `fold`. */
static bool letter_is(const struct text *t, size_t at, char c, bool fold)
{
    return byte_is(t, at, c) || (fold && byte_is(t, at, (char)(c - 'a' + 'A')));
}

/* 's|'t|'re|'ve|'m|'ll|'d. Unicode folds one more character to one of these letters: U+017F, the long s. */
static size_t contraction(const struct text *t, size_t at, bool fold)
{
    static const char tails[][3] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (!byte_is(t, at, '\''))
        return at;
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++)
        if (letter_is(t, at + 1, tails[i][0], fold) &&
            (!tails[i][1] || letter_is(t, at + 2, tails[i][1], fold)))
            return at + (tails[i][1] ? 3 : 2);
    return fold && byte_is(t, at + 1, '\xc5') && byte_is(t, at + 2, '\xbf') ? at + 3 : at;
}

/* " ?" and a run of one kind that is not white space. */
static size_t spaced_run(const struct text *t, size_t at, enum codepoint_kind wanted)
{
    size_t begin = byte_is(t, at, ' ') ? at + 1 : at;
    size_t end = run(t, begin, wanted, SIZE_MAX);
    return end > begin ? end : at;
}

/* [^\r\n\p{L}\p{N}]?\p{L}+ */
static size_t led_letters(const struct text *t, size_t at)
{
    enum codepoint_kind kind;
    size_t next;
    if (!look(t, at, &kind, &next) || kind == CODEPOINT_NUMBER || kind == CODEPOINT_NEWLINE)
        return at;
    if (kind == CODEPOINT_LETTER)
        return run(t, next, CODEPOINT_LETTER, SIZE_MAX);
    size_t end = run(t, next, CODEPOINT_LETTER, SIZE_MAX);
    return end > next ? end : at;
}

/* A run of white space: where it ends, where its last character begins, and where its last line break ends (`at` without one). */
struct blank {
    size_t end, last, newline;
};

static struct blank blank_run(const struct text *t, size_t at)
{
    struct blank b = {at, at, at};
    enum codepoint_kind kind;
    size_t next;
    while (look(t, b.end, &kind, &next) && is_space(kind)) {
        b.last = b.end;
        b.end = next;
        if (kind == CODEPOINT_NEWLINE)
            b.newline = next;
    }
    return b;
}

/* \s+(?!\S)|\s+: all of it at the end of the text; else all but its last character, unless that is all there is. */
static size_t blank_tail(const struct text *t, size_t at, const struct blank *b)
{
    return b->end == t->len || b->last == at ? b->end : b->last;
}

static size_t next_gpt2(const struct text *t, size_t at)
{
    static const enum codepoint_kind kinds[] = {CODEPOINT_LETTER, CODEPOINT_NUMBER, CODEPOINT_SYMBOL};
    size_t end = contraction(t, at, false);
    for (size_t i = 0; i < 3 && end == at; i++)
        end = spaced_run(t, at, kinds[i]);
    if (end > at)
        return end;
    struct blank b = blank_run(t, at);
    return blank_tail(t, at, &b);
}

static size_t next_llama3(const struct text *t, size_t at)
{
    size_t end = contraction(t, at, true);
    if (end == at)
        end = led_letters(t, at);
    if (end == at)
        end = run(t, at, CODEPOINT_NUMBER, 3);
    if (end > at)
        return end;
    end = spaced_run(t, at, CODEPOINT_SYMBOL);
    if (end > at)
        return run(t, end, CODEPOINT_NEWLINE, SIZE_MAX);
    struct blank b = blank_run(t, at);
    return b.newline > at ? b.newline : blank_tail(t, at, &b); /* \s*[\r\n]+ comes first */
}

size_t presplit_next(enum presplit kind, const char *text, size_t len, size_t at)
{
    struct text t = {text, len};
    if (kind == PRESPLIT_GPT2)
        return next_gpt2(&t, at);
    return kind == PRESPLIT_LLAMA3 ? next_llama3(&t, at) : len;
}

const char *presplit_name(enum presplit kind)
{
    static const char *const names[PRESPLIT_COUNT] = {"none", "gpt2", "llama3"};
    return names[kind];
}

const char *presplit_pattern(enum presplit kind)
{
    static const char *const patterns[PRESPLIT_COUNT] = {
        [PRESPLIT_GPT2] =
            "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
        [PRESPLIT_LLAMA3] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
                            "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    };
    return patterns[kind];
}
