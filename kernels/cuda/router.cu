/* router: which experts a token goes to, and the gradient of that choice through the weights of the chosen. A row has few numbers (one an expert): a
 * warp has one row, and lane l the experts l, l + 32, …. */
#include "kernels/cuda/fill.h"
#include "kernels/cuda/row.cuh"

#define ROUTER_BLOCK dim3(WARP, THREADS / WARP)

/* out (e) = softmax of x (e); returns the logarithm of its denominator. NaN or +Inf in x makes all of it NaN. */
__device__ __forceinline__ float softmax(float *out, const float *x, unsigned e)
{
    float most = -INFINITY, sum = 0;
    for (unsigned j = threadIdx.x; j < e; j += WARP)
        most = fmaxf(most, x[j]);
    most = warp_max(most);
    for (unsigned j = threadIdx.x; j < e; j += WARP)
        sum += out[j] = expf(x[j] - most);
    sum = warp_sum(sum);
    for (unsigned j = threadIdx.x; j < e; j += WARP)
        out[j] /= sum;
    return most + logf(sum);
}

/* One expert of a row in the order of choice: the likeliest first, ties to the lower number. All of a row is NaN or nothing is; p is -1 for NaN. */
struct candidate {
    float p;
    unsigned expert;
};

__device__ __forceinline__ bool comes_before(struct candidate a, struct candidate b)
{
    return a.p > b.p || (a.p == b.p && a.expert < b.expert);
}

/* The first of those that come behind `last`; the same for all lanes */
__device__ __forceinline__ struct candidate next_expert(const float *p, unsigned e, struct candidate last)
{
    struct candidate best = {-2, e};
    for (unsigned j = threadIdx.x; j < e; j += WARP) {
        struct candidate c = {p[j] == p[j] ? p[j] : -1, j};
        if (comes_before(last, c) && comes_before(c, best))
            best = c;
    }
    for (int d = WARP / 2; d > 0; d /= 2) {
        struct candidate other = {__shfl_xor_sync(ALL_LANES, best.p, d),
                                  __shfl_xor_sync(ALL_LANES, best.expert, d)};
        if (comes_before(other, best))
            best = other;
    }
    return best;
}

__global__ void router_rows(float *probabilities, float *weights, int32_t *experts, float *lse,
                            const float *logits, bool normalise, size_t n, unsigned e, unsigned k)
{
    for (size_t i = team_first(); i < n; i += team_count()) {
        float *p = probabilities + i * e, sum = 0;
        float all = softmax(p, logits + i * e, e);
        struct candidate last = {INFINITY, 0};
        for (unsigned j = 0; j < k; j++) {
            last = next_expert(p, e, last);
            float chosen = last.p < 0 ? NAN : last.p;
            sum += chosen;
            if (threadIdx.x == 0) {
                experts[i * k + j] = (int32_t)last.expert;
                weights[i * k + j] = chosen;
            }
        }
        __syncwarp();
        for (unsigned j = threadIdx.x; j < k && normalise; j += WARP)
            weights[i * k + j] /= sum;
        if (threadIdx.x == 0)
            lse[i] = all;
    }
}

static void router_forward(real *probabilities, real *weights, int32_t *experts, real *lse,
                           const real *logits, bool normalise, size_t n, size_t e, size_t k)
{
    if (n * e > 0)
        LAUNCH(router_rows, team_blocks(n, ROUTER_BLOCK), ROUTER_BLOCK, 0, device_stream(), probabilities,
               weights, experts, lse, logits, normalise, n, (unsigned)e, (unsigned)k);
}

/* One row of what the gradient is computed from. */
struct choice {
    const float *p;         /* (e) */
    const float *weights;   /* (k) */
    const float *dweights;  /* (k) */
    const int32_t *experts; /* (k) */
    float sum, mean;        /* of the chosen: their p; dw w */
    unsigned k;
};

/* w_i = p_i / sum(p of the chosen), hence dp_i = (dw_i - sum(dw w)) / sum(p of the chosen); without `normalise` dp_i = dw_i. */
__device__ __forceinline__ void choice_sums(struct choice *c, bool normalise)
{
    c->sum = normalise ? 0 : 1;
    c->mean = 0;
    for (unsigned j = 0; j < c->k && normalise; j++) {
        c->sum += c->p[c->experts[j]];
        c->mean += c->dweights[j] * c->weights[j];
    }
}

/* Gradient of one expert's probability through the weights */
__device__ __forceinline__ float through_weights(const struct choice &c, unsigned expert)
{
    float d = 0;
    for (unsigned j = 0; j < c.k; j++)
        if ((unsigned)c.experts[j] == expert)
            d += (c.dweights[j] - c.mean) / c.sum;
    return d;
}

/* x (e): gradient of the probabilities, each lane's own -> of the logits */
__device__ __forceinline__ void through_softmax(float *x, const float *p, float z, unsigned e)
{
    float mean = 0;
    for (unsigned j = threadIdx.x; j < e; j += WARP)
        mean += p[j] * x[j];
    mean = warp_sum(mean);
    for (unsigned j = threadIdx.x; j < e; j += WARP)
        x[j] = p[j] * (x[j] - mean + z);
}

__global__ void router_gradient(float *dlogits, const float *dweights, const float *dprobabilities,
                                const float *probabilities, const float *weights, const int32_t *experts,
                                const float *lse, float z_scale, bool normalise, size_t n, unsigned e,
                                unsigned k)
{
    for (size_t i = team_first(); i < n; i += team_count()) {
        struct choice c = {
            probabilities + i * e, weights + i * k, dweights + i * k, experts + i * k, 1, 0, k};
        float *d = dlogits + i * e;
        choice_sums(&c, normalise);
        for (unsigned j = threadIdx.x; j < e; j += WARP)
            d[j] = (dprobabilities ? dprobabilities[i * e + j] : 0) + through_weights(c, j);
        through_softmax(d, c.p, z_scale * 2 * lse[i], e);
    }
}

static void router_backward(real *dlogits, const real *dweights, const real *dprobabilities,
                            const real *probabilities, const real *weights, const int32_t *experts,
                            const real *lse, real z_scale, bool normalise, size_t n, size_t e, size_t k)
{
    if (n * e > 0)
        LAUNCH(router_gradient, team_blocks(n, ROUTER_BLOCK), ROUTER_BLOCK, 0, device_stream(), dlogits,
               dweights, dprobabilities, probabilities, weights, experts, lse, z_scale, normalise, n,
               (unsigned)e, (unsigned)k);
}

CUDA_FILL(router)
{
    table->router_forward = router_forward;
    table->router_backward = router_backward;
}
