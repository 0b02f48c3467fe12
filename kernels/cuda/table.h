/* table: the tables of the device's kernels. */
#ifndef BELAY_KERNELS_CUDA_TABLE_H
#define BELAY_KERNELS_CUDA_TABLE_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C"
#endif
    const struct kernels *
    kernels_cuda(enum kernel_type type);

#endif
