/* sampling: see sampling.h. Candidates are put in order only when some of them are to be cut off. */
#include "runtime/text/sampling.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/mem.h"
#include "common/mix.h"

double sampling_uniform(uint64_t seed, uint64_t stream, uint64_t position)
{
    uint64_t x = mix64(mix64(mix64(seed + MIX_GOLDEN) + stream + MIX_GOLDEN) + position + MIX_GOLDEN);
    return (double)(x >> 11) * 0x1p-53;
}

uint64_t sampling_stream(const int32_t *prompt, size_t count, uint64_t sample)
{
    uint64_t h = mix64(sample + MIX_GOLDEN);
    for (size_t i = 0; i < count; i++)
        h = mix64(h + (uint64_t)prompt[i] + MIX_GOLDEN);
    return h;
}

/* The id of the largest, of equals the lowest; -1 when there is none, or when one is no number to compare with. */
static int32_t largest(const float *logits, size_t vocab)
{
    int32_t best = -1;
    float most = -INFINITY;
    for (size_t i = 0; i < vocab; i++) {
        if (isnan(logits[i]) || logits[i] == INFINITY)
            return -1;
        if (logits[i] > most) {
            most = logits[i];
            best = (int32_t)i;
        }
    }
    return best;
}

struct candidate {
    double weight; /* of the most likely: 1 */
    int32_t id;
};

static int by_weight(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static double sum_of(const struct candidate *c, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += c[i].weight;
    return sum;
}

/* How many of the first n, which are in order, make up the nucleus. */
static size_t nucleus(const struct candidate *c, size_t n, double top_p)
{
    double wanted = top_p * sum_of(c, n), sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += c[i].weight;
        if (sum >= wanted)
            return i + 1;
    }
    return n;
}

static int32_t draw(const struct candidate *c, size_t n, double uniform)
{
    double left = uniform * sum_of(c, n);
    size_t last = 0;
    for (size_t i = 0; i < n; i++) {
        if (c[i].weight <= 0)
            continue;
        last = i;
        left -= c[i].weight;
        if (left < 0)
            break;
    }
    return c[last].id; /* rounding may leave a rest behind the last */
}

int32_t sampling_pick(const struct sampling *s, const float *logits, size_t vocab, uint64_t stream,
                      uint64_t position)
{
    int32_t best = largest(logits, vocab);
    if (best < 0 || s->temperature <= 0 || s->top_k == 1 || s->top_p <= 0)
        return best;
    struct candidate *c = mem_zero(vocab, sizeof *c);
    size_t n = vocab;
    for (size_t i = 0; i < vocab; i++)
        c[i] =
            (struct candidate){exp(((double)logits[i] - (double)logits[best]) / s->temperature), (int32_t)i};
    bool cut = (s->top_k > 0 && s->top_k < vocab) || s->top_p < 1;
    if (cut)
        qsort(c, n, sizeof *c, by_weight);
    if (s->top_k > 0 && s->top_k < n)
        n = s->top_k;
    if (s->top_p < 1)
        n = nucleus(c, n, s->top_p);
    int32_t id = draw(c, n, sampling_uniform(s->seed, stream, position));
    free(c);
    return id;
}

double sampling_log_probability(const float *logits, size_t vocab, int32_t id)
{
    int32_t best = largest(logits, vocab);
    if (best < 0)
        return NAN;
    double most = (double)logits[best], sum = 0;
    for (size_t i = 0; i < vocab; i++)
        sum += exp((double)logits[i] - most);
    /* the best one adds 1 to the sum */
    /* cppcheck-suppress invalidFunctionArg */
    return (double)logits[id] - most - log(sum);
}
