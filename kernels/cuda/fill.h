/* fill: how the files of kernels/cuda become a table: each has one function for each part of it that writes its kernels for elements of one type. */
#ifndef BELAY_KERNELS_CUDA_FILL_H
#define BELAY_KERNELS_CUDA_FILL_H

#include "kernels/kernels.h"

/* the parts, by the names of their files */
#define CUDA_PARTS(X)                                                                                        \
    X(activation)                                                                                            \
    X(adamw)                                                                                                 \
    X(attention)                                                                                             \
    X(bias)                                                                                                  \
    X(convert)                                                                                               \
    X(dropout)                                                                                               \
    X(embedding)                                                                                             \
    X(fp8)                                                                                                   \
    X(gemm)                                                                                                  \
    X(graph)                                                                                                 \
    X(linear)                                                                                                \
    X(loss)                                                                                                  \
    X(memory)                                                                                                \
    X(norm)                                                                                                  \
    X(residual)                                                                                              \
    X(rope)                                                                                                  \
    X(router)                                                                                                \
    X(rows)                                                                                                  \
    X(sums)

/* Fills its part of a table whose `type` is set. */
#define CUDA_FILL(part)    void cuda_fill_##part(struct kernels *table)
#define CUDA_DECLARE(part) CUDA_FILL(part);
CUDA_PARTS(CUDA_DECLARE)
#undef CUDA_DECLARE

#endif
