/* sums: the sums of the backend that are not in the table of kernels. */
#ifndef BELAY_KERNELS_CUDA_SUMS_H
#define BELAY_KERNELS_CUDA_SUMS_H

#include <cuda_runtime.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum cuda_sum {
    CUDA_SUM_FLOAT,
    CUDA_SUM_BF16, /* added up as floats and rounded once */
    CUDA_SUM_DOUBLE
};

/* Enqueues on the stream: out (count) = the term of rank 0 + the term of rank 1 + …, in this order, of `size` ranks: rank `rank`'s lies at own,
 * those of rank+1, rank+2, … and round to rank-1 one after another at `others`, `stride` bytes apart. out may be own. For runtime/comm, whose
 * sum.c gives the same bits on the host; only a NaN may have others. */
void cuda_sum_ranks(void *out, const void *own, const void *others, size_t stride, int rank, int size,
                    size_t count, enum cuda_sum type, cudaStream_t stream);

/* Enqueues on the compute stream: *sum += parts (n), the second level of a sum; in an order that depends on n alone. */
void cuda_add_parts(double *sum, const double *parts, size_t n);

#ifdef __cplusplus
}
#endif

#endif
