/* rows: tokens on their way to the experts and back. A team of threads has one row (row.cuh), in pieces of 16 bytes where rows are aligned, else of one
 * element; a slot occurs once, so nothing meets. */
#include "kernels/cuda/fill.h"
#include "kernels/cuda/row.cuh"
#include "kernels/cuda/wide.cuh"

#define ROWS_MOST    256 /* threads of a team */
#define ROWS_HELD    4   /* pieces of a row that a thread has under way */
#define ROWS_AT_ONCE 2   /* rows whose piece it has under way, where it sums several */

/* Starts kernel<W, T> with a team for each of n rows of c elements. */
#define LAUNCH_ROWS(kernel, T, wide, n, c, ...)                                                              \
    ((wide)                                                                                                  \
         ? LAUNCH((kernel<pack<T>::size, T>), rows_blocks((n), (c) / pack<T>::size),                         \
                  rows_team((c) / pack<T>::size), 0, device_stream(), __VA_ARGS__)                           \
         : LAUNCH((kernel<1, T>), rows_blocks((n), (c)), rows_team((c)), 0, device_stream(), __VA_ARGS__))

static dim3 rows_team(size_t pieces)
{
    return team_block(pieces, ROWS_HELD, ROWS_MOST);
}
static unsigned rows_blocks(size_t n, size_t pieces)
{
    return team_blocks(n, rows_team(pieces));
}

/* x = row's pieces that a thread has from piece `at` on */
template <int W, class T>
__device__ __forceinline__ void rows_load(group<T, W> (&x)[ROWS_HELD], const T *row, size_t at, size_t pieces)
{
#pragma unroll
    for (int s = 0; s < ROWS_HELD; s++)
        if (at + slot_piece(s) < pieces)
            x[s] = ((const group<T, W> *)row)[at + slot_piece(s)];
}
template <int W, class T>
__device__ __forceinline__ void rows_store(T *row, const group<T, W> (&x)[ROWS_HELD], size_t at,
                                           size_t pieces)
{
#pragma unroll
    for (int s = 0; s < ROWS_HELD; s++)
        if (at + slot_piece(s) < pieces)
            ((group<T, W> *)row)[at + slot_piece(s)] = x[s];
}

template <int W, class T>
__global__ void gather_rows(T *out, const T *x, const int32_t *index, size_t n, size_t c)
{
    size_t pieces = c / W;
    for (size_t i = team_first(); i < n; i += team_count()) {
        int32_t from = index[i];
        for (size_t at = 0; at < pieces; at += ROWS_HELD * blockDim.x) {
            group<T, W> some[ROWS_HELD] = {};
            if (from >= 0)
                rows_load(some, x + (size_t)from * c, at, pieces);
            rows_store(out + i * c, some, at, pieces);
        }
    }
}

template <class T> static void rows_gather(act *out, const act *x, const int32_t *index, size_t n, size_t c)
{
    T *to = elements<T>(out);
    const T *from = elements<T>(x);
    if (n * c > 0)
        LAUNCH_ROWS(gather_rows, T, aligned16(to, c) && aligned16(from, c), n, c, to, from, index, n, c);
}

/* What a token's rows are combined from. */
template <class T> struct combined {
    const T *rows;
    const int32_t *slots; /* (n,k) */
    const float *weights; /* (n,k), or NULL: all 1 */
    size_t k, c;
};

/* sum (W) += piece number `piece` of the rows of token i, in their order; ROWS_AT_ONCE of them are under way at once. */
template <int W, class T>
__device__ __forceinline__ void combine_piece(float (&sum)[W], const combined<T> &a, size_t i, size_t piece)
{
    for (size_t first = i * a.k; first < (i + 1) * a.k; first += ROWS_AT_ONCE) {
        group<T, W> some[ROWS_AT_ONCE];
        int32_t slots[ROWS_AT_ONCE];
#pragma unroll
        for (int j = 0; j < ROWS_AT_ONCE; j++) {
            slots[j] = first + j < (i + 1) * a.k ? a.slots[first + j] : -1;
            if (slots[j] >= 0)
                some[j] = ((const group<T, W> *)(a.rows + (size_t)slots[j] * a.c))[piece];
        }
#pragma unroll
        for (int j = 0; j < ROWS_AT_ONCE; j++) {
            if (slots[j] < 0)
                continue;
            float weight = a.weights ? a.weights[first + j] : 1;
#pragma unroll
            for (int e = 0; e < W; e++)
                sum[e] += weight * to_float(some[j].x[e]);
        }
    }
}

