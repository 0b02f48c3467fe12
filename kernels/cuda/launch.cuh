/* launch: how host functions of the table start their kernels. */
#ifndef BELAY_KERNELS_CUDA_LAUNCH_CUH
#define BELAY_KERNELS_CUDA_LAUNCH_CUH

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/device.h"
#include "kernels/kernels.h"

#define THREADS 256 /* of a block, where nothing asks for another number */

/* Blocks of THREADS for a loop over `count` elements with the grid's stride. */
static inline unsigned blocks_for(size_t count)
{
    size_t blocks = (count + THREADS - 1) / THREADS, most = (size_t)device_blocks();
    return (unsigned)(blocks < most ? blocks : most);
}

/* The elements behind what the table of kernels calls an act. */
template <class T> static inline T *elements(act *x)
{
    return (T *)(void *)x;
}
template <class T> static inline const T *elements(const act *x)
{
    return (const T *)(const void *)x;
}

/* May 16 bytes be read at once from here on, in steps of `stride` elements? */
template <class T> static inline bool aligned16(const T *x, size_t stride)
{
    return (uintptr_t)x % 16 == 0 && stride * sizeof(T) % 16 == 0;
}

#endif
