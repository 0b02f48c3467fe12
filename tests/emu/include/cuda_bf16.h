/* cuda_bf16: the toolkit's bf16 on the host, as far as kernels/cuda uses it (tests/emu). */
#ifndef BELAY_TESTS_EMU_CUDA_BF16_H
#define BELAY_TESTS_EMU_CUDA_BF16_H

#include <stdint.h>
#include <string.h>

struct __nv_bfloat16 {
    uint16_t bits;
};

static inline float __bfloat162float(__nv_bfloat16 x)
{
    uint32_t bits = (uint32_t)x.bits << 16;
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

/* To nearest, ties to even; every NaN becomes 0x7fff, as on the device. */
static inline __nv_bfloat16 __float2bfloat16_rn(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    __nv_bfloat16 out;
    out.bits = x == x ? (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16) : (uint16_t)0x7fff;
    return out;
}

#endif
