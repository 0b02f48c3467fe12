#include "tests/unit/scratch.h"

#include "runtime/text/codepoint.h"
#include "runtime/text/presplit.h"

#define GPT2   PRESPLIT_GPT2
#define LLAMA3 PRESPLIT_LLAMA3

/* What the published patterns give, worked out by hand. */
static const struct row {
    enum presplit kind;
    const char *text;
    const char *pieces[10];
} rows[] = {
    {PRESPLIT_NONE, "a b\n c", {"a b\n c"}},
    {GPT2, "Hello world", {"Hello", " world"}},
    {LLAMA3, "Hello world", {"Hello", " world"}},
    /* contractions: of either case for Llama 3 only, and only where a piece begins */
    {GPT2, "I'm you'LL 've", {"I", "'m", " you", "'", "LL", " '", "ve"}},
    {LLAMA3, "I'm you'LL 've", {"I", "'m", " you", "'LL", " '", "ve"}},
    {GPT2, "'rest", {"'re", "st"}},
    {LLAMA3, "'Rest 'x", {"'Re", "st", " '", "x"}},
    {GPT2, "!'s", {"!'", "s"}},
    {GPT2, "'r", {"'", "r"}},
    {LLAMA3, "'r", {"'r"}},
    {LLAMA3, "a'\u017fx", {"a", "'\u017f", "x"}}, /* the long s folds to s */
    {GPT2, "a'\u017fx", {"a", "'", "\u017fx"}},
    /* numbers: whole, or by threes and without the blank */
    {GPT2, "x 12345", {"x", " 12345"}},
    {LLAMA3, "x 12345", {"x", " ", "123", "45"}},
    {LLAMA3, "\u0661\u0662\u0663\u0664", {"\u0661\u0662\u0663", "\u0664"}},
    {GPT2, "\u00bd\u2167", {"\u00bd\u2167"}}, /* No and Nl are numbers */
    /* one character before letters, not a number or a line break */
    {LLAMA3, "$abc\tdef\nghi1jkl", {"$abc", "\tdef", "\n", "ghi", "1", "jkl"}},
    {GPT2, "$abc\tdef", {"$", "abc", "\t", "def"}},
    {LLAMA3, "$$abc", {"$$", "abc"}},
    /* symbols take the line breaks behind them */
    {LLAMA3, "a ;;\r\n\nb", {"a", " ;;\r\n\n", "b"}},
    {GPT2, "a ;;\n\nb", {"a", " ;;", "\n", "\n", "b"}},
    /* white space: the last character goes to what follows */
    {GPT2, "a   b", {"a", "  ", " b"}},
    {GPT2, "a \t\n b", {"a", " \t\n", " b"}},
    {GPT2, "a \tb", {"a", " ", "\t", "b"}},
    {LLAMA3, "a \tb", {"a", " ", "\tb"}},
    {GPT2, "a  ", {"a", "  "}},
    {LLAMA3, "a \n \n  b", {"a", " \n \n", " ", " b"}},
    {LLAMA3, "a\n  ", {"a", "\n", "  "}},
    {LLAMA3, "a   1", {"a", "  ", " ", "1"}},
    {GPT2, "a\u3000\u00a0 b", {"a", "\u3000\u00a0", " b"}},
    {GPT2, "a\xc2\x85\u2028b", {"a", "\xc2\x85", "\u2028", "b"}},
    {GPT2, "a\ufeff b", {"a", "\ufeff", " b"}}, /* not White_Space in Unicode, whatever JavaScript says */
    /* scripts, marks (symbols here), emoji, broken UTF-8 */
    {GPT2, "\u65e5\u672c \u00e9t\u00e9", {"\u65e5\u672c", " \u00e9t\u00e9"}},
    {GPT2, "e\u0301a", {"e", "\u0301", "a"}},
    {LLAMA3, "e\u0301a", {"e", "\u0301a"}},
    {GPT2, " \U0001f600\U0001f600", {" \U0001f600\U0001f600"}},
    {GPT2,
     "a\xff\xfe"
     "b",
     {"a", "\xff\xfe", "b"}},
    {GPT2, "\xe2\x82", {"\xe2\x82"}},
    {GPT2,
     "\xc0\xaf"
     "a\xed\xa0\x80",
     {"\xc0\xaf", "a", "\xed\xa0\x80"}}, /* overlong; a surrogate */
};

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        size_t at = 0, len = strlen(r->text), n = 0;
        for (size_t end; at < len; at = end, n++) {
            end = presplit_next(r->kind, r->text, len, at);
            const char *want = r->pieces[n];
            if (!want || end <= at || strlen(want) != end - at || memcmp(r->text + at, want, end - at) != 0)
                fail_msg("row %zu, piece %zu: \"%.*s\", not \"%s\"", i, n, (int)(end - at), r->text + at,
                         want ? want : "(none)");
        }
        if (r->pieces[n])
            fail_msg("row %zu: \"%s\" is missing", i, r->pieces[n]);
    }
}

