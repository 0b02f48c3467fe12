/* Well-formed UTF-8 from bytes of any kind, cut anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <utf8proc.h>

#include <cmocka.h>

#include "runtime/text/utf8out.h"

#define BAD "\xEF\xBF\xBD"

static const struct {
    const char *name, *in, *out;
} rows[] = {
    {"nothing", "", ""},
    {"ASCII", "a\tb\n", "a\tb\n"},
    {"two to four bytes", "\xC3\xA9\xE2\x82\xAC\xF0\x9F\xA6\x86", "\xC3\xA9\xE2\x82\xAC\xF0\x9F\xA6\x86"},
    {"a rest alone", "a\x80z", "a" BAD "z"},
    {"cut at the end", "a\xE2\x82", "a" BAD},
    {"cut by ASCII", "\xE2\x82z", BAD "z"},
    {"cut by another", "\xF0\x9F\xE2\x82\xAC", BAD "\xE2\x82\xAC"},
    {"too long a form", "\xC0\xAF\xE0\x80\xBF", BAD BAD BAD BAD BAD},
    {"a half of a pair", "\xED\xA0\x80", BAD BAD BAD},
    {"beyond U+10FFFF", "\xF4\x90\x80\x80\xF5", BAD BAD BAD BAD BAD},
    /* the Unicode Standard, table 3-8 */
    {"maximal subparts", "\xF1\x80\x80\x41\xF8\x42", BAD "A" BAD "B"},
};

static void compare(const char *name, const char *in, size_t len, size_t cut, const char *expected)
{
    char out[UTF8OUT_ROOM(64) + 8];
    struct utf8out u = {.n = 0};
    size_t n = utf8out_feed(&u, in, cut, out);
    n += utf8out_feed(&u, in + cut, len - cut, out + n);
    n += utf8out_end(&u, out + n);
    if (n != strlen(expected) || memcmp(out, expected, n) != 0)
        fail_msg("%s, cut at %zu", name, cut);
}

static void characters_come_out_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t cut = 0; cut <= strlen(rows[i].in); cut++)
            compare(rows[i].name, rows[i].in, strlen(rows[i].in), cut, rows[i].out);
}

/* Every moment's output is well-formed, and no more is held than can become a character. */
static void any_bytes_are_well_formed(void **state)
{
    (void)state;
    uint32_t x = 1;
    struct utf8out u = {.n = 0};
    for (int i = 0; i < 300000; i++) {
        static const unsigned char likely[] = {0xE0, 0xA0, 0x80, 0xF0, 0x90, 0xED, 0x9F, 0xC2, 0xF4, 0x8F};
        char out[UTF8OUT_ROOM(1)], in;
        utf8proc_int32_t value;
        x = x * 1664525 + 1013904223;
        unsigned char c = (unsigned char)(x >> 24);
        in = (char)(x & 0x8000 ? likely[c % sizeof likely] : c);
        size_t n = utf8out_feed(&u, &in, 1, out), at = 0;
        while (at < n) {
            utf8proc_ssize_t bytes =
                utf8proc_iterate((const utf8proc_uint8_t *)out + at, (utf8proc_ssize_t)(n - at), &value);
            assert_true(bytes > 0);
            at += (size_t)bytes;
        }
        assert_true(u.need > 0 || n > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_come_out_whole),
        cmocka_unit_test(any_bytes_are_well_formed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
