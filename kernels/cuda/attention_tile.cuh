/* attention_tile: tiles of bf16 in shared memory and products of them on mma.m16n8k16, for attention_forward.cu and attention_backward.cu.
 *
 * A tile has rows of D elements. Its 16-byte pieces lie so that the eight rows that ldmatrix reads at once are in all banks: piece c of row r is
 * at place c ^ r % 8 of the row. A warp's product has 16 M rows, from left operands in shared memory or from a product that it holds already: the
 * layout of accumulators is that of operands (PTX ISA, "mma.m16n8k16"), two columns to one register. */
#ifndef BELAY_KERNELS_CUDA_ATTENTION_TILE_CUH
#define BELAY_KERNELS_CUDA_ATTENTION_TILE_CUH

#include "kernels/cuda/attention_place.cuh"

/* A warp's 16 M by N sums: x[m][n][2 h + e] is row 16 m + 8 h + lane / 4, column 8 n + 2 (lane % 4) + e. */
template <int M, int N> struct sums {
    float x[M][N / 8][4];
};

__device__ __forceinline__ int lane_of()
{
    return (int)threadIdx.x % WARP;
}
__device__ __forceinline__ int warp_of()
{
    return (int)threadIdx.x / WARP;
}

/* Elements before one of a tile; column: a multiple of 8. A column k further on, k a multiple of 16, is at this ^ k. */
template <int D> __device__ __forceinline__ int tile_at(int row, int column)
{
    return row * D + (column / 8 ^ row % 8) * 8;
}

/* A thread's part of the tiles that COUNT threads copy from one array: its first element, and how many rows there are from it on. */
struct part {
    size_t at;
    int left;
};
/* Of tokens whose first is `at` elements into the array; columns past `size` are nobody's. */
template <int D, int COUNT>
__device__ __forceinline__ part own_part(size_t at, size_t stride, int count, int size)
{
    const int pieces = D / 8;
    int column = (int)threadIdx.x % pieces * 8, row = (int)threadIdx.x / pieces;
    return {at + row * stride + column, column < size ? count - row : 0};
}

/* Starts copying ROWS rows; what is beyond the last row or column becomes 0. */
template <int D, int ROWS, int COUNT>
__device__ __forceinline__ void tile_load(bf16 *tile, const act *x, part p, size_t stride)
{
    const int pieces = D / 8, step = COUNT / pieces;
    static_assert(step % 8 == 0, "a thread's rows lie alike in the tile");
    const bf16 *from = (const bf16 *)(const void *)x + p.at;
    bf16 *to = tile + tile_at<D>((int)threadIdx.x / pieces, (int)threadIdx.x % pieces * 8);
#pragma unroll
    for (int i = 0; i < ROWS; i += step) {
        cp_async16(to + i * D, from, i < p.left);
        from += step * stride;
    }
}

template <int M, int N> __device__ __forceinline__ void clear(sums<M, N> &s)
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                s.x[m][n][i] = 0;
}

/* s += a b^T: a is 16 M rows, b N rows, both of D elements. AT_ONCE: how many of the D / 16 steps the compiler may interleave; with all of them some
 * kernels would take more registers than there are */
template <int D, int AT_ONCE, int M, int N>
__device__ __forceinline__ void add_scores(sums<M, N> &s, const bf16 *a, const bf16 *b)
{
    int lane = lane_of(), left_at = tile_at<D>(lane % 16, lane / 16 * 8),
        right_at = tile_at<D>(lane % 8 + lane / 16 * 8, lane / 8 % 2 * 8);
#pragma unroll AT_ONCE
    for (int k = 0; k < D; k += 16) {
        uint32_t left[M][4];
#pragma unroll
        for (int m = 0; m < M; m++)
            ldmatrix_x4(left[m], a + m * 16 * D + (left_at ^ k));
#pragma unroll
        for (int n = 0; n < N; n += 16) {
            uint32_t right[4];
            ldmatrix_x4(right, b + n * D + (right_at ^ k));
#pragma unroll
            for (int m = 0; m < M; m++) {
                mma_bf16(s.x[m][n / 8], left[m], right);
                mma_bf16(s.x[m][n / 8 + 1], left[m], right + 2);
            }
        }
    }
}

