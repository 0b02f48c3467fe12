/* Allocation and the element-wise functions; sums must not depend on the number of threads. */
#include <omp.h>
#include <stdint.h>

#include "tests/unit/kernels/near.h"

static const size_t counts[] = {0, 1, 15, 16, 17, 255, 4096, 16385, 100003, 1 << 20};

static void arrays_are_aligned_and_zero(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(counts); i++) {
        float *x = kernel_alloc(counts[i]);
        assert_non_null(x);
        assert_true((uintptr_t)x % 64 == 0);
        for (size_t j = 0; j < counts[i]; j++)
            assert_true(x[j] == 0);
        kernel_free(x);
    }
    kernel_free(NULL);
    assert_null(kernel_alloc(SIZE_MAX / 4));
    assert_null(kernel_alloc(SIZE_MAX));
}

static void element_wise_functions_reach_every_element(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(counts); i++) {
        size_t n = counts[i];
        float *a = random_new(n + 1, 1), *out = random_new(n + 1, 1);
        float guard = out[n];
        kernel_copy(out, a, n);
        assert_memory_equal(out, a, n * sizeof *a);
        kernel_zero(out, n);
        for (size_t j = 0; j < n; j++)
            assert_true(out[j] == 0);
        assert_true(out[n] == guard);
        free(a);
        free(out);
    }
}

static void sum_of_squares_is_the_same_for_every_thread_count(void **state)
{
    (void)state;
    int threads = omp_get_max_threads();
    for (size_t i = 0; i < COUNT(counts); i++) {
        size_t n = counts[i];
        float *x = random_new(n, 1);
        double expected = 0;
        for (size_t j = 0; j < n; j++)
            expected += (double)x[j] * (double)x[j];
        omp_set_num_threads(1);
        double one = kernel_sum_of_squares(x, n);
        assert_true(fabs(one - expected) <= 1e-12 * expected);
        for (int t = 2; t <= 5; t++) {
            omp_set_num_threads(t);
            assert_true(kernel_sum_of_squares(x, n) == one);
        }
        free(x);
    }
    omp_set_num_threads(threads);
}

static void broken_numbers_are_found_anywhere(void **state)
{
    (void)state;
    static const float broken[] = {NAN, INFINITY, -INFINITY};
    size_t n = 20001;
    float *x = random_new(n, 3e38);
    assert_true(kernel_all_finite(x, n) && kernel_all_finite(x, 0));
    for (size_t at = 0; at < n; at += at < 40 || at > n - 40 ? 1 : 997) {
        float kept = x[at];
        x[at] = broken[at % 3];
        assert_false(kernel_all_finite(x, n));
        assert_false(isfinite(kernel_sum_of_squares(x, n)));
        x[at] = kept;
    }
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(arrays_are_aligned_and_zero),
                                       cmocka_unit_test(element_wise_functions_reach_every_element),
                                       cmocka_unit_test(sum_of_squares_is_the_same_for_every_thread_count),
                                       cmocka_unit_test(broken_numbers_are_found_anywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
