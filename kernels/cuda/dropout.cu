/* dropout: zeros by hash, so that nothing is kept for the backward pass. */
#include "kernels/cuda/drop.cuh"
#include "kernels/cuda/fill.h"
#include "kernels/cuda/wide.cuh"

/* A thread's elements lie in one row. What is dropped is multiplied by 0, not replaced: a NaN shows. */
template <int W, class T>
__global__ void dropout_each(T *out, const T *x, struct drop drop, size_t count, size_t c)
{
    size_t at = thread_number() * W;
    int n = elements_here<W>(at, count);
    if (n == 0)
        return;
    struct place p = place_of(at, c);
    uint64_t row = drop_row(drop, p.row);
    float v[W];
    load_wide<W>(v, x + at, n);
#pragma unroll
    for (int i = 0; i < W; i++)
        v[i] *= drop_factor(drop, row, p.column + i);
    store_wide<W>(out + at, v, n);
}

template <class T>
static void dropout(act *out, const act *x, const struct kernel_dropout *dropout, size_t n, size_t c)
{
    struct drop drop = drop_of(dropout);
    T *to = elements<T>(out);
    const T *from = elements<T>(x);
    if (n * c == 0)
        return;
    if (drop.rows)
        LAUNCH_EACH(dropout_each, T, aligned16(to, c) && aligned16(from, c), n * c, device_stream(), to, from,
                    drop, n * c, c);
    else if (out != x)
        CHECK(cudaMemcpyAsync(out, x, n * c * sizeof(T), cudaMemcpyDeviceToDevice, device_stream()));
}

CUDA_FILL(dropout)
{
    table->dropout = table->type == KERNEL_BF16 ? dropout<bf16> : dropout<float>;
}
