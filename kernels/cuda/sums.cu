/* sums: one number from a whole array, and one array from those of all ranks.
 *
 * A number: each block has one of its part, in an array that is summed by one more block, or by the host where it waits for the number anyway. Where
 * the order of the additions matters, how many blocks there are and which elements each has depends on the count alone. */
#include "kernels/cuda/sums.h"

#include "kernels/cuda/fill.h"
#include "kernels/cuda/wide.cuh"

#define SUM_WIDTH 4 /* elements a thread takes at a time */
/* at most: more than every device runs at once, and one block can still add them up */
#define SUM_BLOCKS 2048

static unsigned sum_blocks(size_t count)
{
    size_t each = (size_t)THREADS * SUM_WIDTH * 4, blocks = (count + each - 1) / each;
    return (unsigned)(blocks < SUM_BLOCKS ? blocks : SUM_BLOCKS);
}

/* parts (blocks) = sums of squares. Every lane of a thread's elements has a sum of its own, so that additions need not wait for each other; aligned
 * or not, an element is added to the same one. */
template <bool ALIGNED> __global__ void squares_part(double *parts, const float *x, size_t count)
{
    SHARED(double, room, WARP);
    size_t step = (size_t)gridDim.x * THREADS * SUM_WIDTH;
    double sum[SUM_WIDTH] = {0};
    for (size_t at = thread_number() * SUM_WIDTH; at < count; at += step) {
        int n = elements_here<SUM_WIDTH>(at, count);
        float v[SUM_WIDTH];
        if (ALIGNED)
            load_wide<SUM_WIDTH>(v, x + at, n);
        else
            load_each<SUM_WIDTH>(v, x + at, n);
#pragma unroll
        for (int i = 0; i < SUM_WIDTH; i++)
            sum[i] += (double)v[i] * (double)v[i];
    }
    double all = block_sum(sum[0] + sum[1] + (sum[2] + sum[3]), room);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = all;
}

/* *sum += parts (n); one block */
static __global__ void add_parts(double *sum, const double *parts, size_t n)
{
    SHARED(double, room, WARP);
    double mine = 0;
    for (size_t i = threadIdx.x; i < n; i += THREADS)
        mine += parts[i];
    double all = block_sum(mine, room);
    if (threadIdx.x == 0)
        *sum += all;
}

extern "C" void cuda_add_parts(double *sum, const double *parts, size_t n)
{
    LAUNCH(add_parts, 1, THREADS, 0, device_stream(), sum, parts, n);
}

static void sum_of_squares(double *sum, const real *x, size_t count)
{
    unsigned blocks = sum_blocks(count);
    double *parts = (double *)arena_scratch(SCRATCH_SUMS, SUM_BLOCKS * sizeof *parts);
    if (count == 0)
        return;
    if (aligned16(x, 0))
        LAUNCH((squares_part<true>), blocks, THREADS, 0, device_stream(), parts, x, count);
    else
        LAUNCH((squares_part<false>), blocks, THREADS, 0, device_stream(), parts, x, count);
    cuda_add_parts(sum, parts, blocks);
}

/* parts (blocks): is there a NaN or Inf? */
template <int W> __global__ void broken_part(uint64_t *parts, const float *x, size_t count)
{
    size_t step = (size_t)gridDim.x * THREADS * W;
    int broken = 0;
    for (size_t at = thread_number() * W; at < count; at += step) {
        float v[W];
        load_wide<W>(v, x + at, elements_here<W>(at, count));
#pragma unroll
        for (int i = 0; i < W; i++)
            broken |= !(v[i] - v[i] == 0);
    }
    broken = __syncthreads_or(broken);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = broken != 0;
}

/* Waits for the blocks' numbers and gives their sum. */
static uint64_t sum_on_host(const uint64_t *parts, unsigned blocks)
{
    uint64_t sum = 0, *host = (uint64_t *)pinned_take(blocks * sizeof *host);
    CHECK(cudaMemcpyAsync(host, parts, blocks * sizeof *host, cudaMemcpyDeviceToHost, device_stream()));
    device_wait(device_stream());
    for (unsigned i = 0; i < blocks; i++)
        sum += host[i];
    pinned_give(host);
    return sum;
}

static bool all_finite(const real *x, size_t count)
{
    unsigned blocks = sum_blocks(count);
    uint64_t *parts = (uint64_t *)arena_scratch(SCRATCH_SUMS, SUM_BLOCKS * sizeof *parts);
    if (count == 0)
        return true;
    if (aligned16(x, 0))
        LAUNCH((broken_part<SUM_WIDTH>), blocks, THREADS, 0, device_stream(), parts, x, count);
    else
        LAUNCH((broken_part<1>), blocks, THREADS, 0, device_stream(), parts, x, count);
    return sum_on_host(parts, blocks) == 0;
}

