/* simview: what a simulation came to, in words, as a table, as JSON. */
#ifndef BELAY_LAUNCHER_SIMVIEW_H
#define BELAY_LAUNCHER_SIMVIEW_H

#include <jansson.h>
#include <stdbool.h>

#include "sim/sim.h"

/* Prints the summary to stdout; wide: every job, not only groups of them. */
void simview_print(const struct scenario *scenario, const struct sim_result *result, uint64_t seed,
                   bool wide);
/* "job big can never start in this cluster: needs 1024 slots, the cluster has 256" about the jobs of one entry of the scenario (fresh), or
 * NULL when they can. */
char *simview_never(const struct sim_result *result, size_t entry);
/* A new reference; the keys are stable (docs/simulation.md). */
json_t *simview_json(const struct scenario *scenario, const struct sim_result *result, uint64_t seed);

#endif
