/* e^x, GELU, SwiGLU and dropout against double. */
#include <omp.h>

#include "kernels/cpu/hash.h"
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

static void check_gelu(const struct kernels *k)
{
    static const size_t counts[] = {0, 1, 15, 17, 4096, 4097, 40001};
    for (size_t c = 0; c < COUNT(counts); c++) {
        size_t n = counts[c];
        act *x = act_random(k, n, 12), *out = act_random(k, n, 1), *dout = act_random(k, n, 1),
            *dx = act_copy(k, dout, n);
        k->gelu_forward(out, x, n);
        k->gelu_backward(dx, dx, x, n);
        for (size_t i = 0; i < n; i++) {
            double in = value(k, x, i);
            expect_act(k, out, i, gelu(in), 1e-3 + fabs(in), 1e-6, "gelu");
            expect_act(k, dx, i, value(k, dout, i) * gelu_slope(in), 1, 3e-6, "gelu'");
        }
        FREE(x, out, dout, dx);
    }
}
TYPED_TEST(gelu_matches_double, check_gelu)

static void check_swiglu_shape(const struct kernels *k, size_t n, size_t f)
{
    act *wide = act_random(k, n * 2 * f, 10), *dout = act_random(k, n * f, 1), *out = act_random(k, n * f, 1),
        *dwide = act_random(k, n * 2 * f, 1);
    k->swiglu_forward(out, wide, n, f);
    k->swiglu_backward(dwide, dout, wide, n, f);
    for (size_t i = 0; i < n * f; i++) {
        size_t at = i / f * 2 * f + i % f;
        double g = value(k, wide, at), up = value(k, wide, at + f), s = logistic(g), d = value(k, dout, i);
        expect_act(k, out, i, g * s * up, 100, 1e-6, "swiglu");
        expect_act(k, dwide, at + f, d * g * s, 10, 1e-6, "dup");
        expect_act(k, dwide, at, d * up * s * (1 + g * (1 - s)), 20, 2e-6, "dgate");
    }
    FREE(wide, dout, out, dwide);
}

static void check_swiglu(const struct kernels *k)
{
    static const size_t shapes[][2] = {{0, 5}, {1, 1}, {3, 17}, {40, 501}};
    for (size_t i = 0; i < COUNT(shapes); i++)
        check_swiglu_shape(k, shapes[i][0], shapes[i][1]);
}
TYPED_TEST(swiglu_matches_double, check_swiglu)

/* Where the logistic function is 1 the product is exact as float, and bf16 stores its rounding, to even where two are as near: in whole
 * vectors and in what is left over. */
static void products_are_rounded_to_even(void **state)
{
    (void)state;
    enum { F = 37 };
    const struct kernels *k = table_of(KERNEL_BF16);
    real wide[2 * F];
    for (size_t i = 0; i < F; i++) {
        wide[i] = i % 2 ? 37 : 67;
        wide[F + i] = i % 2 ? 9 : 5;
    }
    act *x = act_new(k, copy_new(wide, sizeof wide), (size_t)2 * F), *out = act_random(k, F, 1);
    k->swiglu_forward(out, x, 1, F);
    for (size_t i = 0; i < F; i++)
        assert_true(value(k, out, i) == (i % 2 ? 332 : 336)); /* 333 and 335 */
    FREE(x, out);
}

static void check_nan(const struct kernels *k)
{
    static const real input[4] = {1, NAN, -50, INFINITY}, ones[4] = {1, 1, 1, 1};
    act *x = act_new(k, copy_new(input, sizeof input), 4), *one = act_new(k, copy_new(ones, sizeof ones), 4),
        *out = act_random(k, 4, 1);
    k->gelu_forward(out, x, 4);
    assert_true(isnan(value(k, out, 1)) && !isnan(value(k, out, 0)) && value(k, out, 2) == 0 &&
                value(k, out, 3) == INFINITY);
    k->gelu_backward(out, one, x, 4);
    assert_true(isnan(value(k, out, 1)) && !isnan(value(k, out, 0)) && !isnan(value(k, out, 2)));
    k->swiglu_backward(out, one, x, 1, 2); /* gate 1, NaN */
    assert_true(!isnan(value(k, out, 2)) && isnan(value(k, out, 1)) && isnan(value(k, out, 3)));
    FREE(x, one, out);
}
TYPED_TEST(nan_passes_through, check_nan)

