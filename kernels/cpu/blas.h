/* blas: OpenBLAS, loaded at run time, and its matrix product of reals. */
#ifndef BELAY_KERNELS_CPU_BLAS_H
#define BELAY_KERNELS_CPU_BLAS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "kernels/real.h"

/* As struct kernel_matrix, of reals. */
struct blas_matrix {
    const real *data;
    size_t stride;
    bool transposed;
};

/* Loads the library; may be called again. 0, or -1 with a sentence. Before anything else here. */
int blas_open(struct err *err);

/* "OpenBLAS 0.3.21 SkylakeX, 2 threads" */
void blas_describe(char *out, size_t size);

/* c (m,n) = a (m,k) b (k,n), or += when accumulate; c has rows of c_stride elements. On the calling thread alone within a parallel region. */
void blas_gemm(size_t m, size_t n, size_t k, struct blas_matrix a, struct blas_matrix b, bool accumulate,
               real *c, size_t c_stride);

#endif
