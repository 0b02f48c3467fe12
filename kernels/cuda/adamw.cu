/* adamw: one pass over parameters, moments and gradients. It moves 7 numbers a parameter, so memory sets its speed. */
#include <math.h>

#include "kernels/cuda/fill.h"
#include "kernels/cuda/wide.cuh"

/* An update's settings as the loop needs them: with p the parameter, m_hat / (sqrt(v_hat) + eps) has its two bias corrections taken out. */
struct rates {
    float beta1, beta2, fresh1, fresh2, scale, eps, rate, unbias, keep;
};

static struct rates rates_of(const struct kernel_adamw *c)
{
    struct rates r = {};
    r.beta1 = (float)c->beta1;
    r.beta2 = (float)c->beta2;
    r.fresh1 = (float)(1 - c->beta1);
    r.fresh2 = (float)(1 - c->beta2);
    r.scale = (float)c->gradient_scale;
    r.eps = (float)c->eps;
    r.rate = (float)(c->lr / (1 - pow(c->beta1, (double)c->step)));
    r.unbias = (float)(1 / sqrt(1 - pow(c->beta2, (double)c->step)));
    r.keep = (float)(1 - c->lr * c->weight_decay);
    return r;
}

/* How the new parameters become weights: not at all where weights is NULL. */
template <class T> struct rounding {
    T *weights;
    bool stochastic;
    uint64_t key, first;
};

/* x with the bits that a bf16 has no room for taken off: up where the element's random bits are below those. NaN and Inf stay what they are. */
__device__ __forceinline__ float rounded_by_chance(float x, uint32_t chance)
{
    uint32_t bits = (uint32_t)__float_as_int(x);
    if (!(x - x == 0))
        return x;
    return __int_as_float((int)((bits + (0xffff - (chance >> 16))) & 0xffff0000u));
}

template <int W>
__device__ __forceinline__ void store_weights(const struct rounding<bf16> &to, size_t at, float *p, int n)
{
    if (to.stochastic) {
#pragma unroll
        for (int i = 0; i < W; i++)
            p[i] = rounded_by_chance(p[i], hash_column(hash_row(to.key, to.first + at + i), 0));
    }
    store_wide<W>(to.weights + at, p, n);
}
template <int W>
__device__ __forceinline__ void store_weights(const struct rounding<float> &to, size_t at, float *p, int n)
{
    store_wide<W>(to.weights + at, p, n);
}

template <int W, class T>
__global__ void adamw_each(float *parameters, float *m, float *v, const float *gradients,
                           struct rounding<T> to, size_t count, struct rates r)
{
    size_t at = thread_number() * W;
    int n = elements_here<W>(at, count);
    float g[W], first[W], second[W], p[W];
    load_wide<W>(g, gradients + at, n);
    load_wide<W>(first, m + at, n);
    load_wide<W>(second, v + at, n);
    load_wide<W>(p, parameters + at, n);
#pragma unroll
    for (int i = 0; i < W; i++) {
        float x = g[i] * r.scale;
        first[i] = r.beta1 * first[i] + r.fresh1 * x;
        second[i] = r.beta2 * second[i] + r.fresh2 * x * x;
        p[i] = r.keep * p[i] - r.rate * first[i] / (sqrtf(second[i]) * r.unbias + r.eps);
    }
    store_wide<W>(m + at, first, n);
    store_wide<W>(v + at, second, n);
    store_wide<W>(parameters + at, p, n);
    if (to.weights)
        store_weights<W>(to, at, p, n);
}

template <class T>
static void adamw(real *parameters, real *m, real *v, const real *gradients, act *weights, size_t count,
                  const struct kernel_adamw *config)
{
    struct rounding<T> to = {
    };
    if ((void *)weights != parameters)
        to.weights = elements<T>(weights);
    to.stochastic = config->stochastic;
    to.key = config->key;
    to.first = config->first;
    bool wide = aligned16(parameters, 0) && aligned16(m, 0) && aligned16(v, 0) && aligned16(gradients, 0) &&
                aligned16(to.weights, 0);
    if (count > 0)
        LAUNCH_EACH(adamw_each, T, wide, count, device_stream(), parameters, m, v, gradients, to, count,
                    rates_of(config));
}

CUDA_FILL(adamw)
{
    table->adamw = table->type == KERNEL_BF16 ? adamw<bf16> : adamw<float>;
}
