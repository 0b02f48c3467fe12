/* hash: the random bits of dropout, by the formula in kernels.h. Written so that a loop over columns becomes vector instructions. */
#ifndef BELAY_KERNELS_CPU_HASH_H
#define BELAY_KERNELS_CPU_HASH_H

#include <stdint.h>

#include "kernels/kernels.h"

/* The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every bit of x reaches every bit of the result. */
static inline uint64_t hash_mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
    x = (x ^ x >> 27) * 0x94D049BB133111EB;
    return x ^ x >> 31;
}

/* what all columns of a row share */
static inline uint64_t hash_row(uint64_t key, uint64_t row)
{
    return hash_mix(key ^ hash_mix(row + 0x9E3779B97F4A7C15));
}

/* the key of one attention head, by its number in the whole model */
static inline uint64_t hash_head(uint64_t key, size_t head)
{
    return hash_mix(key + (head + 1) * 0x9E3779B97F4A7C15);
}

/* 32 bits for one column of the row with hash_row low + 2^32 high */
static inline uint32_t hash_column(uint32_t low, uint32_t high, uint32_t column)
{
    uint32_t x = low + column;
    x = (x ^ x >> 16) * 0x7FEB352D ^ high;
    x = (x ^ x >> 15) * 0x846CA68B;
    return x ^ x >> 16;
}

/* Columns whose hash is below this are dropped. */
static inline uint32_t hash_threshold(double rate)
{
    return (uint32_t)(rate * 4294967296.0);
}

#endif
