/* plandevices: which devices the ranks of a placement are on. A cluster may have several kinds, and nothing in a job chooses among those
 * that it may use. */
#ifndef BELAY_LAUNCHER_PLANDEVICES_H
#define BELAY_LAUNCHER_PLANDEVICES_H

#include "launcher/planverdict.h"

/* Puts the device that the placed ranks compute on into the request, the slowest when there are several, because a step waits for it; with
 * --gpu, which says what to predict for, the request stays. Returns a sentence when that is not what all ranks are on (fresh), else
 * NULL. Without a cluster file or a placement nothing is done. */
char *plandevices_apply(const struct planverdict *v, const struct planask *ask, const struct planask_job *job,
                        struct plan_request *request);

#endif
