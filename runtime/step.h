/* step: one step of a training run: samples, gradients, the guard's judgement, the update. */
#ifndef BELAY_RUNTIME_STEP_H
#define BELAY_RUNTIME_STEP_H

#include "runtime/run.h"

/* What one group of ranks moved in a step, as this rank saw it. */
struct step_traffic {
    double seconds, bytes;
};

struct step {
    struct engine_result result;
    double lr;
    double start, seconds; /* clock at its beginning; how long it took */
    double wait_s;         /* waiting for other ranks, all groups together */
    struct step_traffic tp, pp, cp, ep, dp;
    enum guard_verdict verdict;
    int signals; /* of any rank */
};

/* Collective. The run stands one step further after it, also when the guard had the update skipped; after GUARD_ROLLBACK it has not moved, and the
 * caller goes back. 0, or an exit code (the same on all ranks) whose reason was logged. */
int step_run(struct run *run, struct step *step);

#endif
