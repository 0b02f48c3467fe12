/* The CUDA kernels of attention that take every shape, against the CPU's in double. */
#include "tests/cuda/attention_check.h"

static void any_shape_is_computed(void **state)
{
    (void)state;
    static const attention_shape shapes[] = {
        {1, 1, 1, 1, 1, 1, true, 0, 1, 0},     {2, 7, 7, 3, 3, 8, true, 0, 1, 5},
        {1, 65, 65, 2, 1, 6, true, 0.3, 1, 3}, {2, 5, 130, 2, 1, 17, true, 0.5, 2, 1},
        {1, 40, 20, 2, 1, 12, true, 0, 1, 7},  {1, 33, 70, 2, 2, 80, false, 0, 3, 1},
        {1, 3, 70, 2, 1, 131, false, 0, 1, 3}, {1, 70, 66, 1, 1, 5, false, 0.2, 2, 2},
        {1, 2, 9, 4, 1, 24, true, 0, 3, 0},    {1, 3, 0, 2, 1, 4, true, 0, 1, 0},
        {1, 0, 3, 2, 1, 4, true, 0, 1, 0},
    };
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        for (size_t i = seed % 3; i < sizeof shapes / sizeof shapes[0]; i += 3)
            attention_check(k, half, shapes[i], seed);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_shape_is_computed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
