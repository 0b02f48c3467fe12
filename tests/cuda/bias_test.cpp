/* The CUDA kernels of biases against the CPU's in double. */
#include "tests/cuda/check.h"

static void rows_get_the_bias(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        static const size_t shapes[][3] = {{1, 1, 0},  {3, 5, 0},   {17, 129, 1}, {64, 64, 0}, {64, 64, 1},
                                           {8, 64, 2}, {1, 256, 0}, {9, 40, 0},   {0, 8, 0}};
        random_bits r(seed);
        for (auto &s : shapes) {
            size_t n = s[0], c = s[1], skip = s[2];
            array out(half, n * c, skip % 2), x(half, n * c), bias(half, c, skip / 2);
            x.random(r, 1);
            bias.random(r, 1);
            k->bias_forward(out.act(), x.act(), bias.act(), n, c);
            reference()->bias_forward(out.ref_act(), x.ref_act(), bias.ref_act(), n, c);
            expect_near("out", out, rounding(half));
            out.poison();
            k->bias_forward(out.act(), NULL, bias.act(), n, c);
            reference()->bias_forward(out.ref_act(), NULL, bias.ref_act(), n, c);
            expect_near("out of nothing", out, 0);
        }
    });
}

static void rows_get_the_bias_in_place(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        random_bits r(seed);
        array x(half, 6 * 48), bias(half, 48);
        x.random(r, 1).x[7] = NAN;
        x.push();
        bias.random(r, 1);
        k->bias_forward(x.act(), x.act(), bias.act(), 6, 48);
        reference()->bias_forward(x.ref_act(), x.ref_act(), bias.ref_act(), 6, 48);
        expect_near("x", x, rounding(half));
    });
}

/* The third: whether dout is aligned. Long ones are summed in two levels. */
static void columns_are_summed(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        static const size_t shapes[][3] = {{1, 1, 0},    {7, 3, 1},   {100, 33, 0}, {65, 264, 0},
                                           {200, 40, 1}, {391, 8, 0}, {1000, 2, 0}, {30, 300, 0},
                                           {0, 4, 0},    {4, 0, 0}};
        random_bits r(seed);
        for (auto &s : shapes) {
            size_t n = s[0], c = s[1];
            array dbias(false, c), dout(half, n * c, s[2]);
            dbias.random(r, 1);
            dout.random(r, 1);
            k->bias_backward(dbias.real(), dout.act(), n, c);
            reference()->bias_backward(dbias.ref(), dout.ref_act(), n, c);
            expect_near("dbias", dbias, 2e-6, 10);
        }
    });
}

/* A large common part in all terms shows sums that lose bits: one after another in float they would be off by 1e-4. */
static void long_columns_keep_their_bits(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        random_bits r(seed);
        const size_t n = 20000;
        array dbias(false, 3), dout(half, n * 3);
        dbias.push();
        dout.random(r, 0.5, 1);
        k->bias_backward(dbias.real(), dout.act(), n, 3);
        reference()->bias_backward(dbias.ref(), dout.ref_act(), n, 3);
        expect_near("dbias", dbias, 1e-6, 0);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_get_the_bias),
        cmocka_unit_test(rows_get_the_bias_in_place),
        cmocka_unit_test(columns_are_summed),
        cmocka_unit_test(long_columns_keep_their_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
