/* model_init: first values of the parameters. Element i of tensor t is a function of (seed, t, i) alone: a counter goes through a mixing
 * function (splitmix64, Steele, Lea, Flood 2014) and two uniform numbers become two normal ones (Box, Muller 1958). */
#include <math.h>

#include "runtime/model/model_private.h"

#define GOLDEN 0x9E3779B97F4A7C15u

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Elements 2*pair and 2*pair+1 of the stream `key`, N(0,1) */
static void normal_pair(uint64_t key, uint64_t pair, double out[2])
{
    uint64_t bits = mix(key + (pair + 1) * GOLDEN);
    double u = ((double)(bits >> 32) + 0.5) / 4294967296.0,
           turn = (double)(bits & 0xFFFFFFFFu) / 4294967296.0;
    double radius = sqrt(-2 * log(u)), angle = 6.283185307179586 * turn;
    out[0] = radius * cos(angle);
    out[1] = radius * sin(angle);
}

static void fill_normal(real *x, size_t count, uint64_t key, double std)
{
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < count; i += 2) {
        double z[2];
        normal_pair(key, i / 2, z);
        x[i] = (real)(std * z[0]);
        if (i + 1 < count)
            x[i + 1] = (real)(std * z[1]);
    }
}

static void fill_constant(real *x, size_t count, real value)
{
    for (size_t i = 0; i < count; i++)
        x[i] = value;
}

void model_init(struct model *model, uint64_t seed)
{
    double residual = MODEL_INIT_STD / sqrt(2.0 * (double)model->layers);
    for (size_t t = 0; t < model->layout.count; t++) {
        enum model_fill fill = model->layout.fills[t];
        uint64_t key = mix(mix(seed + GOLDEN) + t * GOLDEN);
        real *x = model_parameter(model, t);
        size_t count = model->layout.tensors[t].count;
        if (fill == FILL_NORMAL || fill == FILL_RESIDUAL)
            fill_normal(x, count, key, fill == FILL_NORMAL ? MODEL_INIT_STD : residual);
        else
            fill_constant(x, count, fill == FILL_ONE ? 1 : 0);
    }
}
