/* mix: the finaliser of SplitMix64 (Steele, Lea, Flood 2014): every bit of x reaches every bit of the result. Numbers that look random are
 * drawn with it as a pure function of what they belong to (seed, sample, element, …). */
#ifndef BELAY_COMMON_MIX_H
#define BELAY_COMMON_MIX_H

#include <stdint.h>

#define MIX_GOLDEN 0x9E3779B97F4A7C15u /* 2^64 over the golden ratio: SplitMix64's step */

static inline uint64_t mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

#endif
