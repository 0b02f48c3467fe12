/* drop: dropout within a kernel's loop over rows; kernels/cpu/drop.h says the same for the CPU. */
#ifndef BELAY_KERNELS_CUDA_DROP_CUH
#define BELAY_KERNELS_CUDA_DROP_CUH

#include "kernels/cuda/device.cuh"
#include "kernels/kernels.h"

/* struct kernel_dropout for a kernel; rows NULL: nothing is dropped. */
struct drop {
    const uint64_t *rows;
    uint64_t key;
    uint32_t threshold;
    float scale; /* of what is kept */
};

static inline struct drop drop_of(const struct kernel_dropout *d)
{
    struct drop out = {NULL, 0, 0, 1};
    if (d && d->rate > 0) {
        out.rows = d->rows;
        out.key = d->key;
        out.threshold = (uint32_t)(d->rate * 4294967296.0);
        out.scale = (float)(1 / (1 - d->rate));
    }
    return out;
}

/* What drop_factor needs of row number `row`. */
__device__ __forceinline__ uint64_t drop_row(const struct drop &drop, size_t row)
{
    return drop.rows ? hash_row(drop.key, drop.rows[row]) : 0;
}

/* What an element is multiplied with: 0 where it is dropped, so that a NaN shows. */
__device__ __forceinline__ float drop_factor(const struct drop &drop, uint64_t row, size_t column)
{
    return hash_column(row, (uint32_t)column) >= drop.threshold ? drop.scale : 0;
}

#endif
