/* config: see config.h. */
#include "runtime/config.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "runtime/exits.h"

static int check_kind(const struct job_spec *s, struct err *err)
{
    if (!s->is_train)
        return err_set(err, "this job has run:, not train:; belay-train runs only train: jobs");
    if (!s->checkpoint.directory)
        return err_set(err, "checkpoint.directory is missing; it also holds metrics.csv");
    return 0;
}

static int check_batch(const struct job_spec *s, struct err *err)
{
    int64_t micro = s->train.batch_micro, global = s->train.batch_global;
    if (micro < 1 || global < 1 || micro > global || s->dp > global / micro || global % (micro * s->dp) != 0)
        return err_set(err,
                       "train.batch.global %" PRId64 " is not a multiple of micro %" PRId64
                       " times dp %" PRId64 "; change one of them",
                       global, micro, s->dp);
    return 0;
}

/* dp is what can be chosen freely, but only where the other axes leave a whole number of it, and experts and batch can be divided by that. 0:
 * there is none. (Whether micro divides as well, the job file's check says: without one of its own it follows dp.) */
static int64_t fitting_dp(const struct job_spec *s, int world)
{
    int64_t others = s->tp * s->pp * s->cp, dp = world / others;
    bool fits = world % others == 0 && dp * s->cp % s->ep == 0 && s->train.batch_global % dp == 0;
    return fits ? dp : 0;
}

static void wrong_ranks(const struct job_spec *s, int64_t ranks, int world, struct err *err)
{
    int64_t dp = fitting_dp(s, world);
    char other_dp[64] = "";
    if (dp > 0)
        snprintf(other_dp, sizeof other_dp, ", or --set parallel.dp=%" PRId64, dp);
    err_set(err,
            "the job wants %" PRId64 " ranks (tp %" PRId64 " x pp %" PRId64 " x cp %" PRId64 " x dp %" PRId64
            ") but %d started; use mpirun -n %" PRId64 "%s",
            ranks, s->tp, s->pp, s->cp, s->dp, world, ranks, other_dp);
}

int config_check(const struct job_spec *spec, int world, struct err *err)
{
    if (check_kind(spec, err) != 0 || check_batch(spec, err) != 0)
        return EXIT_NO_RETRY;
    int64_t ranks = spec->tp * spec->pp * spec->cp * spec->dp;
    if (ranks != world) {
        wrong_ranks(spec, ranks, world, err);
        return EXIT_BAD_CONFIG;
    }
    return 0;
}
