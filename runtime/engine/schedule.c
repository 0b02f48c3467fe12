/* schedule: see schedule.h. Steps beyond the last one keep min_lr. */
#include "runtime/engine/schedule.h"

#include <math.h>

double schedule_lr(const struct job_optimizer *o, int64_t steps, int64_t step)
{
    if (step < o->warmup)
        return o->lr * (double)step / (double)o->warmup;
    if (o->schedule == LR_CONSTANT || steps <= o->warmup)
        return o->lr;
    double progress = (double)(step - o->warmup) / (double)(steps - o->warmup);
    if (progress > 1)
        progress = 1;
    double kept = o->schedule == LR_COSINE ? 0.5 * (1 + cos(M_PI * progress)) : 1 - progress;
    return o->min_lr + kept * (o->lr - o->min_lr);
}
