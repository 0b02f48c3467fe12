/* random: a counter put through the final mix of splitmix64 (Steele, Lea, Flood 2014) twice, the key between. */
#include "sim/random.h"

#include <math.h>

#include "common/mix.h"

struct random_stream random_stream(uint64_t seed, uint64_t stream)
{
    return (struct random_stream){.key =
                                      mix64(mix64(seed + MIX_GOLDEN) ^ (stream * 0xd1342543de82ef95u + 1))};
}

uint64_t random_next(struct random_stream *s)
{
    s->count++;
    return mix64(mix64(s->count * MIX_GOLDEN) ^ s->key);
}

double random_uniform(struct random_stream *s)
{
    return ((double)(random_next(s) >> 11) + 1) * 0x1p-53;
}

uint64_t random_below(struct random_stream *s, uint64_t n)
{
    return (uint64_t)(((unsigned __int128)random_next(s) * n) >> 64);
}

double random_exponential(struct random_stream *s, double mean)
{
    return -mean * log(random_uniform(s));
}

double random_normal(struct random_stream *s)
{
    double radius = sqrt(-2 * log(random_uniform(s)));
    return radius * cos(2 * 3.14159265358979323846 * random_uniform(s));
}

int64_t random_time(struct random_stream *s, const struct scenario_time *t)
{
    double ms = (double)t->ms;
    if (t->shape == SHAPE_EXPONENTIAL)
        ms = random_exponential(s, ms);
    if (t->shape == SHAPE_LOGNORMAL)
        ms *= exp(t->sigma * random_normal(s));
    if (ms > 1e14)
        ms = 1e14;
    return t->shape == SHAPE_FIXED ? t->ms : ms < 1 ? 1 : (int64_t)ms;
}
