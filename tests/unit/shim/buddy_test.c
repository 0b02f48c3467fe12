/* buddy: who holds whose images. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/shim/buddy.h"

#define NODES_MAX 64

static void test_small(void **state)
{
    (void)state;
    const char *one[] = {"r0"}, *two[] = {"", ""}, *apart[] = {"r0", "r1"};
    assert_int_equal(buddy_of(one, 1, 0), -1);
    assert_int_equal(buddy_of(two, 2, 0), 1);
    assert_int_equal(buddy_of(two, 2, 1), 0);
    assert_int_equal(buddy_of(apart, 2, 0), 1);
    assert_int_equal(buddy_of(apart, 2, 1), 0);
}

static void test_one_rack_is_a_ring(void **state)
{
    (void)state;
    const char *rack[] = {"r", "r", "r", "r", "r"};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(buddy_of(rack, 5, i), (i + 1) % 5);
}

/* Every node is the buddy of exactly one other, and never of itself; how many have theirs in another rack. */
static size_t check(const char *const *domains, size_t n)
{
    size_t of[NODES_MAX] = {0}, other = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t b = buddy_of(domains, n, i);
        assert_in_range(b, 0, n - 1);
        assert_int_not_equal(b, i);
        of[b]++;
        other += strcmp(domains[b], domains[i]) != 0;
    }
    for (size_t i = 0; i < n; i++)
        assert_int_equal(of[i], 1);
    return other;
}

static void test_racks(void **state)
{
    (void)state;
    static const struct {
        const char *what; /* one letter a node: its rack; '-' = not known */
        size_t other;     /* how many have their buddy in another rack */
    } rows[] = {
        {"aabb", 4}, {"abab", 4},        {"aaabbb", 6},      {"abcabcabc", 9}, {"aabbc", 5},
        {"abc", 3},  {"aaabb", 4},       {"aaab", 2},        {"aab", 2},       {"a-b-", 4},
        {"--", 0},   {"abbbbbbbbbb", 2}, {"aaaaabbccd", 10},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char names[NODES_MAX][2] = {{0}};
        const char *domains[NODES_MAX];
        size_t n = strlen(rows[r].what);
        for (size_t i = 0; i < n; i++) {
            names[i][0] = rows[r].what[i] == '-' ? '\0' : rows[r].what[i];
            domains[i] = names[i];
        }
        if (check(domains, n) != rows[r].other)
            fail_msg("%s: %zu have their buddy in another rack, not %zu", rows[r].what, check(domains, n),
                     rows[r].other);
    }
}

/* All splits of up to three racks: as many in another rack as there can be when each is the buddy of one. */
static void test_every_split(void **state)
{
    (void)state;
    for (size_t a = 0; a <= 12; a++)
        for (size_t b = 0; b <= 12; b++)
            for (size_t c = 0; c <= 12; c++) {
                const char *domains[NODES_MAX];
                size_t n = a + b + c, largest = a > b ? a : b;
                largest = largest > c ? largest : c;
                if (n < 2)
                    continue;
                for (size_t i = 0; i < n; i++)
                    domains[i] = i < a ? "x" : i < a + b ? "y" : "z";
                size_t can = 2 * largest <= n ? n : 2 * (n - largest);
                assert_int_equal(check(domains, n), can);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_small),
                                       cmocka_unit_test(test_one_rack_is_a_ring),
                                       cmocka_unit_test(test_racks), cmocka_unit_test(test_every_split)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
