/* schedule: the learning rate as a pure function of the step, so that a resumed run needs no state for it. */
#ifndef BELAY_RUNTIME_SCHEDULE_H
#define BELAY_RUNTIME_SCHEDULE_H

#include <stdint.h>

#include "schema/job.h"

/* Learning rate of update `step` (1-based) of `steps`.
 *
 * Updates 1..warmup rise linearly to lr (lr*step/warmup). After that lr falls to min_lr, reached at the last update: along half
 * a cosine (arXiv 1608.03983, equation 5, one period), along a line, or not at all (constant). */
double schedule_lr(const struct job_optimizer *o, int64_t steps, int64_t step);

#endif
