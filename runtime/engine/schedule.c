/* schedule: see schedule.h. Each shape says how much of lr - min_lr is kept when part `t` (0 to 1) of the way is gone; inverse-sqrt has no
 * end to go to and stands apart. */
#include "runtime/engine/schedule.h"

#include <math.h>

static double inverse_sqrt(const struct job_optimizer *o, int64_t step)
{
    double warmup = o->warmup > 0 ? (double)o->warmup : 1;
    double lr = o->lr * sqrt(warmup / (double)step);
    return lr > o->min_lr ? lr : o->min_lr;
}

/* How much of the way from update `from` to update `to` is gone, 0 to 1. */
static double part_gone(int64_t from, int64_t to, int64_t step)
{
    if (step <= from)
        return 0;
    return step >= to ? 1 : (double)(step - from) / (double)(to - from);
}

/* The last update before the fall of wsd. */
static int64_t stable_until(const struct job_optimizer *o, int64_t steps)
{
    return steps - o->decay > o->warmup ? steps - o->decay : o->warmup;
}

static double part_kept(const struct job_optimizer *o, int64_t steps, int64_t step)
{
    switch (o->schedule) {
    case LR_COSINE:
        return 0.5 * (1 + cos(M_PI * part_gone(o->warmup, steps, step)));
    case LR_LINEAR:
        return 1 - part_gone(o->warmup, steps, step);
    case LR_WSD:
        return o->decay > 0 ? 1 - sqrt(part_gone(stable_until(o, steps), steps, step)) : 1;
    default:
        return 1;
    }
}

double schedule_lr(const struct job_optimizer *o, int64_t steps, int64_t step)
{
    if (step < o->warmup)
        return o->lr * (double)step / (double)o->warmup;
    if (o->schedule == LR_INVERSE_SQRT)
        return inverse_sqrt(o, step);
    if (steps <= o->warmup)
        return o->lr;
    return o->min_lr + part_kept(o, steps, step) * (o->lr - o->min_lr);
}
