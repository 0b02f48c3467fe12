/* order: which sequence the k-th sample of a run is. Pure arithmetic without tables: any rank can compute any sample at once, and a
 * restart needs to know nothing but k. */
#ifndef BELAY_RUNTIME_DATA_ORDER_H
#define BELAY_RUNTIME_DATA_ORDER_H

#include <stddef.h>
#include <stdint.h>

/* The sequence (0..n-1) that sample `sample` of a corpus of n sequences is (1 <= n <= 2^61). Each epoch of n samples visits every sequence
 * exactly once, in an order of its own. */
uint64_t order_pick(uint64_t n, uint64_t seed, uint64_t sample);

/* Weights (> 0, n of them) as whole numbers in the same proportion, each at least 1, all together about 2^40. */
void order_units(const double *weights, size_t n, uint64_t *units);

struct order_place {
    size_t corpus;
    uint64_t index; /* it is the index-th sample that comes from this corpus, from 0 */
};

/* Deals samples out to n corpora in proportion to their units. At any point, each corpus has had its exact share to within half a sample
 * for each time that n can be halved; after as many samples as the units' sum (below 2^63) each has had exactly as many as its units. */
struct order_place order_mix(const uint64_t *units, size_t n, uint64_t sample);

/* A seed for corpus number `corpus` of a mixture; the first one has the seed itself. */
uint64_t order_seed(uint64_t seed, size_t corpus);

#endif
