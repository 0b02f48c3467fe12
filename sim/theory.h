/* theory: what can be said without simulating. All times in the same unit.
 *
 * cost: training time that one checkpoint takes away. mttf: mean time between failures that end the attempt. overhead: from a failure
 * until training goes on (detect, stop, place, load). interval: training time between checkpoints. */
#ifndef BELAY_SIM_THEORY_H
#define BELAY_SIM_THEORY_H

#include <stdbool.h>
#include <stddef.h>

/* Effective training time ratio, 1 / (1 + (u0 + dt/2) / MTTF): Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning
 * Research Clusters" (2024), for checkpoints that cost nothing and failures much rarer than u0 + dt. With a cost, cost/interval is added. */
double theory_ettr(double overhead, double interval, double mttf, double cost);

/* Two settings that met the same n random worlds: is the mean of their differences d zero as far as can be told (Student's t for pairs, two
 * sides, 95 %)? One difference tells nothing: true for n below 2. Differences of 1e-6 are none. */
bool theory_is_luck(const double *d, size_t n);

#endif
