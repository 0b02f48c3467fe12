/* Who stays, as a table: one letter a checkpoint, newest first. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/retention.h"

#define MOST 8

/* Losses of steps 10*n .. 10, newest first; 0 = not known, negative: incomplete. Stays: n newest, e every, b best in this order, '.' gone. */
static const struct row {
    struct retention_policy policy;
    double losses[MOST];
    size_t n;
    const char *stays;
} rows[] = {
    {{3, 0, 0}, {0}, 6, "n n n . . . "},
    {{1, 0, 0}, {0}, 1, "n "},
    {{5, 0, 0}, {0}, 2, "n n "},
    {{1, 20, 0}, {0}, 6, "ne . e . e . "},
    {{1, 1000, 0}, {0}, 3, "n . . "},
    {{1, 0, 2}, {5, 3, 4, 1, 2, 9}, 6, "n . . b b . "},
    {{1, 0, 1}, {1, 3, 4, 2}, 4, "nb . . . "},
    {{2, 30, 1}, {5, 3, 4, 1, 2, 9}, 6, "ne n . eb . . "},
    {{1, 0, 2}, {5, 2, 2, 2}, 4, "n b b . "},
    {{1, 0, 9}, {0, 0, 4, 0}, 4, "n . b . "},
    {{2, 0, 0}, {-1, 0, -1, 0, -1, 0}, 6, "n n n n . . "},
    {{1, 20, 2}, {-1, 3, -1, -2, 0, 4}, 6, "n nb . . e b "},
    {{3, 10, 3}, {0}, 0, ""},
};

static void test_rows(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct retention_item items[MOST];
        char found[64] = "";
        for (size_t i = 0; i < rows[r].n; i++) {
            double loss = rows[r].losses[i];
            items[i] = (struct retention_item){.step = (int64_t)(10 * (rows[r].n - i)),
                                               .held_loss = loss == 0 ? (double)NAN : fabs(loss),
                                               .complete = loss >= 0};
        }
        retention_decide(&rows[r].policy, items, rows[r].n);
        for (size_t i = 0; i < rows[r].n; i++)
            (void)snprintf(found + strlen(found), sizeof found - strlen(found), "%s%s%s%s ",
                           items[i].stays ? "" : ".", items[i].stays & RETENTION_NEWEST ? "n" : "",
                           items[i].stays & RETENTION_EVERY ? "e" : "",
                           items[i].stays & RETENTION_BEST ? "b" : "");
        if (strcmp(found, rows[r].stays) != 0)
            fail_msg("row %zu: %s, not %s", r, found, rows[r].stays);
    }
}

/* Deciding after each new one, and removing what may go, leaves what deciding once at the end leaves. */
static void test_one_by_one(void **state)
{
    (void)state;
    static const double losses[] = {9, 4, 7, 4, 5, 8, 3, 6, 6, 2, 9, 9, 5, 5, 7};
    enum { N = sizeof losses / sizeof *losses };
    const struct retention_policy policies[] = {{1, 0, 3}, {2, 40, 2}, {4, 0, 4}, {1, 30, 0}};
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        struct retention_item all[N], left[N];
        size_t n = 0, same = 0;
        for (size_t i = 0; i < N; i++) {
            struct retention_item item = {
                .step = (int64_t)(10 * (i + 1)), .held_loss = losses[i], .complete = true};
            all[N - 1 - i] = item;
            memmove(left + 1, left, n++ * sizeof *left);
            left[0] = item;
            retention_decide(&policies[p], left, n);
            size_t stay = 0;
            for (size_t k = 0; k < n; k++)
                if (left[k].stays)
                    left[stay++] = left[k];
            n = stay;
        }
        retention_decide(&policies[p], all, N);
        for (size_t i = 0; i < N; i++)
            if (all[i].stays)
                assert_int_equal(left[same++].step, all[i].step);
        assert_int_equal(same, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_one_by_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
