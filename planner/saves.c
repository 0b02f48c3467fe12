/* saves: see saves.h. */
#include "planner/saves.h"

#include <math.h>
#include <stdio.h>

#include "common/clock.h"

#define DAY_S 86400.0

double saves_young(double cost, double mttf)
{
    return sqrt(2 * cost * mttf);
}

double saves_daly(double cost, double mttf)
{
    double x = cost / (2 * mttf);
    return x >= 1 ? mttf : saves_young(cost, mttf) * (1 + sqrt(x) / 3 + x / 9) - cost;
}

/* A gamma prior of shape 1 over the rate, then `count` events in run_s: the rate's mean is (1 + count) / (prior mttf + run_s). */
double saves_mttf(double nodes, double failures_per_node_day, double count, double run_s)
{
    double rate = (nodes > 1 ? nodes : 1) * failures_per_node_day / DAY_S;
    if (rate <= 0)
        return count > 0 ? run_s / count : (double)INFINITY;
    return (1 / rate + run_s) / (1 + count);
}

static int64_t whole(double steps)
{
    return !(steps > 1) ? 1 : steps > SAVES_STEPS_MAX ? SAVES_STEPS_MAX : (int64_t)steps;
}

int64_t saves_every(const struct saves_facts *f)
{
    int64_t best = whole(round(saves_daly(f->cost_s, f->mttf_s) / f->step_s));
    int64_t least = whole(ceil(f->durable_s / f->step_s));
    return best > least ? best : least;
}

/* A time for people; longer ones than a century are none. */
static const char *words(double seconds, char out[32])
{
    double ms = seconds * 1000;
    return clock_format_duration(ms < 3.2e12 ? (int64_t)(ms < 1 && ms > 0 ? 1 : ms) : INT64_C(3200000000000),
                                 out, 32);
}

void saves_explain(const struct saves_facts *f, char out[SAVES_WORDS])
{
    char a[32], b[32], c[32], d[32], e[32], slow[64] = "";
    int64_t every = saves_every(f);
    if (every > whole(round(saves_daly(f->cost_s, f->mttf_s) / f->step_s)))
        (void)snprintf(slow, sizeof(slow), ", and it is safe only after %s", words(f->durable_s, e));
    (void)snprintf(
        out, SAVES_WORDS,
        "every %lld step%s (%s): a save costs %s%s, an interruption is expected each %s, a step takes %s",
        (long long)every, every == 1 ? "" : "s", words((double)every * f->step_s, a), words(f->cost_s, b),
        slow, words(f->mttf_s, c), words(f->step_s, d));
}