/* Whatever the bytes: pieces cover the text, each within it and not empty. */
static void test_any_bytes(void **state)
{
    (void)state;
    static const char alphabet[] = " \n\r\t'sSlLeE019.,\xc3\xa9\xe3\x80\x80\xf0\x9f\x98\x80\xff";
    uint32_t seed = 1;
    char text[300];
    for (int round = 0; round < 2000; round++) {
        size_t len = (size_t)(round % (int)sizeof text);
        for (size_t i = 0; i < len; i++) {
            seed = seed * 1664525 + 1013904223;
            text[i] = round % 2 ? (char)(seed >> 24) : alphabet[(seed >> 16) % (sizeof alphabet - 1)];
        }
        for (int kind = 0; kind < PRESPLIT_COUNT; kind++)
            for (size_t at = 0, end; at < len; at = end) {
                end = presplit_next((enum presplit)kind, text, len, at);
                assert_true(end > at && end <= len);
                /* what is cut depends only on the text from there on */
                assert_int_equal(presplit_next((enum presplit)kind, text + at, len - at, 0), end - at);
            }
    }
}

/* 10 MB of one kind are one piece: no limit, no recursion. */
static void test_long(void **state)
{
    (void)state;
    size_t len = 10000000;
    char *text = malloc(len);
    for (const char *c = "a.\n "; *c; c++) {
        memset(text, *c, len);
        assert_int_equal(presplit_next(GPT2, text, len, 0), len);
        assert_int_equal(presplit_next(LLAMA3, text, len, 0), len);
    }
    free(text);
}

static void test_kinds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum codepoint_kind kind;
        size_t bytes;
    } kinds[] = {
        {"a", CODEPOINT_LETTER, 1},
        {"7", CODEPOINT_NUMBER, 1},
        {"_", CODEPOINT_SYMBOL, 1},
        {"\x1c", CODEPOINT_SYMBOL, 1},
        {"\x7f", CODEPOINT_SYMBOL, 1},
        {"\v", CODEPOINT_SPACE, 1},
        {"\n", CODEPOINT_NEWLINE, 1},
        {"\xc2\x85", CODEPOINT_SPACE, 2},
        {"\u00aa", CODEPOINT_LETTER, 2},
        {"\u200b", CODEPOINT_SYMBOL, 3},
        {"\u2029", CODEPOINT_SPACE, 3},
        {"\u4e00", CODEPOINT_LETTER, 3},
        {"\U0001d7ce", CODEPOINT_NUMBER, 4},
        {"\U00020000", CODEPOINT_LETTER, 4},
        {"\U0001f600", CODEPOINT_SYMBOL, 4},
        {"\x80", CODEPOINT_SYMBOL, 1},
        {"\xf4\x90\x80\x80", CODEPOINT_SYMBOL, 1}, /* above U+10FFFF */
        {"\xe4\xb8", CODEPOINT_SYMBOL, 1},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t bytes;
        if (codepoint_at(kinds[i].text, strlen(kinds[i].text), &bytes) != kinds[i].kind ||
            bytes != kinds[i].bytes)
            fail_msg("row %zu", i);
    }
    for (int32_t c = 0; c < 128; c++) { /* the table for ASCII says what Unicode says */
        char byte = (char)c;
        size_t bytes;
        assert_int_equal(codepoint_at(&byte, 1, &bytes), codepoint_kind(c));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_kinds),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
