/* vmath: e^x as straight-line code, so that a loop over it becomes vector instructions.
 *
 * float: x = n ln2 + r with |r| <= ln2/2, e^r by a polynomial of degree 6 in Horner's form (Cephes expf coefficients, S. Moshier),
 * times 2^n in two steps so that results down to the subnormal range come out right. Error <= 2 ulp over all normal results
 * (tests/unit/kernels checks it). x > 88.72 gives Inf, x < -104 gives 0, NaN stays NaN. double: the C library's exp. */
#ifndef BELAY_KERNELS_CPU_VMATH_H
#define BELAY_KERNELS_CPU_VMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/real.h"

#ifdef BELAY_REAL_DOUBLE
#define R(x) x
static inline real real_exp(real x)
{
    return exp(x);
}
static inline real real_sqrt(real x)
{
    return sqrt(x);
}
#else
#define R(x) x##f
/* 2^n for -126 <= n <= 127; any other n, which only NaN leaves, gives any number. */
static inline float vmath_power2(uint32_t n)
{
    uint32_t bits = (n + 127) << 23;
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

static inline real real_exp(real x)
{
    float y = x > 89.0f ? 89.0f : x;
    y = y < -104.0f ? -104.0f : y;
    /* Adding 1.5 * 2^23 rounds to the nearest whole number, which then sits in the low bits. */
    float shifted = fmaf(y, 1.44269504088896341f, 12582912.0f);
    float whole = shifted - 12582912.0f;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    uint32_t n = bits - 0x4B400000; /* in two's complement */
    float r = fmaf(whole, -0.693359375f, y);
    r = fmaf(whole, 2.12194440e-4f, r);
    float p = 1.9875691500e-4f;
    p = fmaf(p, r, 1.3981999507e-3f);
    p = fmaf(p, r, 8.3334519073e-3f);
    p = fmaf(p, r, 4.1665795894e-2f);
    p = fmaf(p, r, 1.6666665459e-1f);
    p = fmaf(p, r, 5.0000001201e-1f);
    p = fmaf(p, r * r, r) + 1.0f;
    uint32_t half = (uint32_t)((int32_t)n >> 1);
    return p * vmath_power2(half) * vmath_power2(n - half);
}
static inline real real_sqrt(real x)
{
    return sqrtf(x);
}
#endif

#endif
