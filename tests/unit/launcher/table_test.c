/* table and text: widths, alignment, cuts, and nothing that a terminal would obey. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "launcher/table.h"
#include "launcher/text.h"

static const struct table_column columns[] = {
    {"ID", true, false}, {"NAME", false, false}, {"MORE", true, true}, {"INFO", false, false}};

static struct table *sample(bool wide)
{
    struct table *t = table_new(columns, 4, wide);
    table_cell(t, COLOUR_NONE, "%d", 7);
    table_cell(t, COLOUR_GREEN, "%s", "größe");
    table_cell(t, COLOUR_NONE, "%s", "m");
    table_cell(t, COLOUR_NONE, "%s", "a long sentence");
    table_cell(t, COLOUR_NONE, "%d", 1234);
    table_cell(t, COLOUR_NONE, "%s", "日本");
    table_cell(t, COLOUR_NONE, "%s", "n");
    table_cell(t, COLOUR_NONE, "%s", "");
    return t;
}

static void prints(bool wide, size_t width, bool colours, const char *expected)
{
    char *got = NULL;
    size_t len = 0;
    struct table *t = sample(wide);
    FILE *f = open_memstream(&got, &len);
    table_print(t, f, width, colours);
    fclose(f);
    assert_string_equal(got, expected);
    free(got);
    table_free(t);
}

static void layout(void **state)
{
    (void)state;
    prints(false, 0, false, "  ID  NAME   INFO\n   7  größe  a long sentence\n1234  日本   -\n");
    prints(true, 0, false,
           "  ID  NAME   MORE  INFO\n   7  größe     m  a long sentence\n1234  日本      n  -\n");
    prints(false, 18, false, "  ID  NAME   INFO\n   7  größe  a lo…\n1234  日本   -\n");
    prints(false, 8, false, "  ID  N…\n   7  g…\n1234  …\n");
    prints(false, 13, false, "  ID  NAME  …\n   7  größe …\n1234  日本  …\n"); /* cut between columns */
    prints(false, 6, false, "  ID …\n   7 …\n1234 …\n");
    prints(false, 4, false, "  I…\n   …\n123…\n");
    prints(false, 0, true,
           "  \033[1mID\033[0m  \033[1mNAME\033[0m   \033[1mINFO\033[0m\n   7  \033[32mgröße\033[0m  a long "
           "sentence\n1234  "
           "日本   -\n");
}

static void rows_line_up(void **state)
{
    const size_t widths[] = {6, 3, 1, 1};
    char *got = NULL;
    size_t len = 0;
    (void)state;
    struct table *t = sample(false);
    FILE *f = open_memstream(&got, &len);
    table_print_rows(t, f, widths, 0, false);
    fclose(f);
    assert_string_equal(got, "     7  größe  a long sentence\n  1234  日本   -\n");
    free(got);
    table_free(t);
}

static void cleans(void **state)
{
    static const struct {
        const char *raw, *clean;
    } rows[] = {{"plain", "plain"},
                {"two\nlines\t", "two lines "},
                {"\033[31mred\a", "?[31mred?"},
                {"bad \xff\xc3", "bad ??"},
                {"größe 日本", "größe 日本"},
                {"\xc2\x9b"
                 "31m",
                 "?31m"}}; /* C1 control */
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *clean = text_clean(rows[i].raw);
        assert_string_equal(clean, rows[i].clean);
        free(clean);
    }
    assert_int_equal(text_width("größe"), 5);
    assert_int_equal(text_width("日本"), 4);
    assert_int_equal(text_width("e\xcc\x81"), 1); /* combining accent */
    assert_int_equal(text_prefix("日本", 3), 3);
    assert_int_equal(text_prefix("größe", 3), 4);
    assert_int_equal(text_prefix("abc", 9), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(layout), cmocka_unit_test(rows_line_up),
                                       cmocka_unit_test(cleans)};
    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
