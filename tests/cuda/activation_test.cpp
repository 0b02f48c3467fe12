/* The CUDA kernels of GELU, SwiGLU and dropout against the CPU's in double. */
#include "tests/cuda/check.h"

static const size_t counts[] = {0, 1, 7, 64, 777, 4099};

static void gelu_is_gelu(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        random_bits r(seed);
        for (size_t n : counts)
            for (size_t skip = 0; skip < 2; skip++) {
                array out(half, n, skip), x(half, n), dout(half, n), dx(half, n);
                x.random(r, 6);
                dout.random(r, 1);
                k->gelu_forward(out.act(), x.act(), n);
                reference()->gelu_forward(out.ref_act(), x.ref_act(), n);
                expect_near("out", out, half ? 1.0 / 128 : 2e-6, 0.01);
                k->gelu_backward(dx.act(), dout.act(), x.act(), n);
                reference()->gelu_backward(dx.ref_act(), dout.ref_act(), x.ref_act(), n);
                expect_near("dx", dx, half ? 1.0 / 128 : 2e-6, 0.1);
                k->gelu_backward(dout.act(), dout.act(), x.act(), n);
                reference()->gelu_backward(dout.ref_act(), dout.ref_act(), x.ref_act(), n);
                expect_near("dx in the place of dout", dout, half ? 1.0 / 128 : 2e-6, 0.1);
            }
    });
}

/* What is far from 0: the result is x or nothing, and its slope 1 or nothing, where the polynomial overflows, too. */
static void gelu_is_right_far_out(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t) {
        static const double far[] = {-1e38, -1e20, -1e5, -100, -20, -5,   5,    20,
                                     100,   1e5,   1e20, 3e38, 0,   -0.0, 1e-30};
        const size_t n = sizeof far / sizeof *far;
        array out(half, n), x(half, n), dout(half, n), dx(half, n);
        for (size_t i = 0; i < n; i++)
            x.x[i] = far[i], dout.x[i] = 1;
        x.push();
        dout.push();
        k->gelu_forward(out.act(), x.act(), n);
        k->gelu_backward(dx.act(), dout.act(), x.act(), n);
        for (size_t i = 0; i < n; i++) {
            double v = x.x[i], slope = 1.5957691216057308 * (1 + 3 * 0.044715 * v * v);
            double e = exp(-1.5957691216057308 * fabs(v + 0.044715 * v * v * v));
            out.x[i] = v * (v < 0 ? e : 1) / (1 + e);
            dx.x[i] = (v < 0 ? e : 1) / (1 + e) + v * slope * e / (1 + e) / (1 + e);
        }
        expect_near("out", out, half ? 1.0 / 256 : 2e-6, 1e-3);
        expect_near("dx", dx, half ? 1.0 / 256 : 2e-6, 1e-2);
    });
}

static void swiglu_is_swiglu(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        static const size_t shapes[][3] = {{1, 1, 0},  {3, 5, 0},   {17, 24, 0}, {17, 24, 1}, {17, 24, 2},
                                           {2, 72, 0}, {40, 32, 0}, {0, 8, 0},   {3, 0, 0}};
        random_bits r(seed);
        for (auto &s : shapes) {
            size_t n = s[0], f = s[1];
            array out(half, n * f, s[2] % 2), wide(half, 2 * n * f, s[2] / 2), dout(half, n * f),
                dwide(half, 2 * n * f, s[2] % 2);
            wide.random(r, 8);
            dout.random(r, 1);
            k->swiglu_forward(out.act(), wide.act(), n, f);
            reference()->swiglu_forward(out.ref_act(), wide.ref_act(), n, f);
            expect_near("out", out, half ? 1.0 / 128 : 2e-6, 0.1);
            k->swiglu_backward(dwide.act(), dout.act(), wide.act(), n, f);
            reference()->swiglu_backward(dwide.ref_act(), dout.ref_act(), wide.ref_act(), n, f);
            expect_near("dwide", dwide, half ? 1.0 / 128 : 2e-6, 0.5);
        }
    });
}

/* Gates of any size let nothing through, or all; what is broken stays broken. */
static void what_is_special_is_as_on_the_cpu(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t) {
        static const double bad[] = {NAN, INFINITY, -INFINITY, 1e30, -1e30, 0, 88, -88};
        const size_t n = sizeof bad / sizeof *bad;
        array x(half, n), y(half, n), wide(half, 2 * n), out(half, n), dwide(half, 2 * n), ones(half, n);
        for (size_t i = 0; i < n; i++) {
            x.x[i] = wide.x[2 * i] = bad[i];
            ones.x[i] = wide.x[2 * i + 1] = 1;
        }
        x.push(), wide.push(), ones.push();
        k->gelu_forward(y.act(), x.act(), n);
        reference()->gelu_forward(y.ref_act(), x.ref_act(), n);
        expect_near("gelu", y, 1e-30, 1);
        k->swiglu_forward(out.act(), wide.act(), n, 1);
        reference()->swiglu_forward(out.ref_act(), wide.ref_act(), n, 1);
        expect_near("swiglu", out, 1e-30, 1);
        k->swiglu_backward(dwide.act(), ones.act(), wide.act(), n, 1);
        reference()->swiglu_backward(dwide.ref_act(), ones.ref_act(), wide.ref_act(), n, 1);
        expect_near("slopes of swiglu", dwide, 1e-30, 1);
    });
}

/* The same elements as on the CPU are dropped: none is near 0. */
static void the_same_elements_are_dropped(void **state)
{
    (void)state;
    in_all_orders([](const f32::kernels *k, bool half, uint64_t seed) {
        static const size_t shapes[][3] = {{1, 1, 0},   {5, 7, 1},    {33, 40, 0},
                                           {16, 64, 1}, {2, 3000, 0}, {0, 4, 0}};
        random_bits r(seed);
        for (auto &s : shapes)
            for (double rate : {0.0, 0.1, 0.75}) {
                size_t n = s[0], c = s[1];
                array out(half, n * c, s[2]), x(half, n * c);
                integers<uint64_t> rows(n);
                for (uint64_t &row : rows.x)
                    row = r.bits();
                rows.push();
                x.random(r, 0.5, 1);
                if (n > 2)
                    x.x[11] = NAN;
                x.push();
                f32::kernel_dropout here = {rate, r.bits(), rows.device};
                f64::kernel_dropout there = {rate, here.key, rows.x.data()};
                k->dropout(out.act(), x.act(), &here, n, c);
                reference()->dropout(out.ref_act(), x.ref_act(), &there, n, c);
                expect_near("out", out, rounding(half));
                k->dropout(x.act(), x.act(), &here, n, c);
                reference()->dropout(x.ref_act(), x.ref_act(), &there, n, c);
                expect_near("out in place", x, rounding(half));
            }
        array out(half, 9), x(half, 9);
        x.random(r, 1);
        k->dropout(out.act(), x.act(), NULL, 3, 3);
        out.x = x.x;
        expect_near("nothing is dropped", out, 0);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gelu_is_gelu),
        cmocka_unit_test(gelu_is_right_far_out),
        cmocka_unit_test(swiglu_is_swiglu),
        cmocka_unit_test(what_is_special_is_as_on_the_cpu),
        cmocka_unit_test(the_same_elements_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
