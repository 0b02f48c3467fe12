/* plandevices: which devices the ranks of a placement are on. A cluster may have several kinds, and nothing in a job chooses among those
 * that it may use. */
#ifndef BELAY_LAUNCHER_PLANDEVICES_H
#define BELAY_LAUNCHER_PLANDEVICES_H

#include "launcher/planverdict.h"

/* Puts the device that the placed ranks compute on into the request, the slowest when there are several, because a step waits for it; with
 * --gpu, which says what to predict for, the request stays. The cluster that runs tells which nodes have GPUs, not of which type: those stay
 * what the request says, the others are cpu, with the links and levels of such devices. There the nodes count also without a placement, when
 * none of them has GPUs. Returns a sentence (fresh) when not all ranks are on what is predicted for, or when the cluster that runs has
 * changed the request, else NULL. Without a cluster, and of a file without a placement, nothing is done. */
char *plandevices_apply(const struct planverdict *v, const struct planask *ask, const struct planask_job *job,
                        struct plan_request *request);

#endif
