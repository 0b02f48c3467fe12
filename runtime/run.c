/* run: see run.h. */
#include "runtime/run.h"

#include "common/log.h"
#include "runtime/exits.h"

double run_step_tokens(const struct run *run)
{
    return (double)run->spec->train.batch_global * (double)run->spec->train.model.context;
}

void run_complain(const struct run *run, const struct err *err)
{
    if (run->size > 1)
        log_error("rank %d: %s", run->rank, err->text);
    else
        log_error("%s", err->text);
}

int run_agree(struct run *run, int code, const struct err *err)
{
    if (code != 0)
        run_complain(run, err);
    return comm_max_int(comm_world(run->comm), code);
}

int run_fenced(struct run *run, int (*work)(struct run *run, struct err *err), struct err *err)
{
    enum claim_result claim = claim_lock(run->claim, err);
    if (claim != CLAIM_OK)
        return claim == CLAIM_SUPERSEDED ? EXIT_SUPERSEDED : EXIT_ERROR;
    int code = work(run, err);
    claim_unlock(run->claim);
    return code;
}