/* word i of an array of bytes, which may begin anywhere; what lies behind its end is 0 */
__device__ __forceinline__ uint64_t word_of_bytes(const unsigned char *x, size_t bytes, size_t i)
{
    uint64_t word = 0;
    for (size_t k = 0; k < 8 && i * 8 + k < bytes; k++)
        word |= (uint64_t)x[i * 8 + k] << 8 * k;
    return word;
}

__device__ __forceinline__ uint64_t hash_word(uint64_t word, uint64_t i)
{
    return mix(word ^ mix(i + MIX_STEP));
}

/* parts (blocks) = sums modulo 2^64, whose order does not matter. W words at a time; aligned for it, when W > 1 */
template <int W> __global__ void hash_part(uint64_t *parts, const unsigned char *x, size_t bytes)
{
    SHARED(uint64_t, room, WARP);
    size_t words = bytes / 8, step = (size_t)gridDim.x * THREADS * W;
    uint64_t sum = 0;
    for (size_t at = thread_number() * W; at < words; at += step) {
        int n = elements_here<W>(at, words);
        uint64_t v[W];
        if (W > 1)
            load_wide<W>(v, (const uint64_t *)(const void *)x + at, n);
        else
            v[0] = word_of_bytes(x, bytes, at);
        for (int i = 0; i < n; i++)
            sum += hash_word(v[i], at + i);
    }
    if (thread_number() == 0 && bytes % 8)
        sum += hash_word(word_of_bytes(x, bytes, words), words);
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = sum;
}

static uint64_t hash(const void *x, size_t bytes)
{
    const unsigned char *from = (const unsigned char *)x;
    unsigned blocks = sum_blocks((bytes + 3) / 4);
    uint64_t *parts = (uint64_t *)arena_scratch(SCRATCH_SUMS, SUM_BLOCKS * sizeof *parts);
    if (bytes == 0)
        return 0;
    if (aligned16(from, 0))
        LAUNCH((hash_part<2>), blocks, THREADS, 0, device_stream(), parts, from, bytes);
    else
        LAUNCH((hash_part<1>), blocks, THREADS, 0, device_stream(), parts, from, bytes);
    return sum_on_host(parts, blocks);
}

/* ---- over ranks ---- */

struct rank_terms {
    const char *own, *others;
    size_t stride;
    int rank, size;
};

template <class T> __device__ __forceinline__ const T *term_of(const struct rank_terms *t, int r)
{
    int behind = r - t->rank - 1;
    if (r == t->rank)
        return (const T *)(const void *)t->own;
    return (const T *)(const void *)(t->others + (behind < 0 ? behind + t->size : behind) * t->stride);
}

/* what terms of type T are added up in */
template <class T> struct summed {
    typedef float type;
};
template <> struct summed<double> {
    typedef double type;
};

/* A thread has read all of its elements when it writes them: out may be one of the terms. */
template <int W, class T> __global__ void ranks_each(T *out, struct rank_terms terms, size_t count)
{
    size_t at = thread_number() * W;
    int n = elements_here<W>(at, count);
    typename summed<T>::type sum[W], v[W];
    load_wide<W>(sum, term_of<T>(&terms, 0) + at, n);
    for (int r = 1; r < terms.size; r++) {
        load_wide<W>(v, term_of<T>(&terms, r) + at, n);
#pragma unroll
        for (int i = 0; i < W; i++)
            sum[i] += v[i];
    }
    store_wide<W>(out + at, sum, n);
}

template <class T>
static void sum_ranks(void *out, const struct rank_terms *terms, size_t count, cudaStream_t stream)
{
    T *to = (T *)out;
    bool wide = aligned16(to, 0) && aligned16(terms->own, 0) && aligned16(terms->others, terms->stride);
    LAUNCH_EACH(ranks_each, T, wide, count, stream, to, *terms, count);
}

extern "C" void cuda_sum_ranks(void *out, const void *own, const void *others, size_t stride, int rank,
                               int size, size_t count, enum cuda_sum type, cudaStream_t stream)
{
    struct rank_terms terms = {(const char *)own, (const char *)others, stride, rank, size};
    if (count == 0)
        return;
    switch (type) {
    case CUDA_SUM_FLOAT:
        sum_ranks<float>(out, &terms, count, stream);
        break;
    case CUDA_SUM_BF16:
        sum_ranks<bf16>(out, &terms, count, stream);
        break;
    case CUDA_SUM_DOUBLE:
        sum_ranks<double>(out, &terms, count, stream);
        break;
    }
}

CUDA_FILL(sums)
{
    table->sum_of_squares = sum_of_squares;
    table->all_finite = all_finite;
    table->hash = hash;
}
