/* Allocation, conversion and the element-wise functions; sums must not depend on the number of threads. */
#include <omp.h>
#include <stdint.h>

#include "kernels/cpu/budget.h"
#include "tests/unit/kernels/near.h"

static const size_t counts[] = {0, 1, 15, 16, 17, 255, 4096, 16385, 100003, 1 << 20};

static void check_alloc(const struct kernels *k)
{
    for (size_t i = 0; i < COUNT(counts); i++) {
        char *x = k->alloc(counts[i]);
        assert_non_null(x);
        assert_true((uintptr_t)x % 64 == 0);
        for (size_t j = 0; j < counts[i]; j++)
            assert_true(x[j] == 0);
        k->free(x);
    }
    k->free(NULL);
    assert_null(k->alloc(SIZE_MAX / 4));
    assert_null(k->alloc(SIZE_MAX));
}
TYPED_TEST(arrays_are_aligned_and_zero, check_alloc)

/* Nothing as large as the host is really allocated here: that would fill it. */
static void check_budget(const struct kernels *k)
{
    size_t whole = budget_whole(), some = (size_t)1 << 20;
    assert_true(budget_take(whole)); /* nothing is held at this point */
    assert_false(budget_take(1));
    assert_null(k->alloc(1));
    budget_give(whole);
    void *held = k->alloc(some);
    assert_non_null(held);
    assert_false(budget_take(whole - some / 2)); /* both together are more than there is */
    k->free(held);
    assert_true(budget_take(whole)); /* all of it is back */
    budget_give(whole);
    assert_false(budget_take(SIZE_MAX));
}
TYPED_TEST(arrays_together_are_no_more_than_the_host, check_budget)

static void check_bytes(const struct kernels *k)
{
    void (*const copies[])(void *, const void *, size_t) = {k->copy, k->to_host, k->from_host};
    for (size_t i = 0; i < COUNT(counts); i++) {
        size_t n = counts[i];
        char *a = malloc(n + 1), *out = calloc(n + 1, 1);
        for (size_t j = 0; j <= n; j++)
            a[j] = (char)lrand48();
        for (size_t c = 0; c < COUNT(copies); c++) {
            memset(out, 0x55, n + 1);
            copies[c](out, a, n);
            k->sync();
            assert_memory_equal(out, a, n);
            assert_true(out[n] == 0x55);
        }
        k->zero(out, n);
        for (size_t j = 0; j < n; j++)
            assert_true(out[j] == 0);
        assert_true(out[n] == 0x55);
        FREE(a, out);
    }
}
TYPED_TEST(bytes_are_copied_and_zeroed, check_bytes)

static void check_rows(const struct kernels *k)
{
    static const size_t shapes[][4] = {
        {0, 3, 8, 9}, {1, 1, 1, 1}, {5, 7, 10, 7}, {300, 401, 401, 500}}; /* rows, bytes, strides */
    for (size_t i = 0; i < COUNT(shapes); i++) {
        const size_t *s = shapes[i], room = s[0] * (s[2] + s[3]) + 1;
        char *x = malloc(room), *out = calloc(room, 1);
        for (size_t j = 0; j < room; j++)
            x[j] = (char)(1 + lrand48() % 100);
        k->copy_rows(out, s[2], x, s[3], s[0], s[1]);
        for (size_t j = 0; j < s[0] * s[2]; j++)
            assert_true(out[j] == (j % s[2] < s[1] ? x[j / s[2] * s[3] + j % s[2]] : 0));
        FREE(x, out);
    }
}
TYPED_TEST(rows_of_bytes_are_copied, check_rows)

