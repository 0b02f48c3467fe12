/* dropout: zeros by hash, so that nothing is kept for the backward pass. */
#include "kernels/cuda/fill.h"
#include "kernels/cuda/wide.cuh"

/* A thread's elements lie in one row. What is dropped is multiplied by 0, not replaced: a NaN shows. */
template <int W, class T>
__global__ void dropout_each(T *out, const T *x, const uint64_t *rows, uint64_t key, uint32_t threshold,
                             float scale, size_t count, size_t c)
{
    size_t at = thread_number() * W;
    int n = elements_here<W>(at, count);
    if (n == 0)
        return;
    struct place p = place_of(at, c);
    uint64_t row = hash_row(key, rows[p.row]);
    float v[W];
    load_wide<W>(v, x + at, n);
#pragma unroll
    for (int i = 0; i < W; i++)
        v[i] *= hash_column(row, (uint32_t)p.column + i) >= threshold ? scale : 0;
    store_wide<W>(out + at, v, n);
}

template <class T>
static void drop(T *out, const T *x, const struct kernel_dropout *dropout, size_t n, size_t c)
{
    uint32_t threshold = (uint32_t)(dropout->rate * 4294967296.0);
    float scale = (float)(1 / (1 - dropout->rate));
    LAUNCH_EACH(dropout_each, T, aligned16(out, c) && aligned16(x, c), n * c, device_stream(), out, x,
                dropout->rows, dropout->key, threshold, scale, n * c, c);
}

template <class T>
static void dropout(act *out, const act *x, const struct kernel_dropout *dropout, size_t n, size_t c)
{
    if (n * c == 0)
        return;
    if (dropout && dropout->rate > 0)
        drop(elements<T>(out), elements<T>(x), dropout, n, c);
    else if (out != x)
        CHECK(cudaMemcpyAsync(out, x, n * c * sizeof(T), cudaMemcpyDeviceToDevice, device_stream()));
}

CUDA_FILL(dropout)
{
    table->dropout = table->type == KERNEL_BF16 ? dropout<bf16> : dropout<float>;
}
