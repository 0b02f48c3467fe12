/* sum: the order of the additions, the rounding of bf16, and values that are no ordinary numbers. */
#include "tests/unit/scratch.h"

#include <math.h>

#include "runtime/comm/sum.h"

static uint16_t bits_of(float x) /* x is a bf16 */
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    assert_int_equal(bits & 0xffff, 0);
    return (uint16_t)(bits >> 16);
}

/* The terms as rank `rank` has them: x (3) are those of ranks 0, 1 and 2. */
static uint16_t sum_bf16(const float x[3], int rank)
{
    uint16_t own = bits_of(x[rank]), out;
    const uint16_t others[2] = {bits_of(x[(rank + 1) % 3]), bits_of(x[(rank + 2) % 3])};
    comm_sum(&out, &(struct comm_terms){&own, others, sizeof own, rank, 3}, 1, COMM_BF16);
    return out;
}

static void test_bf16(void **state)
{
    (void)state;
    const struct {
        float x[3], sum;
    } rows[] = {
        {{1, 2, 3}, 6},
        {{256, 1, 0}, 256},                        /* 257: half way, to even */
        {{258, 1, 0}, 260},                        /* 259: half way, to even */
        {{256, 1, 0.0078125F}, 258},               /* above half way */
        {{256, 0.5F, 0.25F}, 256},                 /* below */
        {{256, 1, 1}, 258},                        /* rounded once: 256 + 1 alone would be 256 again */
        {{-256, -1, -1}, -258},                    /* */
        {{0x1p127F, 0x1.fep127F, 0}, INFINITY},    /* too large */
        {{0x1.fep127F, 0x1p119F, 0}, INFINITY},    /* by rounding */
        {{0x1.fep127F, 0x1p118F, 0}, 0x1.fep127F}, /* not yet */
        {{INFINITY, 1, 1}, INFINITY},
        {{-INFINITY, 1, 1}, -INFINITY},
        {{0x1p-133F, 0, 0}, 0x1p-133F}, /* the smallest */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int rank = 0; rank < 3; rank++)
            if (sum_bf16(rows[i].x, rank) != bits_of(rows[i].sum))
                fail_msg("row %zu, rank %d: %#x", i, rank, sum_bf16(rows[i].x, rank));
    assert_int_equal(sum_bf16((float[3]){-0.0F, -0.0F, -0.0F}, 1), 0x8000);
    assert_int_equal(sum_bf16((float[3]){INFINITY, -INFINITY, 1}, 1) & 0x7fff, 0x7fc0);
}

/* A NaN whose payload is all ones must not be rounded to infinity or zero. */
static void test_bf16_nan(void **state)
{
    (void)state;
    const uint16_t own = 0x7fff, others[1] = {0};
    uint16_t out;
    comm_sum(&out, &(struct comm_terms){&own, others, 2, 0, 2}, 1, COMM_BF16);
    assert_int_equal(out, 0x7fff);
}

/* In float 1e8 + 1 - 1e8 is 0 in this order, and 1 in another. */
static void test_order_is_of_ranks(void **state)
{
    (void)state;
    const float x[3] = {1e8F, 1, -1e8F};
    const double y[3] = {1e17, 1, -1e17};
    for (int rank = 0; rank < 3; rank++) {
        float others[2] = {x[(rank + 1) % 3], x[(rank + 2) % 3]}, own = x[rank];
        double more[2] = {y[(rank + 1) % 3], y[(rank + 2) % 3]}, mine = y[rank];
        comm_sum(&own, &(struct comm_terms){&own, others, sizeof own, rank, 3}, 1, COMM_REAL);
        comm_sum(&mine, &(struct comm_terms){&mine, more, sizeof mine, rank, 3}, 1, COMM_DOUBLE);
        assert_true(own == 0 && mine == 0);
    }
}

/* Longer than blocks, and long enough for threads. */
static void test_long_arrays(void **state)
{
    (void)state;
    static const size_t counts[] = {1023, 1024, 1025, 300000};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        size_t n = counts[c];
        float *own = calloc(n, sizeof *own), *others = calloc(2 * n, sizeof *others);
        assert_true(own && others);
        for (size_t i = 0; i < n; i++) {
            own[i] = (float)i * 0.1F;
            others[i] = (float)(i % 7) * 1e6F;
            others[n + i] = -3.3F;
        }
        comm_sum(own, &(struct comm_terms){own, others, n * sizeof *own, 1, 3}, n, COMM_REAL);
        for (size_t i = 0; i < n; i++) { /* rank 0 is two behind rank 1 */
            float sum = others[n + i] + (float)i * 0.1F;
            sum += others[i];
            if (own[i] != sum)
                fail_msg("element %zu of %zu", i, n);
        }
        free(own);
        free(others);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_bf16_nan),
        cmocka_unit_test(test_order_is_of_ranks),
        cmocka_unit_test(test_long_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