template <int W, class T> __global__ void combine_rows(T *out, bool accumulate, combined<T> a, size_t n)
{
    for (size_t i = team_first(); i < n; i += team_count()) {
        for (size_t piece = threadIdx.x; piece < a.c / W; piece += blockDim.x) {
            group<T, W> *to = (group<T, W> *)(out + i * a.c) + piece, all = {};
            float sum[W];
            if (accumulate)
                all = *to;
#pragma unroll
            for (int e = 0; e < W; e++)
                sum[e] = to_float(all.x[e]);
            combine_piece<W>(sum, a, i, piece);
#pragma unroll
            for (int e = 0; e < W; e++)
                all.x[e] = from_float<T>(sum[e]);
            *to = all;
        }
    }
}

template <class T>
static void rows_combine(act *out, bool accumulate, const act *rows, const int32_t *slots,
                         const real *weights, size_t n, size_t k, size_t c)
{
    combined<T> a = {elements<T>(rows), slots, weights, k, c};
    T *to = elements<T>(out);
    if (n * c > 0)
        LAUNCH_ROWS(combine_rows, T, aligned16(to, c) && aligned16(a.rows, c), n, c, to, accumulate, a, n);
}

/* drow (c) = weight * dout; gives this thread's part of dout . row, when `dot`. drow may be row: a thread has read its pieces when it writes them. */
template <int W, class T>
__device__ __forceinline__ float combine_gradient(T *drow, const T *dout, const T *row, float weight,
                                                  bool dot, size_t c)
{
    float sum = 0;
    for (size_t at = 0; at < c / W; at += ROWS_HELD * blockDim.x) {
        group<T, W> d[ROWS_HELD] = {}, x[ROWS_HELD] = {};
        rows_load(d, dout, at, c / W);
        if (dot)
            rows_load(x, row, at, c / W);
#pragma unroll
        for (int s = 0; s < ROWS_HELD; s++)
#pragma unroll
            for (int e = 0; e < W; e++) {
                float g = to_float(d[s].x[e]);
                sum += g * to_float(x[s].x[e]);
                d[s].x[e] = from_float<T>(weight * g);
            }
        rows_store(drow, d, at, c / W);
    }
    return sum;
}

/* A team has one slot of a token at a time: dout's row comes from the cache for all but the first. */
template <int W, class T>
__global__ void combine_rows_backward(T *drows, float *dweights, const T *dout, combined<T> a, size_t n)
{
    SHARED(float, sums, TEAM_ROOM);
    struct team_room room = {sums, 0};
    for (size_t i = team_first(); i < n * a.k; i += team_count()) {
        float dot[1] = {0};
        if (a.slots[i] >= 0) {
            size_t at = (size_t)a.slots[i] * a.c;
            dot[0] = combine_gradient<W>(drows + at, dout + i / a.k * a.c, a.rows + at,
                                         a.weights ? a.weights[i] : 1, dweights != NULL, a.c);
        }
        if (!dweights)
            continue;
        team_sum(dot, &room);
        if (threadIdx.x == 0)
            dweights[i] = dot[0];
    }
}

template <class T>
static void rows_combine_backward(act *drows, real *dweights, const act *dout, const act *rows,
                                  const int32_t *slots, const real *weights, size_t n, size_t k, size_t c)
{
    combined<T> a = {elements<T>(rows), slots, weights, k, c};
    T *to = elements<T>(drows);
    const T *from = elements<T>(dout);
    bool wide = aligned16(to, c) && aligned16(from, c) && aligned16(a.rows, c);
    if (n * k * c > 0)
        LAUNCH_ROWS(combine_rows_backward, T, wide, n * k, c, to, dweights, from, a, n);
}

template <class T> static void fill(struct kernels *table)
{
    table->rows_gather = rows_gather<T>;
    table->rows_combine = rows_combine<T>;
    table->rows_combine_backward = rows_combine_backward<T>;
}

CUDA_FILL(rows)
{
    table->type == KERNEL_BF16 ? fill<bf16>(table) : fill<float>(table);
}