/* The formula of kernels.h, by its letters. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9;
    x ^= x >> 27;
    x *= 0x94D049BB133111EB;
    x ^= x >> 31;
    return x;
}

static bool kept(const struct kernel_dropout *d, size_t row, uint32_t column)
{
    uint64_t r = mix(d->key ^ mix(d->rows[row] + 0x9E3779B97F4A7C15));
    uint32_t x = (uint32_t)(r & 0xFFFFFFFF) + column;
    x ^= x >> 16;
    x *= 0x7FEB352D;
    x ^= (uint32_t)(r >> 32);
    x ^= x >> 15;
    x *= 0x846CA68B;
    x ^= x >> 16;
    return (double)x >= floor(d->rate * 4294967296.0);
}

static void check_mask(const struct kernels *k)
{
    static const double rates[] = {0, 0.1, 0.5, 0.999};
    static const uint64_t rows[] = {0, 1, 5, 1024, (uint64_t)1 << 33, UINT64_MAX, 6};
    size_t n = COUNT(rows), c = 3001;
    for (size_t r = 0; r < COUNT(rates); r++) {
        struct kernel_dropout d = {rates[r], 1234567, rows};
        act *x = act_random(k, n * c, 1), *out = act_random(k, n * c, 1);
        k->dropout(out, x, &d, n, c);
        for (size_t i = 0; i < n * c; i++) {
            double expected = kept(&d, i / c, (uint32_t)(i % c)) ? value(k, x, i) / (1 - rates[r]) : 0;
            expect_act(k, out, i, expected, fabs(expected), 2e-7, "dropout");
        }
        k->dropout(x, x, &d, n, c); /* in place */
        assert_memory_equal(x, out, n * c * k->act_size);
        FREE(x, out);
    }
}
TYPED_TEST(dropout_follows_the_formula, check_mask)

static void check_no_dropout(const struct kernels *k)
{
    act *x = act_random(k, 30, 1), *out = act_random(k, 30, 1);
    k->dropout(out, x, NULL, 3, 10);
    assert_memory_equal(x, out, 30 * k->act_size);
    FREE(x, out);
}
TYPED_TEST(no_dropout_copies, check_no_dropout)

/* A row's mask is its id's, wherever the row lies and whoever computes it. */
static void check_places(const struct kernels *k)
{
    enum { N = 64, C = 700 };
    uint64_t rows[N], turned[N];
    real *ones = malloc(N * C * sizeof *ones);
    for (size_t i = 0; i < N; i++)
        turned[N - 1 - i] = rows[i] = 1000003 * i;
    for (size_t i = 0; i < N * C; i++)
        ones[i] = 1;
    act *x = act_new(k, ones, N * C), *a = act_random(k, N * C, 1), *b = act_random(k, N * C, 1);
    int threads = omp_get_max_threads();
    k->dropout(a, x, &(struct kernel_dropout){0.3, 5, rows}, N, C);
    omp_set_num_threads(3);
    k->dropout(b, x, &(struct kernel_dropout){0.3, 5, turned}, N, C);
    omp_set_num_threads(threads);
    for (size_t i = 0; i < N; i++)
        assert_memory_equal(act_at(k, a, i * C), act_at(k, b, (N - 1 - i) * C), C * k->act_size);
    FREE(x, a, b);
}
TYPED_TEST(a_mask_belongs_to_the_row_id, check_places)

/* The share that is dropped, and that neighbours do not know of each other: along a row, and from row to row. */
static void masks_look_random(void **state)
{
    (void)state;
    enum { N = 1000, C = 1000 };
    static unsigned char drop[N][C];
    const uint32_t threshold = hash_threshold(0.25);
    size_t dropped = 0, along = 0, down = 0;
    for (size_t i = 0; i < N; i++) {
        uint64_t row = hash_row(42, i);
        for (size_t j = 0; j < C; j++) {
            drop[i][j] = hash_column((uint32_t)row, (uint32_t)(row >> 32), (uint32_t)j) < threshold;
            dropped += drop[i][j];
            along += j > 0 && drop[i][j] && drop[i][j - 1];
            down += i > 0 && drop[i][j] && drop[i - 1][j];
        }
    }
    /* binomial: standard deviations of 433 and 242 in a million */
    expect_within((double)dropped, 0.25 * N * C, 5 * 433, "dropped", 0);
    expect_within((double)along, 0.0625 * N * (C - 1), 5 * 242, "pairs along", 0);
    expect_within((double)down, 0.0625 * (N - 1) * C, 5 * 242, "pairs down", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(exponential_is_within_two_ulp),
                                       cmocka_unit_test(exponential_of_special_values),
                                       cmocka_unit_test(gelu_matches_double),
                                       cmocka_unit_test(swiglu_matches_double),
                                       cmocka_unit_test(nan_passes_through),
                                       cmocka_unit_test(products_are_rounded_to_even),
                                       cmocka_unit_test(dropout_follows_the_formula),
                                       cmocka_unit_test(no_dropout_copies),
                                       cmocka_unit_test(a_mask_belongs_to_the_row_id),
                                       cmocka_unit_test(masks_look_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
