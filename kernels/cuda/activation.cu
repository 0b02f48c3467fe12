/* activation: GELU and SwiGLU. With the logistic function s(z) = 1/(1 + e^-z): (1 + tanh(u))/2 = s(2u), so both need only e^-|z|, which cannot
 * overflow and from which s and 1-s both come without a difference of nearly equal numbers. */
#include "kernels/cuda/fill.h"
#include "kernels/cuda/wide.cuh"

#define LOG2_E     1.44269504088896341f
#define GELU_SCALE (2 * 0.79788456080286536f) /* 2 sqrt(2/pi) */
#define GELU_CUBIC 0.044715f

/* s(z), 1-s(z) and their product */
struct logistic {
    float is, rest, both;
};
__device__ __forceinline__ struct logistic logistic_of(float z)
{
    float e = exp2_fast(-fabsf(z) * LOG2_E), large = __fdividef(1.0f, 1 + e), small = e * large;
    struct logistic s = {z < 0 ? small : large, z < 0 ? large : small, small * large};
    return s;
}

__device__ __forceinline__ float gelu(float x)
{
    return x * logistic_of(GELU_SCALE * (x + GELU_CUBIC * x * x * x)).is;
}

/* Far out, where s(1-s) is 0, the polynomial beside it may be Inf. */
__device__ __forceinline__ float gelu_slope(float x)
{
    struct logistic s = logistic_of(GELU_SCALE * (x + GELU_CUBIC * x * x * x));
    float bend = x * s.both;
    return bend == 0 ? s.is : s.is + bend * (GELU_SCALE * (1 + 3 * GELU_CUBIC * x * x));
}

template <int W, class T> __global__ void gelu_each(T *out, const T *x, size_t count)
{
    size_t at = thread_number() * W;
    int n = elements_here<W>(at, count);
    float v[W];
    load_wide<W>(v, x + at, n);
#pragma unroll
    for (int i = 0; i < W; i++)
        v[i] = gelu(v[i]);
    store_wide<W>(out + at, v, n);
}

template <int W, class T> __global__ void gelu_slope_each(T *dx, const T *dout, const T *x, size_t count)
{
    size_t at = thread_number() * W;
    int n = elements_here<W>(at, count);
    float v[W], d[W];
    load_wide<W>(v, x + at, n);
    load_wide<W>(d, dout + at, n);
#pragma unroll
    for (int i = 0; i < W; i++)
        d[i] *= gelu_slope(v[i]);
    store_wide<W>(dx + at, d, n);
}

/* wide (N,2F): each row the gates and then what they let through */
template <int W, class T> __global__ void swiglu_each(T *out, const T *wide, size_t count, size_t f)
{
    size_t at = thread_number() * W;
    int n = elements_here<W>(at, count);
    struct place p = place_of(at, f);
    const T *from = wide + p.row * 2 * f + p.column;
    float gate[W], up[W];
    load_wide<W>(gate, from, n);
    load_wide<W>(up, from + f, n);
#pragma unroll
    for (int i = 0; i < W; i++)
        up[i] *= gate[i] * logistic_of(gate[i]).is;
    store_wide<W>(out + at, up, n);
}

template <int W, class T>
__global__ void swiglu_slope_each(T *dwide, const T *dout, const T *wide, size_t count, size_t f)
{
    size_t at = thread_number() * W;
    int n = elements_here<W>(at, count);
    struct place p = place_of(at, f);
    size_t from = p.row * 2 * f + p.column;
    float d[W], gate[W], up[W];
    load_wide<W>(d, dout + at, n);
    load_wide<W>(gate, wide + from, n);
    load_wide<W>(up, wide + from + f, n);
#pragma unroll
    for (int i = 0; i < W; i++) {
        struct logistic s = logistic_of(gate[i]);
        float dgate = d[i] * (s.is * (1 + gate[i] * s.rest) * up[i]);
        up[i] = d[i] * gate[i] * s.is;
        gate[i] = dgate;
    }
    store_wide<W>(dwide + from, gate, n);
    store_wide<W>(dwide + from + f, up, n);
}

template <class T> static void gelu_forward(act *out, const act *x, size_t count)
{
    T *to = elements<T>(out);
    const T *from = elements<T>(x);
    if (count > 0)
        LAUNCH_EACH(gelu_each, T, aligned16(to, 0) && aligned16(from, 0), count, device_stream(), to, from,
                    count);
}

template <class T> static void gelu_backward(act *dx, const act *dout, const act *x, size_t count)
{
    T *to = elements<T>(dx);
    const T *d = elements<T>(dout), *from = elements<T>(x);
    if (count > 0)
        LAUNCH_EACH(gelu_slope_each, T, aligned16(to, 0) && aligned16(d, 0) && aligned16(from, 0), count,
                    device_stream(), to, d, from, count);
}

template <class T> static void swiglu_forward(act *out, const act *wide, size_t n, size_t f)
{
    T *to = elements<T>(out);
    const T *from = elements<T>(wide);
    if (n * f > 0)
        LAUNCH_EACH(swiglu_each, T, aligned16(to, f) && aligned16(from, f), n * f, device_stream(), to, from,
                    n * f, f);
}

template <class T>
static void swiglu_backward(act *dwide, const act *dout, const act *wide, size_t n, size_t f)
{
    T *to = elements<T>(dwide);
    const T *d = elements<T>(dout), *from = elements<T>(wide);
    if (n * f > 0)
        LAUNCH_EACH(swiglu_slope_each, T, aligned16(to, f) && aligned16(d, f) && aligned16(from, f), n * f,
                    device_stream(), to, d, from, n * f, f);
}

template <class T> static void fill(struct kernels *table)
{
    table->gelu_forward = gelu_forward<T>;
    table->gelu_backward = gelu_backward<T>;
    table->swiglu_forward = swiglu_forward<T>;
    table->swiglu_backward = swiglu_backward<T>;
}

CUDA_FILL(activation)
{
    table->type == KERNEL_BF16 ? fill<bf16>(table) : fill<float>(table);
}
