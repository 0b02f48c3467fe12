/* loss: softmax cross-entropy over the vocabulary; a block has one row of logits at a time. The largest logit is taken off first, so that any finite
 * logits give a finite loss; NaN or +Inf among them gives NaN.
 *
 * The denominator takes one pass: each thread keeps the largest logit so far and the sum of e^(logit - largest), which it scales down when it meets
 * a larger one (Milakov, Gimelshein, arXiv 1805.02867). A thread reads LOGITS at a time, and has all of them under way at once. */
#include "kernels/cuda/fill.h"
#include "kernels/cuda/sums.h"
#include "kernels/cuda/wide.cuh"

#define LOSS_THREADS 512
#define LOGITS       16
#define LOSS_STRETCH (LOSS_THREADS * LOGITS) /* what a block reads at a time */

/* The column of a thread's W logits number s from the stretch that begins at column `at` */
template <int W> __device__ __forceinline__ unsigned logits_column(unsigned at, int s)
{
    return at + (s * LOSS_THREADS + threadIdx.x) * W;
}

/* x = this thread's logits of a stretch, `none` for columns from v on. With W > 1 rows begin and end at multiples of W, so that nothing is read behind a row. */
template <int W>
__device__ __forceinline__ void logits_load(float (&x)[LOGITS], const float *row, unsigned at, unsigned v,
                                            float none)
{
#pragma unroll
    for (int s = 0; s < LOGITS / W; s++) {
        unsigned column = logits_column<W>(at, s);
        group<float, W> some = {};
        if (column < v)
            some = *(const group<float, W> *)(row + column);
#pragma unroll
        for (int i = 0; i < W; i++)
            x[s * W + i] = column + i < v ? some.x[i] : none;
    }
}

/* sum of e^(x - most) over what has been seen, and the largest of it; NaN is passed over by `most` and found by `sum` */
struct running {
    float most, sum;
};

/* What is taken off: -Inf cannot be. */
__device__ __forceinline__ float taken_off(float most)
{
    return most == -INFINITY ? 0 : most;
}

__device__ __forceinline__ void running_take(struct running *r, const float (&x)[LOGITS])
{
    float most = r->most, sum = 0;
#pragma unroll
    for (int i = 0; i < LOGITS; i++)
        most = fmaxf(most, x[i]);
    float off = taken_off(most);
#pragma unroll
    for (int i = 0; i < LOGITS; i++)
        sum += expf(x[i] - off);
    r->sum = r->sum * expf(r->most - off) + sum;
    r->most = most;
}

/* Logarithm of the block's sum, for its first thread; the parts are added in double, so that a large vocabulary costs no precision. All -Inf, as NaN, gives NaN. */
__device__ __forceinline__ float running_end(const struct running &r, float *room, double *wide_room)
{
    float most = block_max(r.most, room), off = taken_off(most);
    double sum = block_sum((double)(r.sum * expf(r.most - off)), wide_room);
    return threadIdx.x > 0 ? 0 : most == -INFINITY ? NAN : most + (float)log(sum);
}

/* The target's column in this part of the vocabulary; v when it is in another. */
__device__ __forceinline__ unsigned column_of(int32_t target, int32_t first, unsigned v)
{
    int64_t column = (int64_t)target - first;
    return column >= 0 && column < v ? (unsigned)column : v;
}

template <int W>
__global__ void __launch_bounds__(LOSS_THREADS)
    loss_rows(float *lse, float *chosen, const float *logits, const int32_t *targets, int32_t first, size_t n,
              unsigned v, size_t stride)
{
    SHARED(float, room, WARP);
    SHARED(double, wide_room, WARP);
    for (size_t i = blockIdx.x; i < n; i += gridDim.x) {
        const float *row = logits + i * stride;
        unsigned column = column_of(targets[i], first, v);
        bool counts = targets[i] >= 0;
        struct running r = {-INFINITY, 0};
        for (unsigned at = 0; at < v && counts; at += LOSS_STRETCH) {
            float x[LOGITS];
            logits_load<W>(x, row, at, v, -INFINITY);
            running_take(&r, x);
        }
        float all = running_end(r, room, wide_room);
        if (threadIdx.x == 0) {
            lse[i] = !counts ? 0 : v == 0 ? -INFINITY : all;
            chosen[i] = counts && column < v ? row[column] : 0;
        }
    }
}

static unsigned loss_blocks(size_t n)
{
    size_t most = (size_t)device_blocks() * 16;
    return (unsigned)(n < most ? n : most);
}

static void cross_entropy_local(real *lse, real *chosen, const real *logits, const int32_t *targets,
                                int32_t first, size_t n, size_t v, size_t stride)
{
    if (n == 0)
        return;
    if (aligned16(logits, stride))
        LAUNCH((loss_rows<4>), loss_blocks(n), LOSS_THREADS, 0, device_stream(), lse, chosen, logits, targets,
               first, n, (unsigned)v, stride);
    else
        LAUNCH((loss_rows<1>), loss_blocks(n), LOSS_THREADS, 0, device_stream(), lse, chosen, logits, targets,
               first, n, (unsigned)v, stride);
}

/* log of the sum of e^x over `parts` numbers, `stride` apart; a part without columns adds nothing, even where the others are broken */
__device__ __forceinline__ float combine_lse(const float *x, size_t parts, size_t stride)
{
    float most = -INFINITY;
    double sum = 0;
    for (size_t p = 0; p < parts; p++)
        most = x[p * stride] > most ? x[p * stride] : most;
    for (size_t p = 0; p < parts; p++)
        sum += x[p * stride] == -INFINITY ? 0 : exp((double)x[p * stride] - (double)most);
    return parts == 1 ? x[0] : most + (float)log(sum);
}