/* 16 M by N of a left operand, from sums, rounded to bf16. */
template <int M, int N> struct operand {
    uint32_t x[M][N / 16][4];
};
template <int M, int N>
__device__ __forceinline__ void to_operand(operand<M, N> &out, const sums<M, N> &s, int m)
{
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            out.x[m][n / 2][n % 2 * 2 + h] = pack_bf16(s.x[m][n][2 * h], s.x[m][n][2 * h + 1]);
}

/* s += p b: b is N rows of D elements */
template <int D, int M, int N>
__device__ __forceinline__ void add_weighed(sums<M, D> &s, const operand<M, N> &p, const bf16 *b)
{
    int right_at = tile_at<D>(lane_of() % 16, lane_of() / 16 * 8);
#pragma unroll
    for (int k = 0; k < N; k += 16) {
#pragma unroll
        for (int n = 0; n < D; n += 16) {
            uint32_t right[4];
            ldmatrix_x4_trans(right, b + k * D + (right_at ^ n));
#pragma unroll
            for (int m = 0; m < M; m++) {
                mma_bf16(s.x[m][n / 8], p.x[m][k / 16], right);
                mma_bf16(s.x[m][n / 8 + 1], p.x[m][k / 16], right + 2);
            }
        }
    }
}

struct alignas(8) four_bf16 {
    uint32_t x[2];
};

/* Row 16 m + 8 h of the lane, times factor, to `to`: neighbouring lanes exchange pairs, so that each writes four elements and four lanes 32 bytes. All lanes
 * call; those with `there` false write nothing. */
template <int M, int D>
__device__ __forceinline__ void store_act(bf16 *to, const sums<M, D> &s, int m, int h, float factor,
                                          bool there, int size)
{
    int t = lane_of() % 4;
    bool odd = t % 2;
#pragma unroll
    for (int n = 0; n < D / 8; n += 2) {
        uint32_t pair[2];
#pragma unroll
        for (int i = 0; i < 2; i++)
            pair[i] = pack_bf16(s.x[m][n + i][2 * h] * factor, s.x[m][n + i][2 * h + 1] * factor);
        uint32_t other = __shfl_xor_sync(ALL_LANES, odd ? pair[0] : pair[1], 1);
        four_bf16 four = {{odd ? other : pair[0], odd ? pair[1] : other}};
        if (there && n * 8 < size)
            *(four_bf16 *)(to + (odd ? n * 8 + 8 + 2 * t - 2 : n * 8 + 2 * t)) = four;
    }
}

struct alignas(8) two_floats {
    float x[2];
};

/* The same to floats: written, or added to what is there. */
template <int M, int D>
__device__ __forceinline__ void store_real(float *to, const sums<M, D> &s, int m, int h, float factor,
                                           bool add, int size)
{
#pragma unroll
    for (int n = 0; n < D / 8; n++) {
        if (n * 8 >= size)
            continue;
        two_floats *x = (two_floats *)(to + n * 8 + 2 * (lane_of() % 4)), two = {{0, 0}};
        if (add)
            two = *x;
        two.x[0] += s.x[m][n][2 * h] * factor;
        two.x[1] += s.x[m][n][2 * h + 1] * factor;
        *x = two;
    }
}

/* A warp's gradients of `count` tokens, times factor, to `whole` (overwritten) or to `sum` (added to), both from element `at` on. */
template <int M, int D>
__device__ __forceinline__ void store_gradient(act *whole, real *sum, size_t at, size_t stride, int count,
                                               int size, const sums<M, D> &s, float factor)
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int i = m * 16 + h * 8 + lane_of() / 4;
            if (whole)
                store_act((bf16 *)(void *)whole + at + i * stride, s, m, h, factor, i < count, size);
            else if (i < count)
                store_real(sum + at + i * stride, s, m, h, factor, true, size);
        }
}

/* For kernels that take more than 48 KiB of shared memory: before their first launch. */
static inline bool allow_shared(const void *kernel, size_t bytes)
{
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    return true;
}

/* Do the tiles' 16-byte copies fit the arrays of a call? */
static inline bool tiles_fit(const struct attention *a)
{
    bool even = a->q_stride % 8 == 0 && a->kv_stride % 8 == 0 && a->out_stride % 8 == 0;
    if (a->batch > 1)
        even = even && a->q_batch % 8 == 0 && a->kv_batch % 8 == 0 && a->out_batch % 8 == 0;
    return a->half && even && a->size % 16 == 0 && a->size <= 128;
}
static inline bool in_pieces(const void *x)
{
    return (uintptr_t)x % 16 == 0; /* NULL, too: an array that the call does not have */
}

#endif
