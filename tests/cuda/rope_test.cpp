/* The CUDA kernel of rotary positions against the CPU's in double. */
#include "tests/cuda/check.h"

struct rope_case {
    size_t n, count, size, stride, skip;
};

/* Elements between the heads and the next token's are left alone. */
static void pairs_are_turned(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        static const rope_case cases[] = {{1, 1, 2, 2, 0},    {5, 3, 10, 37, 0}, {7, 2, 64, 192, 0},
                                          {7, 2, 64, 192, 1}, {4, 5, 16, 81, 0}, {3, 1, 128, 128, 0},
                                          {6, 4, 32, 136, 0}, {2, 2, 7, 16, 0},  {0, 2, 8, 16, 0}};
        random_bits r(seed);
        for (auto &s : cases)
            for (bool back : {false, true}) {
                const size_t rows = 11, pairs = s.size / 2;
                array x(half, s.n * s.stride, s.skip), cosine(false, rows * pairs), sine(false, rows * pairs);
                integers<int32_t> positions(s.n);
                for (int32_t &p : positions.x)
                    p = (int32_t)r.below(rows);
                positions.push();
                x.random(r, 2);
                cosine.random(r, 1);
                sine.random(r, 1);
                k->rope(x.act(), cosine.real(), sine.real(), positions.device, back, s.count, s.size,
                        s.stride, s.n);
                reference()->rope(x.ref_act(), cosine.ref(), sine.ref(), positions.x.data(), back, s.count,
                                  s.size, s.stride, s.n);
                expect_near("x", x, rounding(half));
            }
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pairs_are_turned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
