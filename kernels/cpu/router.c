/* router: which experts a token goes to, and the gradient of that choice through the weights of the chosen. A row has few numbers (one an
 * expert), so rows are shared among threads and the loops within are plain. */
#include <math.h>

#include "kernels/cpu/fill.h"
#include "kernels/cpu/parts.h"
#include "kernels/cpu/vmath.h"

/* out (e) = softmax of x (e); returns the logarithm of its denominator. NaN or +Inf in x makes all of it NaN. */
static real softmax(real *out, const real *x, size_t e)
{
    real most = x[0], sum = 0;
    for (size_t j = 0; j < e; j++)
        most = x[j] > most ? x[j] : most;
    for (size_t j = 0; j < e; j++)
        sum += out[j] = real_exp(x[j] - most);
    for (size_t j = 0; j < e; j++)
        out[j] /= sum;
    /* e > 0, and the largest adds 1 to the sum */
    /* cppcheck-suppress invalidFunctionArg */
    return most + (real)log((double)sum);
}

static bool taken(const int32_t *experts, size_t count, size_t expert)
{
    for (size_t i = 0; i < count; i++) {
        if ((size_t)experts[i] == expert)
            return true;
    }
    return false;
}

/* The largest of the experts that are not among the `count` taken; ties, and what NaN leaves undecided, to the lower number. */
static size_t next_expert(const real *p, size_t e, const int32_t *experts, size_t count)
{
    size_t best = e;
    for (size_t j = 0; j < e; j++) {
        if ((best == e || p[j] > p[best]) && !taken(experts, count, j))
            best = j;
    }
    return best;
}

/* sum of the probabilities of the chosen, or 1 when the weights are not divided by it */
static real denominator(const real *p, const int32_t *experts, bool normalise, size_t k)
{
    real sum = 0;
    for (size_t i = 0; i < k; i++)
        sum += p[experts[i]];
    return normalise ? sum : 1;
}

static void router_forward(real *probabilities, real *weights, int32_t *experts, real *lse,
                           const real *logits, bool normalise, size_t n, size_t e, size_t k)
{
#pragma omp parallel for schedule(static) if (n * e * k > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++) {
        real *p = probabilities + i * e;
        int32_t *chosen = experts + i * k;
        lse[i] = softmax(p, logits + i * e, e);
        for (size_t j = 0; j < k; j++)
            chosen[j] = (int32_t)next_expert(p, e, chosen, j);
        real sum = denominator(p, chosen, normalise, k);
        for (size_t j = 0; j < k; j++)
            weights[i * k + j] = p[chosen[j]] / sum;
    }
}

/* dp (e) += gradient of the weights. w_i = p_i / sum(p of the chosen), hence dp_i = (dw_i - sum(dw w)) / sum(p of the chosen). */
static void through_weights(real *dp, const real *p, const real *dweights, const real *weights,
                            const int32_t *experts, bool normalise, size_t k)
{
    real sum = denominator(p, experts, normalise, k), mean = 0;
    for (size_t j = 0; j < k && normalise; j++)
        mean += dweights[j] * weights[j];
    for (size_t j = 0; j < k; j++)
        dp[experts[j]] += (dweights[j] - mean) / sum;
}

/* x (e): gradient of the probabilities -> of the logits */
static void through_softmax(real *x, const real *p, real z, size_t e)
{
    real mean = 0;
    for (size_t j = 0; j < e; j++)
        mean += p[j] * x[j];
    for (size_t j = 0; j < e; j++)
        x[j] = p[j] * (x[j] - mean + z);
}

static void router_backward(real *dlogits, const real *dweights, const real *dprobabilities,
                            const real *probabilities, const real *weights, const int32_t *experts,
                            const real *lse, real z_scale, bool normalise, size_t n, size_t e, size_t k)
{
#pragma omp parallel for schedule(static) if (n * e > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++) {
        real *d = dlogits + i * e;
        const real *p = probabilities + i * e;
        for (size_t j = 0; j < e; j++)
            d[j] = dprobabilities ? dprobabilities[i * e + j] : 0;
        through_weights(d, p, dweights + i * k, weights + i * k, experts + i * k, normalise, k);
        through_softmax(d, p, z_scale * 2 * lse[i], e);
    }
}

void FILL(router)(struct kernels *table)
{
    table->router_forward = router_forward;
    table->router_backward = router_backward;
}
