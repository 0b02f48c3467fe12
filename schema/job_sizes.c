/* job_sizes: which sizes an elastic job may have. dp is free within its range as far as all the rest of the file, which stays as it is at
 * every size, comes out even: the global batch in micro-batches, the experts, the rounds of an interleaved pipeline. */
#include <inttypes.h>
#include <stdio.h>

#include "schema/job_rules.h"

bool job_elastic(const struct job_spec *spec)
{
    return spec->dp_min < spec->dp_max;
}

static bool even(const struct job_spec *s, int64_t dp, int64_t micro)
{
    int64_t global = s->train.batch_global, inner = s->tp * s->pp * s->cp;
    bool sound = micro > 0 && dp <= global / micro && global % (micro * dp) == 0;
    return sound && dp <= JOB_RANKS_MAX / inner && dp * s->cp % s->ep == 0 &&
           (s->virtual_stages <= 1 || global / (micro * dp) % s->pp == 0);
}

bool job_dp_allowed(const struct job_spec *spec, int64_t dp)
{
    if (!job_elastic(spec))
        return dp == spec->dp;
    return dp >= spec->dp_min && dp <= spec->dp_max && even(spec, dp, spec->train.batch_micro);
}

int64_t job_dp_at_most(const struct job_spec *spec, int64_t most)
{
    if (!job_elastic(spec))
        return spec->dp <= most ? spec->dp : 0;
    int64_t dp = most < spec->dp_max ? most : spec->dp_max;
    while (dp >= spec->dp_min && !job_dp_allowed(spec, dp))
        dp--;
    return dp >= spec->dp_min ? dp : 0;
}

int64_t job_dp_at_least(const struct job_spec *spec, int64_t least)
{
    if (!job_elastic(spec))
        return spec->dp >= least ? spec->dp : 0;
    int64_t dp = least > spec->dp_min ? least : spec->dp_min;
    while (dp <= spec->dp_max && !job_dp_allowed(spec, dp))
        dp++;
    return dp <= spec->dp_max ? dp : 0;
}

void job_resize(struct job_spec *spec, int64_t dp)
{
    spec->dp = dp;
    spec->ranks = spec->tp * spec->pp * spec->cp * dp;
}

struct job_spec job_spec_resized(const struct job_spec *spec, int64_t dp)
{
    struct job_spec copy = *spec;
    job_resize(&copy, dp);
    return copy;
}

const char *job_range_print(char out[JOB_RANGE_SIZE], const struct job_spec *spec)
{
    if (job_elastic(spec))
        (void)snprintf(out, JOB_RANGE_SIZE, "%" PRId64 "..%" PRId64, spec->dp_min, spec->dp_max);
    else
        (void)snprintf(out, JOB_RANGE_SIZE, "%" PRId64, spec->dp);
    return out;
}

/* ---- checking ---- */

/* Without a size of its own, a micro-batch is a rank's whole part at the largest size: smaller ones take several. */
static void choose_micro(const struct job_reader *r)
{
    struct job_spec *s = r->spec;
    int64_t global = s->train.batch_global;
    for (int64_t dp = s->dp_max; dp >= s->dp_min && !job_given(r, "train.batch.micro"); dp--) {
        s->train.batch_micro = global % dp == 0 ? global / dp : 0;
        if (even(s, dp, s->train.batch_micro))
            return;
    }
}

/* The next size in that direction that would come out even; 0 when there is none. */
static int64_t nearest(const struct job_reader *r, int64_t from, int64_t step)
{
    const struct job_spec *s = r->spec;
    int64_t global = s->train.batch_global;
    for (int64_t dp = from; dp >= 1 && dp <= global; dp += step) {
        int64_t micro = job_given(r, "train.batch.micro") ? s->train.batch_micro : global / dp;
        if (even(s, dp, micro))
            return dp;
    }
    return 0;
}

static void complain_sizes(struct job_reader *r)
{
    const struct job_spec *s = r->spec;
    int64_t below = nearest(r, s->dp_min - 1, -1), above = nearest(r, s->dp_max + 1, 1);
    char range[JOB_RANGE_SIZE], hint[96] = "", micro[64] = "";
    if (below > 0 || above > 0)
        (void)snprintf(hint, sizeof hint, "; the nearest that would be: %.0" PRId64 "%s%.0" PRId64, below,
                       below > 0 && above > 0 ? " and " : "", above);
    if (job_given(r, "train.batch.micro"))
        (void)snprintf(micro, sizeof micro, " in micro-batches of %" PRId64, s->train.batch_micro);
    COMPLAIN(r, "parallel.dp",
             "none of %s is possible: %" PRId64 " sequences%s, ep %" PRId64
             " and the schedule must come out even%s",
             job_range_print(range, s), s->train.batch_global, micro, s->ep, hint);
}

void job_check_sizes(struct job_reader *r)
{
    struct job_spec *s = r->spec;
    if (!job_elastic(s) || !SOUND(r, "parallel", "parallel.tp", "parallel.pp", "parallel.cp", "parallel.dp",
                                  "parallel.ep", "parallel.schedule", "parallel.virtual_stages",
                                  "train.batch", "train.batch.global", "train.batch.micro"))
        return;
    choose_micro(r);
    int64_t dp = job_dp_at_most(s, s->dp_max);
    if (dp > 0)
        job_resize(s, dp);
    else
        complain_sizes(r);
}