/* One thread a token. sums (blocks) = the sum of a block's losses; lse may lie in `all` */
__global__ void loss_combine(double *sums, float *losses, float *lse, const float *all,
                             const int32_t *targets, size_t parts, size_t n)
{
    SHARED(double, room, WARP);
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    float chosen = 0, whole = 0;
    if (i < n && targets[i] >= 0) {
        for (size_t p = 0; p < parts; p++)
            chosen += all[(2 * p + 1) * n + i];
        whole = combine_lse(all + i, parts, 2 * n);
    }
    if (i < n) {
        lse[i] = whole;
        losses[i] = whole - chosen;
    }
    double sum = block_sum((double)(whole - chosen), room);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}

static void cross_entropy_combine(double *sum, real *losses, real *lse, const real *all,
                                  const int32_t *targets, size_t parts, size_t n)
{
    size_t blocks = (n + THREADS - 1) / THREADS;
    if (n == 0)
        return;
    double *sums = (double *)arena_scratch(SCRATCH_SUMS, blocks * sizeof *sums);
    LAUNCH(loss_combine, (unsigned)blocks, THREADS, 0, device_stream(), sums, losses, lse, all, targets,
           parts, n);
    cuda_add_parts(sum, sums, blocks);
}

/* ---- backward ---- */

/* Columns [from, until) of a row, multiples of W, become 0. */
template <int W, class T> __device__ __forceinline__ void zero_columns(T *row, size_t from, size_t until)
{
    for (size_t j = from + threadIdx.x * W; j < until; j += LOSS_THREADS * W)
        *(group<T, W> *)(row + j) = group<T, W>();
}

/* x = scale * (softmax - onehot) */
template <int W>
__device__ __forceinline__ void logits_gradient(float (&x)[LOGITS], unsigned at, float lse, unsigned target,
                                                float scale)
{
#pragma unroll
    for (int s = 0; s < LOGITS / W; s++) {
#pragma unroll
        for (int i = 0; i < W; i++) {
            float p = expf(x[s * W + i] - lse);
            x[s * W + i] = (logits_column<W>(at, s) + i == target ? p - 1 : p) * scale;
        }
    }
}

/* Columns of a stretch, without those from v on, except that W are stored at a time: what comes behind is 0 then. */
template <int W, class T>
__device__ __forceinline__ void logits_store(T *row, const float (&x)[LOGITS], unsigned at, unsigned v)
{
#pragma unroll
    for (int s = 0; s < LOGITS / W; s++) {
        unsigned column = logits_column<W>(at, s);
        group<T, W> some;
#pragma unroll
        for (int i = 0; i < W; i++)
            some.x[i] = column + i < v ? from_float<T>(x[s * W + i]) : T();
        if (column < v)
            *(group<T, W> *)(row + column) = some;
    }
}

/* The gradient may lie on the logits, each row on its own, as narrower elements: the first columns of the gradient then overwrite the first half of as
 * many logits. So a stretch is stored when all of its threads have read it, and what it overwrites ends where it ends itself, at most: the
 * stretches behind it, which others read meanwhile, are whole. */
template <int W, class T>
__global__ void __launch_bounds__(LOSS_THREADS)
    loss_gradient(T *dlogits, size_t dstride, const float *logits, size_t stride, const float *lse,
                  const int32_t *targets, int32_t first, float scale, size_t n, unsigned v)
{
    for (size_t i = blockIdx.x; i < n; i += gridDim.x) {
        const float *row = logits + i * stride;
        T *out = dlogits + i * dstride;
        unsigned target = column_of(targets[i], first, v), end = targets[i] < 0 ? 0 : v;
        for (unsigned at = 0; at < end; at += LOSS_STRETCH) {
            float x[LOGITS];
            logits_load<W>(x, row, at, v, 0);
            __syncthreads();
            logits_gradient<W>(x, at, lse[i], target, scale);
            logits_store<W>(out, x, at, v);
        }
        zero_columns<W>(out, ((size_t)end + W - 1) / W * W, dstride);
    }
}

template <class T>
static void cross_entropy_backward(act *dlogits, size_t dstride, const real *logits, size_t stride,
                                   const real *lse, const int32_t *targets, int32_t first, real scale,
                                   size_t n, size_t v)
{
    T *out = elements<T>(dlogits);
    bool wide = aligned16(logits, stride) && aligned16(out, dstride);
    if (n == 0)
        return;
    if (wide)
        LAUNCH((loss_gradient<4, T>), loss_blocks(n), LOSS_THREADS, 0, device_stream(), out, dstride, logits,
               stride, lse, targets, first, scale, n, (unsigned)v);
    else
        LAUNCH((loss_gradient<1, T>), loss_blocks(n), LOSS_THREADS, 0, device_stream(), out, dstride, logits,
               stride, lse, targets, first, scale, n, (unsigned)v);
}

CUDA_FILL(loss)
{
    table->cross_entropy_local = cross_entropy_local;
    table->cross_entropy_combine = cross_entropy_combine;
    table->cross_entropy_backward =
        table->type == KERNEL_BF16 ? cross_entropy_backward<bf16> : cross_entropy_backward<float>;
}
