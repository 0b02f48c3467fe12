/* The nearest word for typing mistakes, and none for words that are simply different. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "schema/suggest.h"

static const char *const words[] = {"in",         "name",   "queue", "priority", "train",
                                    "checkpoint", "warmup", "lr",    "min_lr",   "on"};

static void nearest_word(void **state)
{
    (void)state;
    static const struct {
        const char *word, *expected;
    } rows[] = {
        {"nmae", "name"},
        {"nam", "name"},
        {"Name", "name"},
        {"priorty", "priority"},
        {"chekpoint", "checkpoint"},
        {"warm_up", "warmup"},
        {"rl", "lr"},
        {"trian", "train"},
        {"zebra", NULL},
        {"", NULL},
        {NULL, NULL},
        {"xyzxyzxyzxyz", NULL},
        {"minlr", "min_lr"},
        {"lr", "lr"},
        {"im", "in"},
        {"onn", "on"},
        {"nxxe", NULL}, /* half of the word is no slip */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *got = suggest_nearest(rows[i].word, words, sizeof words / sizeof words[0]);
        if (!rows[i].expected)
            assert_null(got);
        else
            assert_true(got && strcmp(got, rows[i].expected) == 0);
    }
}

static void long_words_cost_nothing(void **state)
{
    (void)state;
    char word[100000];
    memset(word, 'n', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    assert_null(suggest_nearest(word, words, sizeof words / sizeof words[0]));
    word[63] = '\0';
    assert_null(suggest_nearest(word, words, sizeof words / sizeof words[0]));
    assert_null(suggest_nearest("name", words, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearest_word),
        cmocka_unit_test(long_words_cost_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
