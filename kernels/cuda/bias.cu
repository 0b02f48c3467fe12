/* bias: added to each row of an array, and its gradient: sums down the columns. */
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/fill.h"
#include "kernels/cuda/wide.cuh"

/* x NULL: 0 */
template <int W, class T> __global__ void bias_each(T *out, const T *x, const T *bias, size_t count, size_t c)
{
    size_t at = thread_number() * W;
    int n = elements_here<W>(at, count);
    struct place p = place_of(at, c);
    float sum[W], v[W];
    load_wide<W>(sum, bias + p.column, n);
    if (x) {
        load_wide<W>(v, x + at, n);
#pragma unroll
        for (int i = 0; i < W; i++)
            sum[i] += v[i];
    }
    store_wide<W>(out + at, sum, n);
}

template <class T> static void bias_forward(act *out, const act *x, const act *bias, size_t n, size_t c)
{
    T *to = elements<T>(out);
    const T *from = elements<T>(x), *add = elements<T>(bias);
    if (n * c > 0)
        LAUNCH_EACH(bias_each, T, aligned16(to, c) && aligned16(from, c) && aligned16(add, c), n * c,
                    device_stream(), to, from, add, n * c, c);
}

template <class T> static void bias_backward(real *dbias, const act *dout, size_t n, size_t c)
{
    columns_add(dbias, elements<T>(dout), n, c);
}

template <class T> static void fill(struct kernels *table)
{
    table->bias_forward = bias_forward<T>;
    table->bias_backward = bias_backward<T>;
}

CUDA_FILL(bias)
{
    table->type == KERNEL_BF16 ? fill<bf16>(table) : fill<float>(table);
}
