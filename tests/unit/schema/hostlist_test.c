/* Host lists: what they expand to, and the sentence for each way of writing one wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schema/hostlist.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static char *joined(const struct hostlist *list)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    for (size_t i = 0; i < list->n; i++)
        (void)fprintf(out, "%s%s", i ? " " : "", list->names[i]);
    (void)fclose(out);
    return text;
}

static void lists_expand(void **state)
{
    (void)state;
    static const struct {
        const char *list, *names;
    } rows[] = {
        {"head", "head"},
        {"gpu[1-3]", "gpu1 gpu2 gpu3"},
        {"gpu[008-011]", "gpu008 gpu009 gpu010 gpu011"},
        {"gpu[8-11]", "gpu8 gpu9 gpu10 gpu11"},
        {"gpu[098-101]", "gpu098 gpu099 gpu100 gpu101"},
        {"a[1-3,7]b", "a1b a2b a3b a7b"},
        {"a[01,3]", "a01 a3"},
        {"a[0-1]", "a0 a1"},
        {"a[00-01]", "a00 a01"},
        {"r[1-2]n[1-3]", "r1n1 r1n2 r1n3 r2n1 r2n2 r2n3"},
        {"head, gpu[1-2] ,tail", "head gpu1 gpu2 tail"},
        {"  head  ", "head"},
        {"[1-2]x", "1x 2x"},
        {"a,a", "a a"},
        {"n[5]", "n5"},
        {"a.b_c-[1-2].rack", "a.b_c-1.rack a.b_c-2.rack"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct hostlist list;
        struct err err;
        if (hostlist_expand(rows[i].list, 100, &list, &err) < 0)
            fail_msg("%s: %s", rows[i].list, err.text);
        char *names = joined(&list);
        assert_string_equal(names, rows[i].names);
        free(names);
        hostlist_clear(&list);
    }
}

static void wrong_lists_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *list, *why;
    } rows[] = {
        {"", "has an empty name; is there a comma too many?"},
        {"a,,b", "has an empty name; is there a comma too many?"},
        {"a,", "has an empty name; is there a comma too many?"},
        {"gpu[1-3", "\"gpu[1-3\" has a bracket that is not closed; add \"]\""},
        {"gpu1-3]", "\"gpu1-3]\" has a \"]\" without a \"[\" before it"},
        {"gpu[]", "\"gpu[]\" needs numbers within its brackets, such as [1-8] or [1,3,5-7]"},
        {"gpu[a-b]", "\"gpu[a-b]\" needs numbers within its brackets, such as [1-8] or [1,3,5-7]"},
        {"gpu[1,]", "\"gpu[1,]\" needs numbers within its brackets, such as [1-8] or [1,3,5-7]"},
        {"gpu[1:3]", "\"gpu[1:3]\" has something else than numbers, \"-\" and \",\" in its brackets"},
        {"x,gpu[384-1]", "\"gpu[384-1]\" has a range that runs backwards; write [1-384]"},
        {"gpu[01-0x]", "\"gpu[01-0x]\" has something else than numbers, \"-\" and \",\" in its brackets"},
        {"gpu[5x-1]", "\"gpu[5x-1]\" has something else than numbers, \"-\" and \",\" in its brackets"},
        {"gpu[5-1", "\"gpu[5-1\" has a bracket that is not closed; add \"]\""},
        {"gpu[001-10]", "\"gpu[001-10]\" has a range whose ends differ in leading zeros; give both the same "
                        "number of digits"},
        {"gpu[1-010]", "\"gpu[1-010]\" has a range whose ends differ in leading zeros; give both the same "
                       "number of digits"},
        {"gpu[1-1234567890123456]",
         "\"gpu[1-1234567890123456]\" has a number of 16 digits; at most 15 are allowed"},
        {"gpu[1-101]", "\"gpu[1-101]\" makes it more than 100 names, which is the most allowed here"},
        {"a,gpu[1-100]", "\"gpu[1-100]\" makes it more than 100 names, which is the most allowed here"},
        {"a[1-999999999999999]b[1-999999999999999]",
         "\"a[1-999999999999999]b[1-999999999999999]\" makes it more than 100 names, which is the most "
         "allowed here"},
        {"gpu 1", "\"gpu 1\" has a space within; names have only letters, digits, \".\", \"_\" and \"-\", "
                  "with numbers in [brackets] and commas between names"},
        {"g\xc3\xa9", "\"g\xc3\xa9\" has a character that names cannot have; names have only letters, "
                      "digits, \".\", \"_\" and \"-\", with numbers in [brackets] and commas between names"},
        {"-x", "\"-x\" must begin with a letter or digit"},
        {"a[1][1][1][1][1][1][1][1][1]", "\"a[1][1][1][1][1][1][1][1][1]\" has more than 8 brackets"},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa[1]",
         "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa[1]\" is a name of 64 bytes; at "
         "most 63 are allowed"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct hostlist list;
        struct err err;
        if (hostlist_expand(rows[i].list, 100, &list, &err) == 0)
            fail_msg("%s was accepted", rows[i].list);
        assert_string_equal(err.text, rows[i].why);
        assert_int_equal(list.n, 0);
        assert_null(list.names);
    }
}

static void names_are_recognised(void **state)
{
    (void)state;
    assert_true(hostlist_is_name("gpu-1.rack_2"));
    assert_false(hostlist_is_name(""));
    assert_false(hostlist_is_name("a,b"));
    assert_false(hostlist_is_name("gpu[1]"));
    assert_false(hostlist_is_name("_a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_expand),
        cmocka_unit_test(wrong_lists_are_refused),
        cmocka_unit_test(names_are_recognised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
