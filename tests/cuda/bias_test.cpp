/* The CUDA kernels of biases against the CPU's in double. */
#include "tests/cuda/check.h"

static void rows_get_the_bias(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        static const size_t shapes[][2] = {{1, 1}, {3, 5}, {17, 129}, {64, 64}, {0, 8}};
        random_bits r(seed);
        for (auto &s : shapes) {
            size_t n = s[0], c = s[1];
            array out(half, n * c), x(half, n * c), bias(half, c);
            x.random(r, 1);
            bias.random(r, 1);
            k->bias_forward(out.act(), x.act(), bias.act(), n, c);
            reference()->bias_forward(out.ref_act(), x.ref_act(), bias.ref_act(), n, c);
            expect_near("out", out, rounding(half));
            out.poison();
            k->bias_forward(out.act(), NULL, bias.act(), n, c);
            reference()->bias_forward(out.ref_act(), NULL, bias.ref_act(), n, c);
            expect_near("out of nothing", out, rounding(half));
        }
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_get_the_bias)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
