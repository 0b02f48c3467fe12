/* near: what the kernel tests share: arrays of seeded random numbers, and a comparison with a reference computed in double. */
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

/* `count` numbers in [-size, size); free() it. */
static inline float *random_new(size_t count, double size)
{
    float *x = malloc((count ? count : 1) * sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)(size * (2 * drand48() - 1));
    return x;
}

static inline float *copy_new(const float *x, size_t count)
{
    float *copy = malloc((count ? count : 1) * sizeof *copy);
    memcpy(copy, x, count * sizeof *copy);
    return copy;
}

/* |out - expected| <= tolerance * size; size is the magnitude of what was added up to make it. */
static inline void expect_near(float out, double expected, double size, double tolerance, const char *what,
                               size_t i)
{
    if (!(fabs((double)out - expected) <= tolerance * size))
        fail_msg("%s[%zu] is %.9g, expected %.9g (within %.3g)", what, i, (double)out, expected,
                 tolerance * size);
}

#endif
