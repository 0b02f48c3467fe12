/* interval: when the next save is due. With checkpoint.every: N after every N-th step; with `auto` so many steps after the last save as its measured
 * cost, a step's time and the mean time between interruptions (BELAY_MTTF_S) say (planner/saves.h).
 *
 * Every rank holds one and knows the same step at which a save is due. Only rank 0 measures and decides: after each save the others take what it says. */
#ifndef BELAY_RUNTIME_INTERVAL_H
#define BELAY_RUNTIME_INTERVAL_H

#include <stdbool.h>
#include <stdint.h>

#include "planner/saves.h"

struct interval {
    int64_t every; /* of the job file, or JOB_EVERY_AUTO */
    int64_t next;  /* auto: the step at which a save is due */
    int64_t told;  /* auto: the interval that was told last, 0 = none */
    int64_t steps; /* that were measured */
    struct saves_facts facts;
};

enum { INTERVAL_FIRST = 10 }; /* auto: steps until the first save of a run, which shows what one costs */

/* step: where the run begins. mttf: text of seconds (BELAY_MTTF_S), NULL or no number above 0: as one node is expected to do. */
void interval_open(struct interval *interval, int64_t every, int64_t step, const char *mttf);

bool interval_due(const struct interval *interval, int64_t step);

/* Rank 0: a step took so long. The first of a run does not count: it warms up. */
void interval_stepped(struct interval *interval, double seconds);
/* Rank 0: a save became durable so long after its begin. */
void interval_durable(struct interval *interval, double seconds);

/* auto, rank 0, after a save of `step` (or one that failed), for which training waited `stall_s`: how many steps until the next one. */
int64_t interval_next(struct interval *interval, double stall_s);
/* All ranks: that many steps after this one. */
void interval_set(struct interval *interval, int64_t step, int64_t steps);

/* Rank 0: the interval with its reasons, when it is new or has changed by a quarter since it was told; else NULL. Static text. */
const char *interval_news(struct interval *interval);

#endif
