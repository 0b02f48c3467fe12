/* vec: a processor's widest vector of reals, for the few loops where the compiler alone does not get there. */
#ifndef BELAY_KERNELS_CPU_VEC_H
#define BELAY_KERNELS_CPU_VEC_H

#include "kernels/cpu/vmath.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#define VEC_BYTES 64
#elif defined(__AVX__)
#define VEC_BYTES 32
#else
#define VEC_BYTES 16
#endif
#define VEC_LANES (VEC_BYTES / sizeof(real))

typedef real vec __attribute__((vector_size(VEC_BYTES)));

static inline vec vec_load(const real *x)
{
    vec out;
    memcpy(&out, x, sizeof out);
    return out;
}

static inline void vec_store(real *out, vec x)
{
    memcpy(out, &x, sizeof x);
}

static inline vec vec_all(real x)
{
    return x - (vec){0}; /* which is x to the bit; 0 + x is not when x is -0 */
}

/* e^x in each lane, as real_exp. */
static inline vec vec_exp(vec x)
{
#if defined(__AVX512F__) && !defined(BELAY_REAL_DOUBLE)
    /* min and max give their second operand when one is NaN */
    __m512 y = _mm512_min_ps(_mm512_set1_ps(89.0f), (__m512)x);
    y = _mm512_max_ps(_mm512_set1_ps(-104.0f), y);
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(y, _mm512_set1_ps(1.44269504088896341f)),
                                    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-0.693359375f), y);
    r = _mm512_fmadd_ps(n, _mm512_set1_ps(2.12194440e-4f), r);
    __m512 p = _mm512_set1_ps(1.9875691500e-4f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.3981999507e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.3334519073e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1665795894e-2f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666665459e-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.0000001201e-1f));
    p = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r);
    return (vec)_mm512_scalef_ps(_mm512_add_ps(p, _mm512_set1_ps(1.0f)), n);
#else
    real lane[VEC_LANES];
    vec_store(lane, x);
#pragma omp simd
    for (size_t i = 0; i < VEC_LANES; i++)
        lane[i] = real_exp(lane[i]);
    return vec_load(lane);
#endif
}

/* 1/x for x >= 1, within 2 ulp; 0 where that is below 2^-120. */
static inline vec vec_inverse(vec x)
{
#if defined(__AVX512F__) && !defined(BELAY_REAL_DOUBLE)
    /* Division takes longer than all of e^x. An estimate of 14 bits, made 28 by one step of Newton's method; the step fails for Inf. */
    __m512 y = _mm512_rcp14_ps((__m512)x);
    y = _mm512_mul_ps(y, _mm512_fnmadd_ps((__m512)x, y, _mm512_set1_ps(2.0f)));
    __mmask16 counts = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(0x1p120f), _CMP_NGE_UQ);
    return (vec)_mm512_maskz_mov_ps(counts, y);
#else
    return 1 / x;
#endif
}

static inline real vec_sum(vec x)
{
#if defined(__AVX512F__) && !defined(BELAY_REAL_DOUBLE)
    return _mm512_reduce_add_ps((__m512)x);
#else
    real sum = 0;
    for (size_t i = 0; i < VEC_LANES; i++)
        sum += x[i];
    return sum;
#endif
}

/* The largest lane; where there are NaN, any lane. */
static inline real vec_most(vec x)
{
#if defined(__AVX512F__) && !defined(BELAY_REAL_DOUBLE)
    return _mm512_reduce_max_ps((__m512)x);
#else
    real most = x[0];
    for (size_t i = 1; i < VEC_LANES; i++)
        most = x[i] > most ? x[i] : most;
    return most;
#endif
}

/* In each lane x when it is larger, else y: a NaN in x is passed over. */
static inline vec vec_larger(vec x, vec y)
{
#if defined(__AVX512F__) && !defined(BELAY_REAL_DOUBLE)
    return (vec)_mm512_max_ps((__m512)x, (__m512)y);
#else
    __typeof__(x > y) larger = x > y; /* all bits of a lane, or none */
    return (vec)((larger & (__typeof__(larger))x) | (~larger & (__typeof__(larger))y));
#endif
}

#endif
