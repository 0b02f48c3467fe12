/* hash: the random bits of dropout, by the formula in kernels.h. Written so that a loop over columns becomes vector instructions. */
#ifndef BELAY_KERNELS_CPU_HASH_H
#define BELAY_KERNELS_CPU_HASH_H

#include <stdint.h>

#include "common/mix.h"
#include "kernels/kernels.h"

/* what all columns of a row share */
static inline uint64_t hash_row(uint64_t key, uint64_t row)
{
    return mix64(key ^ mix64(row + MIX_GOLDEN));
}

/* the key of one attention head, by its number in the whole model */
static inline uint64_t hash_head(uint64_t key, size_t head)
{
    return mix64(key + (head + 1) * MIX_GOLDEN);
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
