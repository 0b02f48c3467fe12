/* random: numbers that look random and follow from a seed: the n-th draw of a stream is a function of (seed, stream, n) alone, so what
 * one part of a simulation draws never shifts what another one gets. Two runs that differ in a policy meet the same failures. */
#ifndef BELAY_SIM_RANDOM_H
#define BELAY_SIM_RANDOM_H

#include <stdint.h>

#include "schema/scenario.h"

struct random_stream {
    uint64_t key, count;
};

struct random_stream random_stream(uint64_t seed, uint64_t stream);
uint64_t random_next(struct random_stream *s);
double random_uniform(struct random_stream *s);             /* in (0, 1] */
uint64_t random_below(struct random_stream *s, uint64_t n); /* 0 .. n-1; n > 0 */
double random_exponential(struct random_stream *s, double mean);
double random_normal(struct random_stream *s); /* mean 0, deviation 1 (Box and Muller) */
int64_t random_time(struct random_stream *s,
                    const struct scenario_time *t); /* in ms, at least 1 unless fixed at 0 */

#endif
