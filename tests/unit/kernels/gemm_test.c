/* kernel_gemm against three loops in double: every combination of flags, odd shapes, rows longer than their matrix. */
#include "tests/unit/kernels/near.h"

struct shape {
    size_t m, n, k;
};

static const struct shape shapes[] = {{1, 1, 1},      {1, 7, 3},     {7, 1, 5},     {3, 5, 1},
                                      {17, 33, 9},    {64, 64, 64},  {65, 63, 127}, {128, 257, 31},
                                      {255, 16, 513}, {31, 500, 97}, {300, 130, 70}};

static double at(const struct kernel_matrix *m, size_t i, size_t j)
{
    return (double)(m->transposed ? m->data[j * m->stride + i] : m->data[i * m->stride + j]);
}

static void check(const struct shape *s, bool ta, bool tb, bool accumulate)
{
    size_t stride_a = (ta ? s->m : s->k) + 3, stride_b = (tb ? s->k : s->n) + 5, stride_c = s->n + 2;
    float *a = random_new((ta ? s->k : s->m) * stride_a, 1),
          *b = random_new((tb ? s->n : s->k) * stride_b, 1);
    float *before = random_new(s->m * stride_c, 1), *c = copy_new(before, s->m * stride_c);
    struct kernel_matrix x = {a, stride_a, ta}, y = {b, stride_b, tb};
    if (!accumulate)
        c[0] = NAN; /* is overwritten */
    kernel_gemm(s->m, s->n, s->k, x, y, accumulate, c, stride_c);
    for (size_t i = 0; i < s->m; i++) {
        for (size_t j = 0; j < s->n; j++) {
            double sum = accumulate ? (double)before[i * stride_c + j] : 0;
            for (size_t p = 0; p < s->k; p++)
                sum += at(&x, i, p) * at(&y, p, j);
            expect_near(c[i * stride_c + j], sum, sqrt((double)s->k) + 1, 1e-6, "c", i * s->n + j);
        }
        for (size_t j = s->n; j < stride_c; j++)
            assert_true(c[i * stride_c + j] == before[i * stride_c + j]);
    }
    free(a);
    free(b);
    free(before);
    free(c);
}

static void products_match_double(void **state)
{
    (void)state;
    srand48(1);
    for (size_t i = 0; i < COUNT(shapes); i++) {
        for (unsigned flags = 0; flags < 8; flags++)
            check(&shapes[i], flags & 1, flags & 2, flags & 4);
    }
}

static void nan_in_an_operand_reaches_the_product(void **state)
{
    (void)state;
    float a[6] = {1, 2, NAN, 4, 5, 6}, b[6] = {0}, c[4];
    kernel_gemm(2, 2, 3, (struct kernel_matrix){a, 3, false}, (struct kernel_matrix){b, 2, false}, false, c,
                2);
    assert_true(isnan(c[0]) && isnan(c[1]) && c[2] == 0 && c[3] == 0);
}

/* On a processor with AVX-512 the library must not run its SSE code, which it falls back to when it does not know the model. */
static void code_path_fits_the_processor(void **state)
{
    (void)state;
    char text[128];
    kernel_describe(text, sizeof text);
    assert_non_null(strstr(text, "OpenBLAS"));
    if (__builtin_cpu_supports("avx2"))
        assert_null(strstr(text, "Prescott"));
}

int main(void)
{
    struct err err;
    if (kernel_open(&err) != 0) {
        print_error("%s\n", err.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_match_double),
                                       cmocka_unit_test(nan_in_an_operand_reaches_the_product),
                                       cmocka_unit_test(code_path_fits_the_processor)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
