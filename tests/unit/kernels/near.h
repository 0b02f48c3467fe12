/* near: what the kernel tests share: the table of each type, arrays of seeded random numbers, and comparisons with a reference computed in
 * double from the numbers as the type holds them. */
#ifndef BELAY_TESTS_KERNELS_NEAR_H
#define BELAY_TESTS_KERNELS_NEAR_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/kernels.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static inline const struct kernels *table_of(enum kernel_type type)
{
    struct err err;
    const struct kernels *k = kernels_cpu(type, &err);
    if (!k)
        fail_msg("%s", err.text);
    return k;
}

/* Runs a check once for each type. */
static inline void for_each_type(void (*check)(const struct kernels *k))
{
    static const enum kernel_type types[] = {KERNEL_FP32, KERNEL_BF16};
    for (size_t i = 0; i < COUNT(types); i++) {
        srand48(11);
        check(table_of(types[i]));
    }
}

/* A test named `test` that runs `check` for each type. */
#define TYPED_TEST(test, check)                                                                              \
    static void test(void **state)                                                                           \
    {                                                                                                        \
        (void)state;                                                                                         \
        for_each_type(check);                                                                                \
    }

/* `count` numbers in [-size, size); free() it. */
static inline real *random_new(size_t count, double size)
{
    real *x = malloc((count ? count : 1) * sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = (real)(size * (2 * drand48() - 1));
    return x;
}

/* whole numbers in [-size, size) */
static inline real *whole_new(size_t count, double size)
{
    real *x = random_new(count, size);
    for (size_t i = 0; i < count; i++)
        x[i] = (real)floor((double)x[i]);
    return x;
}

static inline void *copy_new(const void *x, size_t bytes)
{
    void *copy = malloc(bytes ? bytes : 1);
    memcpy(copy, x, bytes);
    return copy;
}

/* x (count) in the type of k; x is freed */
static inline act *act_new(const struct kernels *k, real *x, size_t count)
{
    act *out = malloc((count ? count : 1) * k->act_size);
    k->act_from_real(out, x, count);
    free(x);
    return out;
}

static inline act *act_random(const struct kernels *k, size_t count, double size)
{
    return act_new(k, random_new(count, size), count);
}

static inline act *act_copy(const struct kernels *k, const act *x, size_t count)
{
    return copy_new(x, count * k->act_size);
}

/* Read here, not by the table: the tests ask for millions. */
static inline double value(const struct kernels *k, const act *x, size_t i)
{
    const void *at = act_in(k, x, i);
    real out;
    if (k->type == KERNEL_BF16) {
        uint16_t upper;
        memcpy(&upper, at, sizeof upper);
        uint32_t bits = (uint32_t)upper << 16;
        float wide;
        memcpy(&wide, &bits, sizeof wide);
        return (double)wide;
    }
    memcpy(&out, at, sizeof out);
    return (double)out;
}

static inline void set_value(const struct kernels *k, act *x, size_t i, double to)
{
    real in = (real)to;
    k->act_from_real(act_at(k, x, i), &in, 1);
}

/* What rounding to the type may change in x: half a unit in the last of bf16's 8 bits. */
static inline double rounding(const struct kernels *k, double x)
{
    int exponent;
    frexp(x, &exponent);
    return k->type == KERNEL_BF16 ? ldexp(1, exponent - 9) : 0;
}

static inline void expect_within(double out, double expected, double tolerance, const char *what, size_t i)
{
    if (!(fabs(out - expected) <= tolerance))
        fail_msg("%s[%zu] is %.9g, expected %.9g (within %.3g)", what, i, out, expected, tolerance);
}

/* |out - expected| <= tolerance * size; size is the magnitude of what was added up to make it. */
static inline void expect_near(real out, double expected, double size, double tolerance, const char *what,
                               size_t i)
{
    expect_within((double)out, expected, tolerance * size, what, i);
}

/* The same for element i of x: may also differ by the one rounding of the result. */
static inline void expect_act(const struct kernels *k, const act *x, size_t i, double expected, double size,
                              double tolerance, const char *what)
{
    double allowed = tolerance * size;
    expect_within(value(k, x, i), expected, allowed + rounding(k, fabs(expected) + allowed), what, i);
}

static inline void free_all(void **x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(x[i]);
}
#define FREE(...) free_all((void *[]){__VA_ARGS__}, COUNT(((void *[]){__VA_ARGS__})))

#endif
