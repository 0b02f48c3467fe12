/* run: see run.h. */
#include "runtime/run.h"

#include "common/log.h"

int run_agree(struct run *run, int code, const struct err *err)
{
    if (code != 0)
        log_error("rank %d: %s", run->rank, err->text);
    return comm_max_int(run->comm, code);
}
