/* order: see order.h.
 *
 * Within a corpus: a keyed bijection on 0..n-1 instead of a shuffled table, a Feistel network on the next power of four at or above n,
 * walked until it lands below n ("cycle walking"; Black and Rogaway, Ciphers with Arbitrary Finite Domains, 2002).
 *
 * Between corpora: the list is halved again and again. Of the first m samples of a list, round(m * left / (left + right)) belong to its left
 * half. This count grows by 0 or 1 with m, so that it says both whose sample m is and how many its half has had before. */
#include "runtime/data/order.h"

#include "common/mix.h"

#define FEISTEL_ROUNDS 6
#define UNITS                                                                                                \
    1099511627776.0 /* 2^40: weights are kept to 12 digits, and products of counts fit in 128 bits */

/* One pass of the network over numbers of 2*half bits. */
static uint64_t feistel(uint64_t x, unsigned half, uint64_t key)
{
    uint64_t mask = (1ULL << half) - 1;
    uint64_t left = x >> half, right = x & mask;
    for (uint64_t round = 0; round < FEISTEL_ROUNDS; round++) {
        uint64_t next = left ^ (mix64(right + mix64(key + round * MIX_GOLDEN)) & mask);
        left = right;
        right = next;
    }
    return left << half | right;
}

uint64_t order_pick(uint64_t n, uint64_t seed, uint64_t sample)
{
    uint64_t key = mix64(mix64(seed + MIX_GOLDEN) + sample / n);
    unsigned half = 1;
    while (half < 31 && (1ULL << (2 * half)) < n)
        half++;
    uint64_t x = sample % n;
    do
        x = feistel(x, half, key);
    while (x >= n);
    return x;
}

void order_units(const double *weights, size_t n, uint64_t *units)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += weights[i];
    for (size_t i = 0; i < n; i++) {
        units[i] = (uint64_t)(weights[i] / sum * UNITS + 0.5);
        units[i] = units[i] > 0 ? units[i] : 1;
    }
}

static uint64_t add_up(const uint64_t *units, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += units[i];
    return sum;
}

/* round(m * part / whole), halves up */
static uint64_t share(uint64_t m, uint64_t part, uint64_t whole)
{
    return (uint64_t)(((unsigned __int128)m * part + whole / 2) / whole);
}

struct order_place order_mix(const uint64_t *units, size_t n, uint64_t sample)
{
    struct order_place place = {.corpus = 0, .index = sample};
    uint64_t whole = add_up(units, n);
    while (n > 1) {
        size_t half = n / 2;
        uint64_t part = add_up(units, half), left = share(place.index, part, whole);
        if (share(place.index + 1, part, whole) > left) {
            place.index = left;
            whole = part;
            n = half;
        } else {
            place.index -= left;
            whole -= part;
            units += half;
            place.corpus += half;
            n -= half;
        }
    }
    return place;
}

uint64_t order_seed(uint64_t seed, size_t corpus)
{
    return corpus == 0 ? seed : mix64(seed + mix64(corpus * MIX_GOLDEN));
}
