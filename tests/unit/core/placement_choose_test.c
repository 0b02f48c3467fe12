/* Which parts of a domain are taken, by hand. Parts are written as their room, with "u" when partly used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/core/placement_choose.h"

enum { PARTS = 8 };
enum what { FEWEST, FEWEST_ADJACENT, USED, RUNS, ALIGN };

struct row {
    const char *name;
    enum what what;
    const char *parts; /* of ALIGN: room/taken */
    int64_t need;      /* of RUNS: groups */
    int64_t width;     /* of RUNS: blocks of a group; of ALIGN: the step */
    const char *wanted;
};

static const struct row rows[] = {
    {"the largest, and of the last what is missing", FEWEST, "3u 9u 5u", 13, 0, "0 9 4"},
    {"the last is the smallest that suffices", FEWEST, "9u 8u 4u 3u", 12, 0, "9 0 0 3"},
    {"of those alike the first", FEWEST, "4u 9u 4u 4u", 12, 0, "3 9 0 0"},
    {"as few parts, then as few whole ones", FEWEST, "9 6u 6u 9", 12, 0, "0 6 6 0"},
    {"not one part more for a whole one", FEWEST, "9 5u 4u 9", 17, 0, "9 0 0 8"},
    {"a whole one where the used ones are too small", FEWEST, "9 2u 3u 9", 11, 0, "9 2 0 0"},
    {"parts without room stay out", FEWEST, "0u 3u 0 3u", 5, 0, "0 3 0 2"},
    {"neighbours where as many of them do", FEWEST_ADJACENT, "5u 1u 3u 4u", 7, 0, "0 0 3 4"},
    {"not when they would break up a whole one", FEWEST_ADJACENT, "5u 3 4u 1u", 7, 0, "5 0 2 0"},
    {"used ones first, even if they are more", USED, "9 2u 3u 4u", 9, 0, "0 2 3 4"},
    {"then as few whole ones", USED, "9 2u 9 4u", 14, 0, "9 1 0 4"},
    {"only as many used ones as are missing", USED, "9 2u 4u 6u", 15, 0, "9 0 0 6"},
    {"the shortest run", RUNS, "2u 1u 2u 3u", 1, 4, "0 0 2 2"},
    {"one run after the other", RUNS, "2 2 2 2", 2, 4, "2 2 2 2"},
    {"around what is taken", RUNS, "2 0u 2 2", 1, 4, "0 0 2 2"},
    {"used parts rather than whole ones", RUNS, "4 4 4u 4u", 1, 6, "0 0 4 2"},
    {"all of it when it must be", RUNS, "1u 0u 1u 2u", 2, 2, "1 0 1 2"},
    {"groups stay whole", ALIGN, "7/7 9/5 4/0", 0, 4, "4 8 0"},
    {"as far as there is room", ALIGN, "7/7 8/8", 0, 4, "7 8"},
    {"as far as the last needs it", ALIGN, "6/6 6/5", 0, 4, "6 5"},
};

static size_t parse(const char *text, struct choose_part *parts)
{
    size_t n = 0;
    for (const char *p = text; *p;) {
        char *end;
        parts[n] = (struct choose_part){strtol(p, &end, 10), 0, true};
        if (*end == 'u') {
            parts[n].whole = false;
            end++;
        } else if (*end == '/') {
            parts[n].taken = strtol(end + 1, &end, 10);
        }
        n++;
        p = *end == ' ' ? end + 1 : end;
    }
    return n;
}

static void choose(const struct row *r, struct choose_part *parts, size_t n)
{
    switch (r->what) {
    case FEWEST:
    case FEWEST_ADJACENT:
        choose_parts(parts, n, r->need, CHOOSE_FEWEST, r->what == FEWEST_ADJACENT);
        break;
    case USED:
        choose_parts(parts, n, r->need, CHOOSE_USED, false);
        break;
    case RUNS:
        choose_runs(parts, n, r->need, r->width);
        break;
    case ALIGN:
        choose_align(parts, n, &r->width, 1);
        break;
    }
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct choose_part parts[PARTS];
        char got[128] = "";
        size_t n = parse(rows[i].parts, parts), len = 0;
        choose(&rows[i], parts, n);
        for (size_t k = 0; k < n; k++)
            len += (size_t)snprintf(got + len, sizeof(got) - len, "%s%lld", k ? " " : "",
                                    (long long)parts[k].taken);
        if (strcmp(got, rows[i].wanted) != 0)
            fail_msg("%s: %s instead of %s", rows[i].name, got, rows[i].wanted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests_name("core placement choose", tests, NULL, NULL);
}
