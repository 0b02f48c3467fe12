/* e^x, GELU and SwiGLU against double. */
#include "kernels/cpu/vmath.h"
#include "tests/unit/kernels/near.h"

/* Distance in units of the last place of the expected value. */
static double ulps(float out, double expected)
{
    int exponent;
    frexp(expected, &exponent);
    return fabs((double)out - expected) / ldexp(1, exponent - 24);
}

static void exponential_is_within_two_ulp(void **state)
{
    (void)state;
    for (double x = -87.3; x < 88.72; x += 0.00037) {
        float in = (float)x;
        double error = ulps(real_exp(in), exp((double)in));
        if (!(error <= 2))
            fail_msg("e^%.9g is off by %.2f ulp", (double)in, error);
    }
}

static void exponential_of_special_values(void **state)
{
    (void)state;
    assert_true(real_exp(0) == 1);
    assert_true(isnan(real_exp(NAN)));
    assert_true(real_exp(INFINITY) == INFINITY && real_exp(89) == INFINITY && real_exp(3e38f) == INFINITY);
    assert_true(real_exp(-INFINITY) == 0 && real_exp(-110) == 0 && real_exp(-3e38f) == 0);
    assert_true(real_exp(-100) > 0 && real_exp(-100) < 1e-43f); /* subnormal */
    assert_true(isfinite(real_exp(88.72f)));
}

static double logistic(double z)
{
    return 1 / (1 + exp(-z));
}

static const double gelu_scale = 0.7978845608028654, gelu_cubic = 0.044715;

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(gelu_scale * (x + gelu_cubic * x * x * x)));
}

static double gelu_slope(double x)
{
    double t = tanh(gelu_scale * (x + gelu_cubic * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * gelu_scale * (1 + 3 * gelu_cubic * x * x);
}

static void gelu_matches_double(void **state)
{
    (void)state;
    srand48(6);
    size_t counts[] = {1, 15, 17, 40001};
    for (size_t c = 0; c < COUNT(counts); c++) {
        size_t n = counts[c];
        float *x = random_new(n, 12), *out = random_new(n, 1), *dout = random_new(n, 1),
              *dx = copy_new(dout, n);
        kernel_gelu_forward(out, x, n);
        kernel_gelu_backward(dx, dx, x, n);
        for (size_t i = 0; i < n; i++) {
            expect_near(out[i], gelu((double)x[i]), 1e-3 + fabs((double)x[i]), 1e-6, "gelu", i);
            expect_near(dx[i], (double)dout[i] * gelu_slope((double)x[i]), 1, 3e-6, "gelu'", i);
        }
        free(x);
        free(out);
        free(dout);
        free(dx);
    }
}

static void swiglu_matches_double(void **state)
{
    (void)state;
    size_t n = 20011;
    float *gate = random_new(n, 10), *up = random_new(n, 2), *dout = random_new(n, 1),
          *out = copy_new(dout, n), *dup = random_new(n, 1);
    float *dgate = copy_new(dout, n);
    kernel_swiglu_forward(out, gate, up, n);
    kernel_swiglu_backward(dgate, dup, dgate, gate, up, n);
    for (size_t i = 0; i < n; i++) {
        double g = (double)gate[i], s = logistic(g), d = (double)dout[i];
        expect_near(out[i], g * s * (double)up[i], 10, 1e-6, "swiglu", i);
        expect_near(dup[i], d * g * s, 10, 1e-6, "dup", i);
        expect_near(dgate[i], d * (double)up[i] * s * (1 + g * (1 - s)), 4, 2e-6, "dgate", i);
    }
    float *all[] = {gate, up, dout, out, dup, dgate};
    for (size_t i = 0; i < COUNT(all); i++)
        free(all[i]);
}

static void nan_passes_through(void **state)
{
    (void)state;
    float x[3] = {1, NAN, -50}, one[3] = {1, 1, 1}, out[3], other[3];
    kernel_gelu_forward(out, x, 3);
    assert_true(isnan(out[1]) && !isnan(out[0]) && out[2] == 0);
    kernel_gelu_backward(out, one, x, 3);
    assert_true(isnan(out[1]) && !isnan(out[0]) && !isnan(out[2]));
    kernel_swiglu_backward(out, other, one, x, one, 3);
    assert_true(isnan(out[1]) && isnan(other[1]) && !isnan(other[2]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponential_is_within_two_ulp), cmocka_unit_test(exponential_of_special_values),
        cmocka_unit_test(gelu_matches_double), cmocka_unit_test(swiglu_matches_double),
        cmocka_unit_test(nan_passes_through)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
