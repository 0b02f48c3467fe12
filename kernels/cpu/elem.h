/* elem: an element of `act` as the CPU kernels see it. Every file of kernels/cpu is compiled once for each type: arithmetic is always in
 * `real`, and elem_load and elem_store are where the types differ. In fp32 and double an element is a real and both vanish; a bf16 is the
 * upper half of a float, rounded to nearest, ties to even; what is too large becomes Inf, and NaN stays NaN. */
#ifndef BELAY_KERNELS_CPU_ELEM_H
#define BELAY_KERNELS_CPU_ELEM_H

#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"

#ifdef BELAY_ACT_BF16
typedef uint16_t elem;
#define ELEM_IS_REAL 0

static inline real elem_load(elem x)
{
    uint32_t bits = (uint32_t)x << 16;
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

static inline elem elem_store(real x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t rounded = bits + 0x7FFF + (bits >> 16 & 1);
    /* The carry of a NaN could leave an Inf or a 0: it keeps its upper half, made quiet. */
    uint32_t kept = x == x ? rounded : bits | 0x400000;
    return (elem)(kept >> 16);
}
#else
typedef real elem;
#define ELEM_IS_REAL 1

static inline real elem_load(elem x)
{
    return x;
}

static inline elem elem_store(real x)
{
    return x;
}
#endif

/* The elements behind what the table of kernels calls an act. */
static inline elem *elems(act *x)
{
    return (elem *)(void *)x;
}
static inline const elem *elems_in(const act *x)
{
    return (const elem *)(const void *)x;
}

#endif
