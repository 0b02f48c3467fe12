/* args: words, options, durations, and what is said when they are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "launcher/args.h"

static const struct command listing = {
    .name = "status", .args = "[JOB]", .help = "h", .examples = "", .max_words = 1, .listing = true};
static const struct command acting = {
    .name = "submit", .args = "FILE", .help = "h", .examples = "", .min_words = 1, .max_words = 1};

struct got {
    bool watch;
    const char *text;
    int64_t count, time;
    struct args_list set;
    struct args args;
};

static int parse(const struct command *c, const char *line, struct got *g)
{
    static char copy[256];
    char *argv[32], *save = NULL;
    int argc = 0;
    const struct args_option options[] = {
        ARGS_OPTION_FLAG("watch", 'w', &g->watch, ""),
        ARGS_OPTION_TEXT("reason", 'm', &g->text, "TEXT", ""),
        ARGS_OPTION_COUNT("tail", 'n', &g->count, 1, 10, "N", ""),
        ARGS_OPTION_DURATION("deadline", 0, &g->time, "TIME", ""),
        ARGS_OPTION_LIST("set", 0, &g->set, "K=V", ""),
    };
    memset(g, 0, sizeof *g);
    snprintf(copy, sizeof copy, "%s", line);
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
        argv[argc++] = w;
    return args_parse(c, options, sizeof options / sizeof *options, argc, argv, &g->args);
}

static void clear(struct got *g)
{
    args_clear(&g->args);
    free(g->set.items);
}

static void accepts(void **state)
{
    struct got g;
    (void)state;
    assert_int_equal(parse(&listing, "--watch job7 -o json --tail=3 -m why --deadline 1h30m --dir /x", &g),
                     ARGS_GO);
    assert_true(g.watch);
    assert_string_equal(g.args.words[0], "job7");
    assert_int_equal(g.args.output, OUTPUT_JSON);
    assert_int_equal(g.count, 3);
    assert_string_equal(g.text, "why");
    assert_int_equal(g.time, 5400000);
    assert_string_equal(g.args.dir, "/x");
    clear(&g);
    assert_int_equal(parse(&listing, "-wz -owide", &g), CLI_USAGE);
    clear(&g);
    assert_int_equal(parse(&listing, "-wowide", &g), ARGS_GO);
    assert_true(g.watch && g.args.output == OUTPUT_WIDE);
    clear(&g);
    assert_int_equal(parse(&acting, "--set a=1 f.yaml --set=b=2", &g), ARGS_GO);
    assert_int_equal(g.set.count, 2);
    assert_string_equal(g.set.items[1], "b=2");
    clear(&g);
    assert_int_equal(parse(&acting, "-- --watch", &g), ARGS_GO);
    assert_string_equal(g.args.words[0], "--watch");
    assert_false(g.watch);
    clear(&g);
    assert_int_equal(parse(&acting, "-", &g), ARGS_GO);
    assert_string_equal(g.args.words[0], "-");
    clear(&g);
}

static void refuses(void **state)
{
    static const struct {
        const struct command *command;
        const char *line;
    } rows[] = {
        {&listing, "a b"},       {&acting, ""},
        {&listing, "--wach"},    {&listing, "--tail 0"},
        {&listing, "--tail 11"}, {&listing, "--tail 2x"},
        {&listing, "--tail"},    {&listing, "--watch=yes"},
        {&listing, "-z"},        {&listing, "-o xml"},
        {&acting, "f -o json"},  {&listing, "--deadline 30"},
        {&listing, "--dir="},    {&listing, "--tail 99999999999999999999"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct got g;
        int rc = parse(rows[i].command, rows[i].line, &g);
        clear(&g);
        if (rc != CLI_USAGE)
            fail_msg("\"%s\" gave %d", rows[i].line, rc);
    }
}

static void durations(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {{"30m", 1800000},  {"1h30m", 5400000}, {"45s", 45000}, {"2d", 172800000},
                {"500ms", 500},    {"1m1ms", 60001},   {"", -1},       {"30", -1},
                {"m", -1},         {"-5s", -1},        {"5 s", -1},    {"5y", -1},
                {"99999999d", -1}, {"3700d", -1},      {"0s", 0},      {"1.5h", -1}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (args_duration_ms(rows[i].text) != rows[i].ms)
            fail_msg("\"%s\" gave %lld", rows[i].text, (long long)args_duration_ms(rows[i].text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(accepts), cmocka_unit_test(refuses),
                                       cmocka_unit_test(durations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
