/* columns: sums down the columns of an array. A block takes 32 threads' worth of columns of some rows; its warps take every eighth row each, and what
 * they found is added up in their order. Long columns are cut into parts, whose sums are an array of the same kind that is summed in turn: the cut
 * depends on the sizes only, and no sum is longer than a few hundred terms. */
#ifndef BELAY_KERNELS_CUDA_COLUMNS_CUH
#define BELAY_KERNELS_CUDA_COLUMNS_CUH

#include "kernels/cuda/wide.cuh"

#define COLUMN_TEAMS  (THREADS / WARP)
#define COLUMN_BLOCKS 1024 /* in all, so that every device is busy */
#define COLUMN_ROWS   64   /* of a part, at least */

/* sum (W) += K rows of x, `stride` elements apart; all are asked for before the first is there. */
template <int W, int K, class T>
__device__ __forceinline__ void columns_rows_added(float *sum, const T *x, size_t stride)
{
    float v[K][W];
#pragma unroll
    for (int k = 0; k < K; k++)
        load_wide<W>(v[k], x + k * stride, W);
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int i = 0; i < W; i++)
            sum[i] += v[k][i];
}

/* The block's warps take turns with the rows from `row` on: sum (W) += the rows of this thread's warp, W columns from x on. */
template <int W, class T>
__device__ __forceinline__ void columns_team_rows(float *sum, const T *x, size_t c, size_t row, size_t end)
{
    for (row += threadIdx.x / WARP; row + 3 * COLUMN_TEAMS < end; row += 4 * COLUMN_TEAMS)
        columns_rows_added<W, 4>(sum, x + row * c, COLUMN_TEAMS * c);
    for (; row < end; row += COLUMN_TEAMS)
        columns_rows_added<W, 1>(sum, x + row * c, 0);
}

/* The sums of all warps, in their order: warp i < W gets column i of those that its lanes stand for. room: THREADS * W numbers. */
template <int W> __device__ __forceinline__ float columns_over_teams(const float *sum, float *room)
{
    int lane = threadIdx.x % WARP, team = threadIdx.x / WARP;
#pragma unroll
    for (int i = 0; i < W; i++)
        room[(team * W + i) * WARP + lane] = sum[i];
    __syncthreads();
    float all = 0;
    for (int k = 0; team < W && k < COLUMN_TEAMS; k++)
        all += room[(k * W + team) * WARP + lane];
    return all;
}

/* out (parts,c) = the sums over `rows` rows of x (n,c) each, or += */
template <int W, class T>
__global__ void columns_part(float *out, bool accumulate, const T *x, size_t rows, size_t n, size_t c)
{
    SHARED(float, room, THREADS *W);
    int lane = threadIdx.x % WARP, team = threadIdx.x / WARP;
    size_t column = ((size_t)blockIdx.x * WARP + lane) * W, part = blockIdx.y;
    size_t begin = part * rows, end = begin + rows < n ? begin + rows : n;
    float sum[W] = {0};
    if (column < c)
        columns_team_rows<W>(sum, x + column, c, begin, end);
    float all = columns_over_teams<W>(sum, room);
    if (team < W && column + team < c) {
        float *to = out + part * c + column + team;
        *to = accumulate ? *to + all : all;
    }
}

/* How many rows each part of (n,c) has. */
template <class T> static inline size_t columns_rows(size_t n, size_t c)
{
    size_t width = (size_t)WARP * pack<T>::size, blocks = (c + width - 1) / width;
    size_t parts = blocks < COLUMN_BLOCKS ? COLUMN_BLOCKS / blocks : 1;
    size_t rows = (n + parts - 1) / parts;
    return rows < COLUMN_ROWS ? COLUMN_ROWS : rows;
}

template <class T>
static inline void columns_sum(float *out, bool accumulate, const T *x, size_t rows, size_t n, size_t c)
{
    bool wide = aligned16(x, c);
    size_t width = WARP * (wide ? pack<T>::size : 1);
    dim3 grid((unsigned)((c + width - 1) / width), (unsigned)((n + rows - 1) / rows));
    if (wide)
        LAUNCH((columns_part<pack<T>::size, T>), grid, THREADS, 0, device_stream(), out, accumulate, x, rows,
               n, c);
    else
        LAUNCH((columns_part<1, T>), grid, THREADS, 0, device_stream(), out, accumulate, x, rows, n, c);
}

/* out (c) += the sums of the columns of parts (n,c). A block has 32 columns and up to 32 threads for each, one of which takes every so-many-th part:
 * there may be few columns and many parts. */
template <class R> __global__ void columns_parts_added(R *out, const R *parts, size_t n, size_t c)
{
    SHARED(R, room, WARP * WARP);
    size_t column = (size_t)blockIdx.x * WARP + threadIdx.x;
    R sum = 0;
    for (size_t part = threadIdx.y; part < n && column < c; part += blockDim.y)
        sum += parts[part * c + column];
    room[threadIdx.y * WARP + threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || column >= c)
        return;
    for (unsigned y = 1; y < blockDim.y; y++)
        sum += room[y * WARP + threadIdx.x];
    out[column] += sum;
}

/* out (c) += the sums of the columns of parts (n,c), n below 4096 or so: the second level of a sum whose first level another kernel has
 * done. The order of additions depends on n alone. */
static inline void columns_add_parts(float *out, const float *parts, size_t n, size_t c)
{
    dim3 block(WARP, n < WARP ? (unsigned)n : WARP);
    if (n > 0 && c > 0)
        LAUNCH((columns_parts_added<float>), (unsigned)((c + WARP - 1) / WARP), block, 0, device_stream(),
               out, parts, n, c);
}

/* out (c) += the sums of the columns of x (n,c), by way of SCRATCH_SUMS. */
template <class T> static inline void columns_add(float *out, const T *x, size_t n, size_t c)
{
    if (n * c == 0)
        return;
    size_t rows = columns_rows<T>(n, c), parts = (n + rows - 1) / rows;
    if (parts == 1) {
        columns_sum(out, true, x, rows, n, c);
        return;
    }
    float *sums = (float *)arena_scratch(SCRATCH_SUMS, parts * c * sizeof *sums);
    columns_sum(sums, false, x, rows, n, c);
    columns_add_parts(out, sums, parts, c);
}

#endif
