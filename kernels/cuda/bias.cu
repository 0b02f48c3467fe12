/* bias: added to each row of an array, and its gradient: sums down the columns. */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/device.h"
#include "kernels/cuda/fill.h"
#include "kernels/cuda/launch.cuh"

/* x NULL: 0 */
template <class T> __global__ void bias_rows(T *out, const T *x, const T *bias, size_t count, size_t c)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        out[i] = from_float<T>((x ? to_float(x[i]) : 0) + to_float(bias[i % c]));
}

template <class T> static void bias_forward(act *out, const act *x, const act *bias, size_t n, size_t c)
{
    if (n * c > 0)
        LAUNCH((bias_rows<T>), blocks_for(n * c), THREADS, 0, device_stream(), elements<T>(out),
               elements<T>(x), elements<T>(bias), n * c, c);
}

template <class T> static void fill(struct kernels *table)
{
    table->bias_forward = bias_forward<T>;
}

CUDA_FILL(bias)
{
    table->type == KERNEL_BF16 ? fill<bf16>(table) : fill<float>(table);
}
