/* interval: see interval.h. Costs are smoothed: a tenth of each new step, half of each new save. */
#include "runtime/interval.h"

#include <math.h>
#include <stdlib.h>

#include "schema/job.h"

#define STEP_SHARE 0.1
#define SAVE_SHARE 0.5
#define CHANGE     1.25 /* of the interval, that is worth a word */

/* 0 where nothing was measured yet. */
static void blend(double *held, double measured, double share)
{
    *held = *held > 0 ? *held + share * (measured - *held) : measured;
}

void interval_open(struct interval *in, int64_t every, int64_t step, const char *mttf)
{
    char *end = NULL;
    double seconds = mttf ? strtod(mttf, &end) : 0;
    bool good = mttf && end != mttf && *end == '\0' && seconds > 0;
    *in = (struct interval){.every = every, .next = step + INTERVAL_FIRST};
    in->facts.mttf_s = good ? seconds : saves_mttf(1, SAVES_FAILURES_PER_NODE_DAY, 0, 0);
}

bool interval_due(const struct interval *in, int64_t step)
{
    if (in->every == JOB_EVERY_AUTO)
        return step >= in->next;
    return in->every > 0 && step % in->every == 0;
}

void interval_stepped(struct interval *in, double seconds)
{
    if (in->steps++ > 0)
        blend(&in->facts.step_s, seconds, STEP_SHARE);
}

void interval_durable(struct interval *in, double seconds)
{
    blend(&in->facts.durable_s, seconds, SAVE_SHARE);
}

int64_t interval_next(struct interval *in, double stall_s)
{
    blend(&in->facts.cost_s, stall_s, SAVE_SHARE);
    return in->facts.step_s > 0 ? saves_every(&in->facts) : INTERVAL_FIRST;
}

void interval_set(struct interval *in, int64_t step, int64_t steps)
{
    in->next = step + steps;
}

const char *interval_news(struct interval *in)
{
    static char text[SAVES_WORDS];
    int64_t every = in->facts.step_s > 0 ? saves_every(&in->facts) : 0;
    double change = in->told > 0 ? (double)every / (double)in->told : INFINITY;
    if (every == 0 || (change < CHANGE && change > 1 / CHANGE))
        return NULL;
    in->told = every;
    saves_explain(&in->facts, text);
    return text;
}
