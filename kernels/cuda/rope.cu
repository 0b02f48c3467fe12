/* rope: rotary positions. A rotation's inverse is its transpose, so the backward pass turns the gradients back. */
#include "kernels/cuda/fill.h"
#include "kernels/cuda/wide.cuh"

/* The heads of a token, and where they lie. */
struct rope_shape {
    size_t count, size, stride;
};

/* A thread turns W pairs of one head; numbered by token, head and place in the head. */
template <int W, class T>
__global__ void rope_each(T *x, const float *cosine, const float *sine, const int32_t *positions, float sign,
                          struct rope_shape s, size_t pairs)
{
    size_t at = thread_number() * W, half = s.size / 2;
    int n = elements_here<W>(at, pairs);
    if (n == 0)
        return;
    struct place in_head = place_of(at, half), head = place_of(in_head.row, s.count);
    size_t angle = (size_t)positions[head.row] * half + in_head.column;
    T *low = x + head.row * s.stride + head.column * s.size + in_head.column, *high = low + half;
    float a[W], b[W], cos[W], sin[W];
    load_wide<W>(a, low, n);
    load_wide<W>(b, high, n);
    load_wide<W>(cos, cosine + angle, n);
    load_wide<W>(sin, sine + angle, n);
#pragma unroll
    for (int i = 0; i < W; i++) {
        float turned = a[i] * cos[i] - sign * b[i] * sin[i];
        b[i] = b[i] * cos[i] + sign * a[i] * sin[i];
        a[i] = turned;
    }
    store_wide<W>(low, a, n);
    store_wide<W>(high, b, n);
}

template <class T>
static void rope(act *x, const real *cosine, const real *sine, const int32_t *positions, bool back,
                 size_t count, size_t size, size_t stride, size_t n)
{
    T *to = elements<T>(x);
    size_t half = size / 2, pairs = n * count * half;
    struct rope_shape shape = {count, size, stride};
    bool wide = aligned16(to, half) && aligned16(to, size) && aligned16(to, stride) &&
                aligned16(cosine, half) && aligned16(sine, half);
    if (pairs > 0)
        LAUNCH_EACH(rope_each, T, wide, pairs, device_stream(), to, cosine, sine, positions,
                    back ? -1.0f : 1.0f, shape, pairs);
}

CUDA_FILL(rope)
{
    table->rope = table->type == KERNEL_BF16 ? rope<bf16> : rope<float>;
}
