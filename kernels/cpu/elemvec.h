/* elemvec: vectors of reals from elements of act, and back. */
#ifndef BELAY_KERNELS_CPU_ELEMVEC_H
#define BELAY_KERNELS_CPU_ELEMVEC_H

#include "kernels/cpu/elem.h"
#include "kernels/cpu/vec.h"

static inline vec elemvec_load(const elem *x)
{
#if ELEM_IS_REAL
    return vec_load(x);
#elif defined(__AVX512F__)
    __m512i upper = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)x));
    return (vec)_mm512_castsi512_ps(_mm512_slli_epi32(upper, 16));
#else
    real wide[VEC_LANES];
#pragma omp simd
    for (size_t i = 0; i < VEC_LANES; i++)
        wide[i] = elem_load(x[i]);
    return vec_load(wide);
#endif
}

static inline void elemvec_store(elem *out, vec x)
{
#if ELEM_IS_REAL
    vec_store(out, x);
#elif defined(__AVX512F__)
    /* as elem_store */
    __m512i bits = _mm512_castps_si512((__m512)x);
    __m512i odd = _mm512_and_epi32(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    __mmask16 broken = _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, broken, bits, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256((__m256i *)(void *)out, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
#else
    real wide[VEC_LANES];
    vec_store(wide, x);
#pragma omp simd
    for (size_t i = 0; i < VEC_LANES; i++)
        out[i] = elem_store(wide[i]);
#endif
}

/* The last `count` < VEC_LANES elements of an array; lanes beyond them are 0, and are not stored. */
static inline vec elemvec_load_some(const elem *x, size_t count)
{
    elem some[VEC_LANES] = {0};
    memcpy(some, x, count * sizeof *x);
    return elemvec_load(some);
}

static inline void elemvec_store_some(elem *out, vec x, size_t count)
{
    elem some[VEC_LANES];
    elemvec_store(some, x);
    memcpy(out, some, count * sizeof *out);
}

#endif
