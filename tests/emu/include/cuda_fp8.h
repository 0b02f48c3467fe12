/* cuda_fp8: the toolkit's numbers of 8 bits on the host, as far as kernels/cuda uses them (tests/emu): e4m3 (4 bits of exponent, no infinity,
 * largest 448) and e5m2 (5 bits, largest 57344). "FP8 Formats for Deep Learning", arXiv 2209.05433. */
#ifndef BELAY_TESTS_EMU_CUDA_FP8_H
#define BELAY_TESTS_EMU_CUDA_FP8_H

#include <math.h>
#include <stdint.h>

typedef unsigned char __nv_fp8_storage_t;
typedef enum { __NV_NOSAT, __NV_SATFINITE } __nv_saturation_t;
typedef enum { __NV_E4M3, __NV_E5M2 } __nv_fp8_interpretation_t;

/* To nearest, ties to even. Beyond the largest: the largest (__NV_SATFINITE), else NaN (e4m3) or infinity (e5m2). */
static inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturate,
                                                       __nv_fp8_interpretation_t kind)
{
    int mantissa = kind == __NV_E4M3 ? 3 : 2, bias = kind == __NV_E4M3 ? 7 : 15;
    int largest = kind == __NV_E4M3 ? 0x7e : 0x7b;
    int sign = signbit(x) ? 0x80 : 0;
    if (isnan(x))
        return (__nv_fp8_storage_t)(sign | 0x7f);
    double size = fabs((double)x);
    int code = largest + 1;
    if (size < 65536 * 2) {
        int exponent = size > 0 ? ilogb(size) : 1 - bias;
        if (exponent < 1 - bias)
            exponent = 1 - bias;
        /* in units of the last place; a number that rounds up to the next exponent carries into it */
        code = ((exponent + bias - 1) << mantissa) + (int)rint(ldexp(size, mantissa - exponent));
    }
    if (code > largest)
        code = saturate == __NV_SATFINITE ? largest : kind == __NV_E4M3 ? 0x7f : 0x7c;
    return (__nv_fp8_storage_t)(sign | code);
}

static inline float emu_fp8_to_float(__nv_fp8_storage_t bits, __nv_fp8_interpretation_t kind)
{
    int mantissa = kind == __NV_E4M3 ? 3 : 2, bias = kind == __NV_E4M3 ? 7 : 15;
    int code = bits & 0x7f, exponent = code >> mantissa, fraction = code & ((1 << mantissa) - 1);
    double size = exponent > 0 ? ldexp((1 << mantissa) + fraction, exponent - bias - mantissa)
                               : ldexp(fraction, 1 - bias - mantissa);
    if (kind == __NV_E4M3 ? code == 0x7f : code > 0x7c)
        size = NAN;
    else if (kind == __NV_E5M2 && code == 0x7c)
        size = INFINITY;
    return (float)(bits & 0x80 ? -size : size);
}

#ifdef __cplusplus
/* From float these saturate. */
struct __nv_fp8_e4m3 {
    __nv_fp8_storage_t __x;
    __nv_fp8_e4m3() = default;
    explicit __nv_fp8_e4m3(float x) : __x(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3)) {}
    explicit operator float() const
    {
        return emu_fp8_to_float(__x, __NV_E4M3);
    }
};

struct __nv_fp8_e5m2 {
    __nv_fp8_storage_t __x;
    __nv_fp8_e5m2() = default;
    explicit __nv_fp8_e5m2(float x) : __x(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2)) {}
    explicit operator float() const
    {
        return emu_fp8_to_float(__x, __NV_E5M2);
    }
};
#endif

#endif
