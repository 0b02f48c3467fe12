/* Matrix products against three loops in double: every combination of flags, odd shapes, shapes past the blocks that bf16 is cut into, rows
 * longer than their matrix. */
#include "tests/unit/kernels/near.h"

struct shape {
    size_t m, n, k;
};

static const struct shape shapes[] = {
    {1, 1, 1},   {1, 7, 3},    {7, 1, 5},     {3, 5, 1},      {0, 3, 4},     {3, 0, 4},     {3, 4, 0},
    {17, 33, 9}, {64, 64, 64}, {65, 63, 127}, {128, 257, 31}, {31, 500, 97}, {300, 130, 70}};
/* past a block in each of the three */
static const struct shape large[] = {{1027, 3, 5}, {2, 1030, 7}, {3, 5, 2050}};

struct operand {
    act *data;
    struct kernel_matrix matrix;
};

static struct operand operand_new(const struct kernels *k, size_t rows, size_t columns, bool transposed)
{
    size_t height = transposed ? columns : rows, stride = (transposed ? rows : columns) + 3;
    act *data = act_random(k, height * stride, 1);
    return (struct operand){data, {data, stride, transposed}};
}

static double at(const struct kernels *k, const struct kernel_matrix *m, size_t i, size_t j)
{
    return value(k, m->data, m->transposed ? j * m->stride + i : i * m->stride + j);
}

static double sum_at(const struct kernels *k, const struct shape *s, const struct operand *a,
                     const struct operand *b, size_t i, size_t j)
{
    double sum = 0;
    for (size_t p = 0; p < s->k; p++)
        sum += at(k, &a->matrix, i, p) * at(k, &b->matrix, p, j);
    return sum;
}

/* The product in act and in real; what lies beside it stays. */
static void check(const struct kernels *k, const struct shape *s, bool ta, bool tb, bool accumulate)
{
    size_t stride = s->n + 2, count = s->m * stride;
    struct operand a = operand_new(k, s->m, s->k, ta), b = operand_new(k, s->k, s->n, tb);
    real *wide = random_new(count, 1), *wide_before = copy_new(wide, count * sizeof *wide);
    act *c = act_random(k, count, 1), *before = act_copy(k, c, count);
    if (!accumulate && count) {
        wide[0] = NAN; /* is overwritten */
        set_value(k, c, 0, NAN);
    }
    k->gemm(s->m, s->n, s->k, a.matrix, b.matrix, accumulate, c, stride);
    k->gemm_real(s->m, s->n, s->k, a.matrix, b.matrix, accumulate, wide, stride);
    for (size_t i = 0; s->n && i < count; i++) {
        if (i % stride >= s->n) {
            assert_true(value(k, c, i) == value(k, before, i) && wide[i] == wide_before[i]);
            continue;
        }
        double sum = sum_at(k, s, &a, &b, i / stride, i % stride), size = sqrt((double)s->k) + 1;
        expect_act(k, c, i, sum + (accumulate ? value(k, before, i) : 0), size, 1e-6, "c");
        expect_near(wide[i], sum + (accumulate ? (double)wide_before[i] : 0), size, 1e-6, "real c", i);
    }
    FREE(a.data, b.data, wide, wide_before, c, before);
}

static void check_products(const struct kernels *k)
{
    for (size_t i = 0; i < COUNT(shapes); i++) {
        for (unsigned flags = 0; flags < 8; flags++)
            check(k, &shapes[i], flags & 1, flags & 2, flags & 4);
    }
    for (size_t i = 0; i < COUNT(large); i++) {
        for (unsigned flags = 0; flags < 8; flags++)
            check(k, &large[i], flags & 1, flags & 2, flags & 4);
    }
}
TYPED_TEST(products_match_double, check_products)

static void check_nan(const struct kernels *k)
{
    static const real x[6] = {1, 2, NAN, 4, 5, 6};
    act *a = act_new(k, copy_new(x, sizeof x), 6), *b = act_new(k, calloc(6, sizeof(real)), 6),
        *c = act_random(k, 4, 1);
    k->gemm(2, 2, 3, (struct kernel_matrix){a, 3, false}, (struct kernel_matrix){b, 2, false}, false, c, 2);
    assert_true(isnan(value(k, c, 0)) && isnan(value(k, c, 1)) && value(k, c, 2) == 0 && value(k, c, 3) == 0);
    FREE(a, b, c);
}
TYPED_TEST(nan_in_an_operand_reaches_the_product, check_nan)

/* Products of small whole numbers are exact as float: what bf16 stores is exactly their rounding, to even where two are as near. */
static void sums_are_rounded_once(void **state)
{
    (void)state;
    const struct kernels *k = table_of(KERNEL_BF16);
    static const struct {
        double sum, rounded;
    } cases[] = {{256, 256}, {257, 256}, {259, 260}, {258, 258}, {515, 516}, {514, 512}, {-257, -256}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        real x[2] = {(real)(cases[i].sum > 0 ? 256 : -256), (real)(cases[i].sum > 0 ? 1 : -1)};
        real y[2] = {1, (real)(fabs(cases[i].sum) - 256)};
        if (cases[i].sum > 512) {
            y[0] = 2;
            y[1] -= 256;
        }
        act *a = act_new(k, copy_new(x, sizeof x), 2), *b = act_new(k, copy_new(y, sizeof y), 2),
            *c = act_random(k, 1, 1);
        k->gemm(1, 1, 2, (struct kernel_matrix){a, 2, false}, (struct kernel_matrix){b, 1, false}, false, c,
                1);
        assert_true(value(k, c, 0) == cases[i].rounded);
        FREE(a, b, c);
    }
}

/* On a processor with AVX-512 the library must not run its SSE code, which it falls back to when it does not know the model. */
static void code_path_fits_the_processor(void **state)
{
    (void)state;
    char text[128];
    table_of(KERNEL_FP32)->describe(text, sizeof text);
    assert_non_null(strstr(text, "OpenBLAS"));
    if (__builtin_cpu_supports("avx2"))
        assert_null(strstr(text, "Prescott"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_match_double), cmocka_unit_test(nan_in_an_operand_reaches_the_product),
        cmocka_unit_test(sums_are_rounded_once), cmocka_unit_test(code_path_fits_the_processor)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
