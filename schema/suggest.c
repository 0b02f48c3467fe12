/* suggest: optimal string alignment distance (Damerau-Levenshtein where no piece is edited twice), three rows at a time.
 *
 * Words are short; anything longer than SUGGEST_WORD_MAX is nobody's typing mistake and gets no suggestion, which also
 * bounds the work for hostile input. Letters compare without regard to case. */
#include "schema/suggest.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define SUGGEST_WORD_MAX 63

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static int same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Cost of turning a[0..i] into b[0..j] from the three neighbours and, for two swapped letters, the row before the last. */
static size_t cell(const char *a, const char *b, size_t i, size_t j, const size_t *older, const size_t *old,
                   const size_t *now)
{
    size_t change = old[j] + (same(a[i], b[j]) ? 0 : 1);
    size_t best = least(least(old[j + 1], now[j]) + 1, change);
    if (i > 0 && j > 0 && same(a[i], b[j - 1]) && same(a[i - 1], b[j]))
        best = least(best, older[j - 1] + 1);
    return best;
}

static size_t distance(const char *a, size_t len_a, const char *b, size_t len_b)
{
    size_t rows[3][SUGGEST_WORD_MAX + 1] = {{0}};
    for (size_t j = 0; j <= len_b; j++)
        rows[0][j] = j;
    for (size_t i = 0; i < len_a; i++) {
        size_t *now = rows[(i + 1) % 3];
        now[0] = i + 1;
        for (size_t j = 0; j < len_b; j++)
            now[j + 1] = cell(a, b, i, j, rows[(i + 2) % 3], rows[i % 3], now);
    }
    return rows[len_a % 3][len_b];
}

const char *suggest_nearest(const char *word, const char *const *words, size_t count)
{
    size_t len = word ? strnlen(word, SUGGEST_WORD_MAX + 1) : 0;
    if (len == 0 || len > SUGGEST_WORD_MAX)
        return NULL;
    const char *nearest = NULL;
    size_t best = (size_t)-1;
    for (size_t i = 0; i < count; i++) {
        size_t len_known = strnlen(words[i], SUGGEST_WORD_MAX + 1);
        if (len_known > SUGGEST_WORD_MAX)
            continue;
        size_t d = distance(word, len, words[i], len_known);
        size_t longest = len > len_known ? len : len_known;
        bool nearer =
            d < best || (d == best && nearest && !same(nearest[0], word[0]) && same(words[i][0], word[0]));
        if (nearer && d <= (longest + 1) / 3) {
            best = d;
            nearest = words[i];
        }
    }
    return nearest;
}