static void check_element_wise(const struct kernels *k)
{
    for (size_t i = 0; i < COUNT(counts); i++) {
        size_t n = counts[i];
        real *a = random_new(n + 1, 1), *b = random_new(n + 1, 1), *out = copy_new(a, (n + 1) * sizeof *a);
        act *x = act_random(k, n + 1, 1), *y = act_random(k, n + 1, 1), *sum = act_copy(k, x, n + 1);
        k->add_real(out, b, n);
        k->add(sum, y, n);
        for (size_t j = 0; j < n; j++) {
            assert_true(out[j] == a[j] + b[j]);
            expect_act(k, sum, j, value(k, x, j) + value(k, y, j), 1, 1e-7, "sum");
        }
        k->scale_real(out, (real)0.3, n);
        for (size_t j = 0; j < n; j++)
            assert_true(out[j] == (a[j] + b[j]) * (real)0.3);
        assert_true(out[n] == a[n] && value(k, sum, n) == value(k, x, n));
        FREE(a, b, out, x, y, sum);
    }
}
TYPED_TEST(element_wise_functions_reach_every_element, check_element_wise)

/* float -> the bits of bf16: to nearest, ties to even, up to Inf, subnormals, and NaN that would become Inf by cutting. */
static void bf16_is_rounded_to_nearest_even(void **state)
{
    (void)state;
    static const struct {
        uint32_t in;
        uint16_t out;
    } cases[] = {{0x3F800000, 0x3F80}, {0x3F808000, 0x3F80}, {0x3F808001, 0x3F81}, {0x3F818000, 0x3F82},
                 {0x3F817FFF, 0x3F81}, {0xBF818000, 0xBF82}, {0x7F7FFFFF, 0x7F80}, {0xFF7F8000, 0xFF80},
                 {0x7F7F7FFF, 0x7F7F}, {0x7F800000, 0x7F80}, {0xFF800000, 0xFF80}, {0x00000000, 0x0000},
                 {0x80000000, 0x8000}, {0x00008000, 0x0000}, {0x00008001, 0x0001}, {0x00018000, 0x0002},
                 {0x7FC00000, 0x7FC0}, {0x7F800001, 0x7FC0}, {0xFF80FFFF, 0xFFC0}, {0x7FFFFFFF, 0x7FFF}};
    const struct kernels *k = table_of(KERNEL_BF16);
    for (size_t i = 0; i < 40 * COUNT(cases); i++) { /* in vectors and alone */
        float in[40];
        uint16_t out[40];
        size_t n = 1 + i / COUNT(cases);
        for (size_t j = 0; j < n; j++)
            memcpy(&in[j], &cases[(i + j) % COUNT(cases)].in, sizeof in[j]);
        k->act_from_real((act *)out, in, n);
        for (size_t j = 0; j < n; j++)
            assert_int_equal(out[j], cases[(i + j) % COUNT(cases)].out);
    }
}

static void every_bf16_survives_the_way_to_float_and_back(void **state)
{
    (void)state;
    const struct kernels *k = table_of(KERNEL_BF16);
    uint16_t *x = malloc(65536 * sizeof *x), *back = malloc(65536 * sizeof *back);
    float *wide = malloc(65536 * sizeof *wide);
    for (size_t i = 0; i < 65536; i++)
        x[i] = (uint16_t)i;
    k->real_from_act(wide, (const act *)x, 65536);
    k->act_from_real((act *)back, wide, 65536);
    for (size_t i = 0; i < 65536; i++) {
        bool signalling = (i & 0x7FFF) > 0x7F80 && !(i & 0x40);
        assert_int_equal(back[i], signalling ? i | 0x40 : i);
    }
    FREE(x, back, wide);
}

static double squares_of(const struct kernels *k, const real *x, size_t n)
{
    double sum = 0;
    k->sum_of_squares(&sum, x, n);
    return sum;
}

