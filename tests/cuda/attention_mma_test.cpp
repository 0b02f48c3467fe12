/* The CUDA kernels of attention on tensor cores, against the CPU's in double. Tiles are 128 queries or keys by 32 or 64 keys or queries. */
#include "tests/cuda/attention_check.h"

static void shapes_are_computed(void **state)
{
    (void)state;
    static const attention_shape shapes[] = {
        {1, 70, 70, 2, 1, 64, true, 0, 1, 8},     {1, 5, 150, 2, 2, 16, true, 0.3, 1, 16},
        {1, 33, 20, 3, 1, 80, true, 0, 1, 0},     {1, 131, 140, 1, 1, 112, true, 0, 1, 0},
        {1, 150, 37, 1, 1, 64, false, 0.2, 2, 8}, {1, 20, 90, 4, 2, 48, true, 0, 3, 8},
        {1, 9, 70, 2, 1, 128, false, 0.1, 1, 8},  {1, 1, 65, 4, 1, 128, true, 0, 2, 0},
        {2, 31, 33, 2, 2, 96, true, 0, 1, 24},    {1, 40, 40, 1, 1, 64, true, 0, 1, 8, 20},
        {1, 3, 0, 2, 1, 16, true, 0, 1, 0},       {1, 0, 3, 2, 1, 16, true, 0, 1, 0},
    };
    attention_check_all(true, shapes, sizeof shapes / sizeof shapes[0], [](random_bits &r) {
        size_t group = r.between(1, 3), queries = r.between(1, 80), causal = r.below(2);
        return attention_shape{
            1,           queries,          r.between(1, 100), group, 1, 16 * r.between(1, 4),
            causal != 0, 0.4 * r.below(2), r.between(1, 3),   8};
    });
}

static void bits_are_the_same_twice(void **state)
{
    (void)state;
    attention_check_bits(true, {1, 50, 70, 2, 1, 64, true, 0.1, 1, 0});
}

static void nan_stays_in_its_row(void **state)
{
    (void)state;
    attention_check_nan(true, {1, 40, 40, 1, 1, 64, true, 0, 1, 0}, 19);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shapes_are_computed),
                                       cmocka_unit_test(bits_are_the_same_twice),
                                       cmocka_unit_test(nan_stays_in_its_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
