/* adamw: one pass over parameters, moments and gradients. It moves 7 numbers a parameter, so memory sets its speed. */
#include <math.h>

#include "kernels/cpu/elem.h"
#include "kernels/cpu/fill.h"
#include "kernels/cpu/hash.h"
#include "kernels/cpu/parts.h"
#include "kernels/cpu/vmath.h"

/* An update's settings as the loop needs them: with p the parameter, m_hat / (sqrt(v_hat) + eps) has its two bias corrections taken out. */
struct rates {
    real beta1, beta2, fresh1, fresh2, scale, eps, rate, unbias, keep;
};

static struct rates rates_of(const struct kernel_adamw *c)
{
    return (struct rates){.beta1 = (real)c->beta1,
                          .beta2 = (real)c->beta2,
                          .fresh1 = (real)(1 - c->beta1),
                          .fresh2 = (real)(1 - c->beta2),
                          .scale = (real)c->gradient_scale,
                          .eps = (real)c->eps,
                          .rate = (real)(c->lr / (1 - pow(c->beta1, (double)c->step))),
                          .unbias = (real)(1 / sqrt(1 - pow(c->beta2, (double)c->step))),
                          .keep = (real)(1 - c->lr * c->weight_decay)};
}

static void update_chunk(real *restrict p, real *restrict m, real *restrict v, const real *restrict gradients,
                         size_t count, const struct rates *rates)
{
    struct rates r = *rates;
    for (size_t i = 0; i < count; i++) {
        real g = gradients[i] * r.scale;
        m[i] = r.beta1 * m[i] + r.fresh1 * g;
        v[i] = r.beta2 * v[i] + r.fresh2 * g * g;
        p[i] = r.keep * p[i] - r.rate * m[i] / (real_sqrt(v[i]) * r.unbias + r.eps);
    }
}

static void round_chunk(elem *restrict out, const real *restrict x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = elem_store(x[i]);
}

/* As elem_store, but up where the random bits of element `first + i` are below the bits that go. */
#ifdef BELAY_ACT_BF16
static inline elem store_by_chance(real x, uint32_t chance)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (!(x - x == 0)) /* NaN and Inf stay what they are */
        return elem_store(x);
    return (elem)((bits + (0xFFFF - (chance >> 16))) >> 16);
}
#else
static inline elem store_by_chance(real x, uint32_t chance)
{
    (void)chance; /* nothing goes */
    return x;
}
#endif

static void round_chunk_by_chance(elem *restrict out, const real *restrict x, size_t count, uint64_t key,
                                  uint64_t first)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t row = hash_row(key, first + i);
        out[i] = store_by_chance(x[i], hash_column((uint32_t)row, (uint32_t)(row >> 32), 0));
    }
}

static void adamw(real *parameters, real *m, real *v, const real *gradients, act *weights, size_t count,
                  const struct kernel_adamw *config)
{
    struct rates r = rates_of(config);
    size_t chunks = parts_chunks(count);
#pragma omp parallel for schedule(static) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < chunks; i++) {
        size_t at = i * PARTS_CHUNK, size = parts_chunk(count, i);
        update_chunk(parameters + at, m + at, v + at, gradients + at, size, &r);
        if (!weights || (const void *)weights == parameters)
            continue;
        if (config->stochastic)
            round_chunk_by_chance(elems(weights) + at, parameters + at, size, config->key,
                                  config->first + at);
        else
            round_chunk(elems(weights) + at, parameters + at, size);
    }
}

void FILL(adamw)(struct kernels *table)
{
    table->adamw = adamw;
}
