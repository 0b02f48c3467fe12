#include "tests/unit/scratch.h"

#include "runtime/data/order.h"

/* Each epoch visits every sequence exactly once, and two epochs differ in order. */
static void each_epoch_is_a_permutation(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 549, 1000, 65537};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t n = sizes[i], same = 0;
        char *seen = calloc(n, 1);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            for (uint64_t k = 0; k < n; k++) {
                uint64_t pick = order_pick(n, 7, epoch * n + k);
                assert_true(pick < n);
                assert_int_equal(seen[pick], epoch);
                seen[pick]++;
                same += epoch > 0 && pick == order_pick(n, 7, k);
            }
        }
        if (n > 100)
            assert_true(same < n / 10);
        free(seen);
    }
}

/* Neighbouring samples are not neighbouring sequences, and the seed matters. */
static void neighbours_are_spread(void **state)
{
    (void)state;
    uint64_t n = 100000, near = 0, equal = 0;
    double sum = 0;
    for (uint64_t k = 0; k + 1 < n; k++) {
        uint64_t a = order_pick(n, 1, k), b = order_pick(n, 1, k + 1);
        near += a + 1 == b || b + 1 == a;
        equal += a == order_pick(n, 2, k);
        if (k < n / 10)
            sum += (double)a;
    }
    assert_true(near < 20);  /* 2 expected */
    assert_true(equal < 20); /* 1 expected */
    double mean = sum / (double)(n / 10) / (double)n;
    assert_true(mean > 0.48 && mean < 0.52);
    uint64_t huge = 1ULL << 61;
    assert_true(order_pick(huge, 3, huge - 1) < huge);
}

/* What runs of earlier versions did, so that they resume in the same order. */
static void the_order_never_changes(void **state)
{
    (void)state;
    static const uint64_t expected[] = {351, 350, 673, 77, 764, 651};
    for (uint64_t k = 0; k < sizeof expected / sizeof *expected; k++)
        assert_int_equal(order_pick(1000, 1337, 997 + k), expected[k]);
}

struct mixture {
    const char *name;
    double weights[8];
    size_t n;
};
static const struct mixture mixtures[] = {
    {"alone", {3}, 1},
    {"halves", {1, 1}, 2},
    {"nine to one", {0.9, 0.1}, 2},
    {"thirds", {1, 1, 1}, 3},
    {"odd ones", {0.5, 0.3, 0.15, 0.04, 0.01}, 5},
    {"a rare one", {1, 1e-9}, 2},
    {"eight", {8, 7, 6, 5, 4, 3, 2, 1}, 8},
};

/* At every point each corpus has had its share to within half a sample a halving, and its samples are numbered without gaps. */
static void mixtures_keep_their_proportions(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof mixtures / sizeof *mixtures; m++) {
        const struct mixture *x = &mixtures[m];
        uint64_t units[8], had[8] = {0};
        double sum = 0, bound = x->n > 4 ? 1.5 : x->n > 2 ? 1 : x->n > 1 ? 0.5 : 0;
        for (size_t i = 0; i < x->n; i++)
            sum += x->weights[i];
        order_units(x->weights, x->n, units);
        for (uint64_t k = 0; k < 20000; k++) {
            struct order_place place = order_mix(units, x->n, k);
            assert_true(place.corpus < x->n);
            assert_int_equal(place.index, had[place.corpus]++);
            for (size_t i = 0; i < x->n; i++) {
                double off = (double)had[i] - x->weights[i] / sum * (double)(k + 1);
                if (off > bound + 1e-6 || off < -bound - 1e-6)
                    fail_msg("%s: corpus %zu is off by %g after %d samples", x->name, i, off, (int)k + 1);
            }
        }
    }
}

/* Far out, where counts no longer fit in a double: still without gaps. */
static void mixtures_hold_at_huge_counts(void **state)
{
    (void)state;
    uint64_t units[3], start = (1ULL << 62) + 12345, next[3] = {0};
    int seen[3] = {0};
    order_units((double[]){5, 3, 2}, 3, units);
    for (uint64_t k = start; k < start + 1000; k++) {
        struct order_place place = order_mix(units, 3, k);
        assert_true(!seen[place.corpus] || place.index == next[place.corpus]);
        next[place.corpus] = place.index + 1;
        seen[place.corpus]++;
    }
    assert_in_range(seen[0], 499, 501);
    assert_in_range(seen[1], 299, 301);
    assert_in_range(seen[2], 199, 201);
}

/* With sizes as units, all that there is comes exactly once. */
static void sizes_as_units_give_each_once(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {17, 1, 300, 4, 4};
    uint64_t had[5] = {0};
    for (uint64_t k = 0; k < 17 + 1 + 300 + 4 + 4; k++) {
        struct order_place place = order_mix(sizes, 5, k);
        assert_int_equal(place.index, had[place.corpus]++);
    }
    assert_memory_equal(had, sizes, sizeof had);
}

static void each_corpus_has_its_own_seed(void **state)
{
    (void)state;
    assert_int_equal(order_seed(99, 0), 99);
    for (size_t i = 1; i < 100; i++)
        for (size_t j = 0; j < i; j++)
            assert_true(order_seed(99, i) != order_seed(99, j));
    assert_true(order_seed(98, 1) != order_seed(99, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_epoch_is_a_permutation),  cmocka_unit_test(neighbours_are_spread),
        cmocka_unit_test(the_order_never_changes),      cmocka_unit_test(mixtures_keep_their_proportions),
        cmocka_unit_test(mixtures_hold_at_huge_counts), cmocka_unit_test(sizes_as_units_give_each_once),
        cmocka_unit_test(each_corpus_has_its_own_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
