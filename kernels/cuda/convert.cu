/* convert: between act and real; sums and multiples of arrays. */
#include "kernels/cuda/fill.h"
#include "kernels/cuda/wide.cuh"

template <int W, class T> __global__ void narrow_each(T *out, const float *x, size_t count)
{
    size_t at = thread_number() * W;
    int n = elements_here<W>(at, count);
    float v[W];
    load_wide<W>(v, x + at, n);
    store_wide<W>(out + at, v, n);
}

template <int W, class T> __global__ void widen_each(float *out, const T *x, size_t count)
{
    size_t at = thread_number() * W;
    int n = elements_here<W>(at, count);
    float v[W];
    load_wide<W>(v, x + at, n);
    store_wide<W>(out + at, v, n);
}

template <int W, class T> __global__ void add_each(T *out, const T *x, size_t count)
{
    size_t at = thread_number() * W;
    int n = elements_here<W>(at, count);
    float sum[W], v[W];
    load_wide<W>(sum, out + at, n);
    load_wide<W>(v, x + at, n);
#pragma unroll
    for (int i = 0; i < W; i++)
        sum[i] += v[i];
    store_wide<W>(out + at, sum, n);
}

template <int W, class T> __global__ void scale_each(T *x, float factor, size_t count)
{
    size_t at = thread_number() * W;
    int n = elements_here<W>(at, count);
    float v[W];
    load_wide<W>(v, x + at, n);
#pragma unroll
    for (int i = 0; i < W; i++)
        v[i] *= factor;
    store_wide<W>(x + at, v, n);
}

/* In fp32 an act is a real. */
static void copy_floats(void *out, const void *x, size_t count)
{
    if (out != x && count > 0)
        CHECK(cudaMemcpyAsync(out, x, count * sizeof(float), cudaMemcpyDeviceToDevice, device_stream()));
}

static void act_from_float(act *out, const real *x, size_t count)
{
    copy_floats(out, x, count);
}

static void float_from_act(real *out, const act *x, size_t count)
{
    copy_floats(out, x, count);
}

static void bf16_from_real(act *out, const real *x, size_t count)
{
    bf16 *to = elements<bf16>(out);
    if (count > 0)
        LAUNCH_EACH(narrow_each, bf16, aligned16(to, 0) && aligned16(x, 0), count, device_stream(), to, x,
                    count);
}

static void real_from_bf16(real *out, const act *x, size_t count)
{
    const bf16 *from = elements<bf16>(x);
    if (count > 0)
        LAUNCH_EACH(widen_each, bf16, aligned16(out, 0) && aligned16(from, 0), count, device_stream(), out,
                    from, count);
}

template <class T> static void add_elements(T *out, const T *x, size_t count)
{
    if (count > 0)
        LAUNCH_EACH(add_each, T, aligned16(out, 0) && aligned16(x, 0), count, device_stream(), out, x, count);
}

template <class T> static void add(act *out, const act *x, size_t count)
{
    add_elements(elements<T>(out), elements<T>(x), count);
}

static void scale_real(real *x, real factor, size_t count)
{
    if (count > 0)
        LAUNCH_EACH(scale_each, float, aligned16(x, 0), count, device_stream(), x, factor, count);
}

CUDA_FILL(convert)
{
    bool half = table->type == KERNEL_BF16;
    table->act_from_real = half ? bf16_from_real : act_from_float;
    table->real_from_act = half ? real_from_bf16 : float_from_act;
    table->add = half ? add<bf16> : add<float>;
    table->add_real = add_elements<float>;
    table->scale_real = scale_real;
}
