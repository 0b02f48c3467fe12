/* init: first values of the parameters. Element (r,c) of a tensor is a function of (seed, name, r, c) alone: a counter goes through a mixing
 * function (splitmix64, Steele, Lea, Flood 2014) and two uniform numbers become two normal ones (Box, Muller 1958). */
#include <math.h>
#include <string.h>

#include "common/mix.h"
#include "runtime/model/model.h"

#define INIT_STD 0.02

/* Number i of the stream `key`, N(0,1); numbers 2j and 2j+1 are one pair. */
static double normal(uint64_t key, uint64_t i)
{
    uint64_t bits = mix64(key + (i / 2 + 1) * MIX_GOLDEN);
    double u = ((double)(bits >> 32) + 0.5) / 4294967296.0,
           turn = (double)(bits & 0xFFFFFFFFu) / 4294967296.0;
    double radius = sqrt(-2 * log(u)), angle = 6.283185307179586 * turn;
    return radius * (i % 2 == 0 ? cos(angle) : sin(angle));
}

/* FNV-1a */
static uint64_t name_key(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return hash;
}

static void fill_row(const struct layout_tensor *t, size_t row, uint64_t key, double std, real *out)
{
    for (size_t c = 0; c < t->columns; c++)
        out[c] = (real)(std * normal(key, (uint64_t)row * t->shape[1] + t->from[1] + c));
}

void model_init_tensor(const struct layout_tensor *tensor, const struct job_model *config, uint64_t seed,
                       real *out)
{
    const struct layout_tensor *t = tensor;
    uint64_t key = mix64(mix64(seed + MIX_GOLDEN) + name_key(t->name));
    double std = t->fill == FILL_RESIDUAL ? INIT_STD / sqrt(2.0 * (double)config->layers) : INIT_STD;
    size_t rows = t->to[0] - t->from[0];
    memset(out, 0, t->rows * t->columns * sizeof *out);
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < rows; r++) {
        if (t->fill == FILL_NORMAL || t->fill == FILL_RESIDUAL)
            fill_row(t, t->from[0] + r, key, std, out + r * t->columns);
        for (size_t c = 0; t->fill == FILL_ONE && c < t->columns; c++)
            out[r * t->columns + c] = 1;
    }
}
