/* fill: how the files of kernels/cpu become a table. Each is compiled once for each type of act, keeps its kernels to itself, and has one
 * function with an outer name, FILL(part), that writes them into the table of its type. */
#ifndef BELAY_KERNELS_CPU_FILL_H
#define BELAY_KERNELS_CPU_FILL_H

#include "kernels/kernels.h"

/* the parts, by the names of their files */
#define FILL_PARTS(X)                                                                                        \
    X(activation)                                                                                            \
    X(adamw)                                                                                                 \
    X(attention)                                                                                             \
    X(bias)                                                                                                  \
    X(convert)                                                                                               \
    X(dropout)                                                                                               \
    X(embedding)                                                                                             \
    X(gemm)                                                                                                  \
    X(linear)                                                                                                \
    X(loss)                                                                                                  \
    X(memory)                                                                                                \
    X(norm)                                                                                                  \
    X(residual)                                                                                              \
    X(rope)                                                                                                  \
    X(router)                                                                                                \
    X(rows)

#ifdef BELAY_ACT_BF16
#define FILL(part) kernels_fill_##part##_bf16
#else
#define FILL(part) kernels_fill_##part##_fp32
#endif

#define FILL_DECLARE(part)                                                                                   \
    void kernels_fill_##part##_fp32(struct kernels *table);                                                  \
    void kernels_fill_##part##_bf16(struct kernels *table);
FILL_PARTS(FILL_DECLARE)
#undef FILL_DECLARE

#endif
