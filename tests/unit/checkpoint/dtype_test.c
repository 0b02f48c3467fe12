/* dtype: short floats, held against the definition of rounding to the nearest. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "checkpoint/dtype.h"

static float widen(enum dtype type, uint16_t bits)
{
    float x;
    dtype_to_float(type, &bits, &x, 1);
    return x;
}

static uint16_t narrow(enum dtype type, float x)
{
    uint16_t bits;
    dtype_from_float(type, &x, &bits, 1);
    return bits;
}

/* IEEE 754: sign, exponent bits with that bias, fraction bits. */
static double by_definition(uint16_t bits, int fraction, int bias)
{
    int exponent = (bits & 0x7fff) >> fraction, rest = bits & ((1 << fraction) - 1),
        top = (0x7fff >> fraction); /* all ones */
    double size = exponent == 0 ? ldexp(rest, 1 - bias - fraction)
                                : ldexp((1 << fraction) + rest, exponent - bias - fraction);
    if (exponent == top)
        size = rest ? (double)NAN : (double)INFINITY;
    return bits & 0x8000 ? -size : size;
}

static const struct {
    enum dtype type;
    int fraction, bias;
} kinds[] = {{DTYPE_F16, 10, 15}, {DTYPE_BF16, 7, 127}};

static void test_every_short_float(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++)
        for (uint32_t bits = 0; bits < 0x10000; bits++) {
            double should = by_definition((uint16_t)bits, kinds[k].fraction, kinds[k].bias);
            float x = widen(kinds[k].type, (uint16_t)bits);
            if (isnan(should)) {
                assert_true(isnan(x));
                assert_true(isnan(widen(kinds[k].type, narrow(kinds[k].type, x))));
                continue;
            }
            assert_true((double)x == should);
            assert_int_equal(narrow(kinds[k].type, x), bits);
        }
}

/* Between two neighbours: the nearer one, in the middle the even one. */
static void test_rounding(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++)
        for (uint32_t low = 0; low < 0x7fff; low++) {
            enum dtype type = kinds[k].type;
            float a = widen(type, (uint16_t)low), b = widen(type, (uint16_t)(low + 1));
            if (isnan(b))
                break;
            if (isinf(b)) /* as if the exponent had one more value */
                b = (float)ldexp(1, kinds[k].bias + 1);
            float middle = (float)(((double)a + (double)b) / 2);
            if (isinf(middle) || isinf(b))
                continue;
            uint32_t even = low & 1 ? low + 1 : low;
            assert_int_equal(narrow(type, middle), even);
            assert_int_equal(narrow(type, -middle), even | 0x8000);
            assert_int_equal(narrow(type, nextafterf(middle, 0)), low);
            assert_int_equal(narrow(type, nextafterf(middle, INFINITY)), low + 1);
        }
    assert_int_equal(narrow(DTYPE_F16, 65519.996F), 0x7bff);
    assert_int_equal(narrow(DTYPE_F16, 65520.0F), 0x7c00);
    assert_int_equal(narrow(DTYPE_F16, 1e30F), 0x7c00);
    assert_int_equal(narrow(DTYPE_F16, -1e30F), 0xfc00);
    assert_int_equal(narrow(DTYPE_F16, 1e-30F), 0);
}

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum dtype type;
        size_t bytes;
    } rows[] = {{"F32", DTYPE_F32, 4}, {"BF16", DTYPE_BF16, 2}, {"F16", DTYPE_F16, 2},
                {"F64", DTYPE_F64, 8}, {"I64", DTYPE_OTHER, 8}, {"BOOL", DTYPE_OTHER, 1}};
    enum dtype type;
    size_t bytes;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(dtype_of_name(rows[i].name, &type, &bytes));
        assert_int_equal(type, rows[i].type);
        assert_int_equal(bytes, rows[i].bytes);
        if (type != DTYPE_OTHER) {
            assert_string_equal(dtype_name(type), rows[i].name);
            assert_int_equal(dtype_bytes(type), bytes);
        }
    }
    assert_false(dtype_of_name("f32", &type, &bytes));
    assert_false(dtype_of_name("", &type, &bytes));
}

static void test_doubles(void **state)
{
    (void)state;
    const float in[] = {1.5F, -0.0F, 3e38F};
    double wide[3];
    float out[3];
    dtype_from_float(DTYPE_F64, in, wide, 3);
    assert_true(wide[2] == (double)in[2]);
    dtype_to_float(DTYPE_F64, wide, out, 3);
    assert_memory_equal(in, out, sizeof in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_short_float),
                                       cmocka_unit_test(test_rounding), cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_doubles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
