/* The CUDA kernels of attention that take every shape, against the CPU's in double. */
#include "tests/cuda/attention_check.h"

static void any_shape_is_computed(void **state)
{
    (void)state;
    static const attention_shape shapes[] = {
        {1, 1, 1, 1, 1, 1, true, 0, 1, 0},     {2, 7, 7, 3, 3, 8, true, 0, 1, 5},
        {1, 65, 65, 1, 1, 6, true, 0.3, 1, 3}, {2, 5, 70, 2, 1, 17, true, 0.5, 2, 1},
        {1, 40, 20, 2, 1, 12, true, 0, 1, 7},  {1, 33, 70, 2, 2, 67, false, 0, 3, 1},
        {1, 3, 70, 2, 1, 131, false, 0, 1, 3}, {1, 70, 66, 1, 1, 5, false, 0.2, 2, 2},
        {1, 2, 9, 4, 1, 24, true, 0, 3, 0},    {1, 3, 0, 2, 1, 4, true, 0, 1, 0},
        {1, 0, 3, 2, 1, 4, true, 0, 1, 0},     {1, 20, 30, 1, 1, 9, true, 0, 1, 1, 40},
    };
    for (int half = 0; half < 2; half++)
        attention_check_all(half, shapes, sizeof shapes / sizeof shapes[0], [](random_bits &r) {
            size_t group = r.between(1, 3), queries = r.between(1, 70), causal = r.below(2);
            return attention_shape{
                1,           queries,          r.between(1, 70), group, 1, r.between(1, 40) * 2 - 1,
                causal != 0, 0.4 * r.below(2), r.between(1, 3),  3};
        });
}

static void bits_are_the_same_twice(void **state)
{
    (void)state;
    attention_check_bits(false, {1, 20, 70, 2, 1, 9, true, 0.1, 1, 0});
}

static void nan_stays_in_its_row(void **state)
{
    (void)state;
    attention_check_nan(false, {1, 24, 24, 1, 1, 9, true, 0, 1, 0}, 19);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_shape_is_computed),
                                       cmocka_unit_test(bits_are_the_same_twice),
                                       cmocka_unit_test(nan_stays_in_its_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
