/* wide: kernels whose elements have nothing to do with each other. A thread takes W elements that follow each other: as many as 16 bytes of the
 * narrowest type hold, in accesses of 16 bytes, when everything is aligned for that (LAUNCH_EACH is told by its caller); else one. So a kernel is
 * written once, for any W: it loads into registers as floats, computes there, and stores. There is a thread for every W elements and no
 * loop: what waits for memory is many threads. */
#ifndef BELAY_KERNELS_CUDA_WIDE_CUH
#define BELAY_KERNELS_CUDA_WIDE_CUH

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"

/* Starts kernel<W, T>(…) over `count` elements, W of them a thread. */
#define LAUNCH_EACH(kernel, T, wide, count, stream, ...)                                                     \
    ((wide) ? LAUNCH((kernel<pack<T>::size, T>), blocks_each((count), pack<T>::size), THREADS, 0, (stream),  \
                     __VA_ARGS__)                                                                            \
            : LAUNCH((kernel<1, T>), blocks_each((count), 1), THREADS, 0, (stream), __VA_ARGS__))

static inline unsigned blocks_each(size_t count, size_t width)
{
    size_t threads = (count + width - 1) / width;
    return (unsigned)((threads + THREADS - 1) / THREADS);
}

__device__ __forceinline__ size_t thread_number()
{
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

/* How many of the W elements from `at` on there are: W nearly always, 0 for a thread too many. */
template <int W> __device__ __forceinline__ int elements_here(size_t at, size_t count)
{
    return at >= count ? 0 : count - at < W ? (int)(count - at) : W;
}

/* N elements in one access, of up to 16 bytes */
template <class T, int N> struct alignas(N * sizeof(T)) group {
    T x[N];
};

/* Between elements and the numbers that are computed with. */
__device__ __forceinline__ void convert(float *to, float x)
{
    *to = x;
}
__device__ __forceinline__ void convert(double *to, double x)
{
    *to = x;
}
__device__ __forceinline__ void convert(float *to, bf16 x)
{
    *to = to_float(x);
}
__device__ __forceinline__ void convert(bf16 *to, bf16 x)
{
    *to = x; /* to the bit, NaN too */
}
__device__ __forceinline__ void convert(bf16 *to, float x)
{
    *to = from_float<bf16>(x);
}

__device__ __forceinline__ void convert(uint64_t *to, uint64_t x)
{
    *to = x;
}

/* v (W) = the first n elements of x, and 0. */
template <int W, class R, class T> __device__ __forceinline__ void load_each(R *v, const T *x, int n)
{
#pragma unroll
    for (int i = 0; i < W; i++) {
        v[i] = R(); /* 0 */
        if (i < n)
            convert(&v[i], x[i]);
    }
}
template <int W, class R, class T> __device__ __forceinline__ void store_each(T *out, const R *v, int n)
{
#pragma unroll
    for (int i = 0; i < W; i++)
        if (i < n)
            convert(&out[i], v[i]);
}

/* The same; when W > 1, the arrays are aligned for accesses of 16 bytes, or of all W elements where those are fewer bytes. */
template <int W, class R, class T> __device__ __forceinline__ void load_wide(R *v, const T *x, int n)
{
    const int step = W < pack<T>::size ? W : pack<T>::size;
    if (n < W) {
        load_each<W>(v, x, n);
        return;
    }
#pragma unroll
    for (int i = 0; i < W; i += step) {
        group<T, step> some = *(const group<T, step> *)(x + i);
#pragma unroll
        for (int j = 0; j < step; j++)
            convert(&v[i + j], some.x[j]);
    }
}
template <int W, class R, class T> __device__ __forceinline__ void store_wide(T *out, const R *v, int n)
{
    const int step = W < pack<T>::size ? W : pack<T>::size;
    if (n < W) {
        store_each<W>(out, v, n);
        return;
    }
#pragma unroll
    for (int i = 0; i < W; i += step) {
        group<T, step> some;
#pragma unroll
        for (int j = 0; j < step; j++)
            convert(&some.x[j], v[i + j]);
        *(group<T, step> *)(out + i) = some;
    }
}

/* Where element `at` of an array with rows of `width` lies. The device has no division of 64 bits: one takes as long as a whole line of memory. */
struct place {
    size_t row, column;
};
__device__ __forceinline__ struct place place_of(size_t at, size_t width)
{
    struct place p;
    if ((at | width) >> 32) {
        p.row = at / width;
        p.column = at % width;
    } else {
        p.row = (uint32_t)at / (uint32_t)width;
        p.column = (uint32_t)at - (uint32_t)p.row * (uint32_t)width;
    }
    return p;
}

#endif
