/* attention: one call of attention as its paths get it. attention.cu makes it from what the table was called with, and chooses the path:
 * attention_plain.cu takes everything, attention_forward.cu and attention_backward.cu bf16 in aligned rows, attention_hopper.cu
 * what wgmma is worth it for. */
#ifndef BELAY_KERNELS_CUDA_ATTENTION_H
#define BELAY_KERNELS_CUDA_ATTENTION_H

#include "kernels/cuda/device.cuh"
#include "kernels/kernels.h"

#define ATTENTION_SIZE 256 /* largest head */

/* Goes to kernels by value, so it has no pointer to memory of the host. Layout and positions are those of struct kernel_attention; numbers of
 * tokens and heads are < 2^31. */
struct attention {
    bool half; /* act is bf16, else float */
    bool causal;
    bool first; /* forward of a block: out and lse are overwritten; else merged into */
    int batch, queries, keys, heads, kv_heads, size;
    size_t q_stride, q_batch, kv_stride, kv_batch, out_stride, out_batch, lse_stride;
    float scale; /* 1/sqrt(size) */

    /* dropout: what hashes below the threshold is dropped, the rest multiplied by `keep`; threshold 0: nothing is */
    uint32_t threshold;
    float keep;
    uint64_t key;
    const uint64_t *rows; /* (batch) of the device */
    size_t q_position, k_position, first_head;

    const act *q, *k, *v;

    /* forward: one of the two outs, the other is NULL. out: whole sequences, rounded once; out_sum: a block */
    act *out;
    real *out_sum;
    real *lse;

    /* backward: dq, dk, dv of whole sequences are overwritten; or, those NULL, the sums of a block added to */
    const act *dout, *kept_out;
    const real *kept_lse;
    act *dq, *dk, *dv;
    real *dq_sum, *dk_sum, *dv_sum;
};

/* Keys that query `row` sees: 0 .. sees - 1. */
__host__ __device__ __forceinline__ int attention_sees(const struct attention &a, int row)
{
    int seen = a.keys - a.queries + row + 1;
    if (!a.causal || seen > a.keys)
        seen = a.keys;
    return seen > 0 ? seen : 0;
}

/* The first query that sees key `key`; it and all behind it do. */
__host__ __device__ __forceinline__ int attention_first_query(const struct attention &a, int key)
{
    int row = key - (a.keys - a.queries);
    return a.causal && row > 0 ? row : 0;
}

#define LOG2_E 1.44269504088896f
#define LN_2   0.693147180559945f

/* hash_row of a query's dropped probabilities, for attention_drop */
__device__ __forceinline__ uint64_t attention_hash(const struct attention &a, int b, int head, int row)
{
    return hash_row(hash_head(a.key, a.first_head + head), a.rows[b] + a.q_position + row);
}
/* p, dropped or scaled up */
__device__ __forceinline__ float attention_drop(const struct attention &a, float p, uint64_t row, int key)
{
    return hash_column(row, (uint32_t)a.k_position + key) < a.threshold ? p * 0 : p * a.keep;
}

/* What the backward pass wants to know of each query of each head, (batch, heads, queries): made by attention_rows, read in one 16-byte access. */
struct alignas(16) attention_row {
    float lse;     /* in base 2 */
    float delta;   /* sum of dout * out */
    uint64_t hash; /* hash_row of its dropout; 0 without */
};

/* Enqueues the making of the rows of a backward call; they are valid until the next. */
const struct attention_row *attention_rows(const struct attention *a);

/* Each enqueues the call. The last four return false, and do nothing, when they are not for such a call (or switched off: they ask the
 * environment themselves). */
void attention_plain_forward(const struct attention *a);
void attention_plain_backward(const struct attention *a);
bool attention_mma_forward(const struct attention *a);
bool attention_mma_backward(const struct attention *a);
bool attention_hopper_forward(const struct attention *a);
bool attention_hopper_backward(const struct attention *a);

#endif