static void check_sums(const struct kernels *k)
{
    int threads = omp_get_max_threads();
    for (size_t i = 0; i < COUNT(counts); i++) {
        size_t n = counts[i];
        real *x = random_new(n, 1);
        double expected = 0;
        for (size_t j = 0; j < n; j++)
            expected += (double)x[j] * (double)x[j];
        omp_set_num_threads(1);
        double one = squares_of(k, x, n);
        assert_true(fabs(one - expected) <= 1e-12 * expected);
        for (int t = 2; t <= 5; t++) {
            omp_set_num_threads(t);
            assert_true(squares_of(k, x, n) == one);
        }
        free(x);
    }
    omp_set_num_threads(threads);
}
TYPED_TEST(sum_of_squares_is_the_same_for_every_thread_count, check_sums)

static void check_broken(const struct kernels *k)
{
    static const real broken[] = {NAN, INFINITY, -INFINITY};
    size_t n = 20001;
    real *x = random_new(n, 3e38);
    assert_true(k->all_finite(x, n) && k->all_finite(x, 0));
    for (size_t at = 0; at < n; at += at < 40 || at > n - 40 ? 1 : 997) {
        real kept = x[at];
        x[at] = broken[at % 3];
        assert_false(k->all_finite(x, n));
        assert_false(isfinite(squares_of(k, x, n)));
        x[at] = kept;
    }
    free(x);
}
TYPED_TEST(broken_numbers_are_found_anywhere, check_broken)

static void check_accounts(const struct kernels *k)
{
    struct kernel_memory before, during, after;
    size_t some = (size_t)3 << 20;
    k->memory(&before);
    void *x = k->alloc(some);
    k->memory(&during);
    k->free(x);
    k->memory(&after);
    assert_true(during.held >= before.held + some && during.held < before.held + 2 * some);
    assert_true(during.peak >= during.held && after.peak == during.peak);
    assert_true(after.held == before.held && after.device == budget_whole());
}
TYPED_TEST(memory_is_counted, check_accounts)

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9;
    x ^= x >> 27;
    x *= 0x94D049BB133111EB;
    x ^= x >> 31;
    return x;
}

/* The formula of kernels.h, by its letters, byte by byte. */
static void check_hash(const struct kernels *k)
{
    for (size_t c = 0; c < COUNT(counts); c++) {
        size_t n = counts[c];
        unsigned char *x = malloc(n + 1);
        uint64_t sum = 0, word = 0;
        for (size_t i = 0; i < n; i++) {
            x[i] = (unsigned char)lrand48();
            word |= (uint64_t)x[i] << 8 * (i % 8);
            if (i % 8 == 7 || i + 1 == n) {
                sum += mix(word ^ mix(i / 8 + 0x9E3779B97F4A7C15));
                word = 0;
            }
        }
        assert_true(k->hash(x, n) == sum);
        free(x);
    }
}
TYPED_TEST(hash_follows_the_formula, check_hash)

static void count(void *owner)
{
    ++*(int *)owner;
}

static void check_repeat(const struct kernels *k)
{
    int calls = 0;
    k->doing("number %lld", 1, 2);
    k->repeat(1, count, &calls);
    k->repeat(1, count, &calls);
    k->forget();
    k->repeat(1, count, &calls);
    assert_int_equal(calls, 3);
}
TYPED_TEST(what_is_repeated_is_done_each_time, check_repeat)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_are_aligned_and_zero),
        cmocka_unit_test(arrays_together_are_no_more_than_the_host),
        cmocka_unit_test(bytes_are_copied_and_zeroed),
        cmocka_unit_test(rows_of_bytes_are_copied),
        cmocka_unit_test(element_wise_functions_reach_every_element),
        cmocka_unit_test(bf16_is_rounded_to_nearest_even),
        cmocka_unit_test(every_bf16_survives_the_way_to_float_and_back),
        cmocka_unit_test(sum_of_squares_is_the_same_for_every_thread_count),
        cmocka_unit_test(broken_numbers_are_found_anywhere),
        cmocka_unit_test(memory_is_counted),
        cmocka_unit_test(hash_follows_the_formula),
        cmocka_unit_test(what_is_repeated_is_done_each_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
