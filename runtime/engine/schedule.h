/* schedule: the learning rate as a pure function of the step, so that a resumed run needs no state for it. */
#ifndef BELAY_RUNTIME_SCHEDULE_H
#define BELAY_RUNTIME_SCHEDULE_H

#include <stdint.h>

#include "schema/job.h"

/* Learning rate of update `step` (1-based) of `steps`.
 *
 * Updates 1..warmup rise linearly to lr (lr*step/warmup). After that:
 *   cosine        falls to min_lr along half a cosine, reached at the last update (arXiv 1608.03983, equation 5, one period)
 *   linear        likewise along a line
 *   constant      stays at lr
 *   wsd           stays at lr, and falls to min_lr in the last `decay` updates by 1 - sqrt(how much of them is over), reached at the last one
 *                 (warm-up, stable, decay: MiniCPM, arXiv 2404.06395; this shape of the fall: arXiv 2405.18392, where it beats a line).
 *                 decay 0: stays. A longer decay than there are updates after the warm-up begins right after that
 *   inverse-sqrt  lr*sqrt(warmup/step) (arXiv 1706.03762, section 5.3; warmup 0 counts as 1), never below min_lr
 * Updates beyond the last one have its rate; inverse-sqrt goes on falling. */
double schedule_lr(const struct job_optimizer *o, int64_t steps, int64_t step);

#endif
