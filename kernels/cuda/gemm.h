/* gemm: matrix products by cuBLASLt, with what can be done to the result on its way to memory. */
#ifndef BELAY_KERNELS_CUDA_GEMM_H
#define BELAY_KERNELS_CUDA_GEMM_H

#include <cublasLt.h>

#include "kernels/cuda/device.h"
#include "kernels/kernels.h"

/* d (m,n) = what the epilogue makes of: a (m,k) b (k,n) + bias (n) in each row + c (m,n). */
struct product {
    size_t m, n, k;
    struct kernel_matrix a, b;
    cudaDataType_t in, out; /* types of a and b; of c, d, bias and aux */
    const void *c;          /* may be d; NULL: 0 */
    void *d;
    size_t stride;               /* of c and d */
    cublasLtEpilogue_t epilogue; /* CUBLASLT_EPILOGUE_DEFAULT, _BIAS, _GELU_AUX_BIAS, _DGELU */
    const void *bias;            /* of _BIAS */
    void *aux;                   /* (m,n) what gelu is taken of */
    size_t aux_stride;
    /* of products in fp8 */
    cudaDataType_t in_b;            /* type of b */
    const float *a_scale, *b_scale; /* on the device: what the numbers of a and b are multiplied by */
};

/* Enqueues it; false, with nothing done, when cuBLASLt has no way for these types, sizes and alignments. */
bool product_enqueue(const struct product *p);
/* The same without an epilogue, which is always possible. */
void product_plain(const struct product *p);
/* By a kernel of our own, for what cuBLASLt refuses. No epilogue. */
void product_by_tiles(const struct product *p);

/* Version of cuBLASLt as 130100. */
size_t gemm_version(void);

#endif
