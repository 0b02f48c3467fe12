/* run: one training run in one process: what train, step, save and resume share. */
#ifndef BELAY_RUNTIME_RUN_H
#define BELAY_RUNTIME_RUN_H

#include <stdint.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/claim.h"
#include "common/err.h"
#include "runtime/backend.h"
#include "runtime/comm/mesh.h"
#include "runtime/data/data.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/guard.h"
#include "runtime/fault.h"
#include "runtime/interval.h"
#include "runtime/metrics.h"
#include "runtime/notify.h"
#include "schema/job.h"

struct run {
    const struct job_spec *spec;
    struct comm *comm;
    struct mesh mesh;
    int rank, size;
    const struct backend *backend;
    const struct kernels *kernels;
    struct fault fault;
    struct data *data;
    struct engine *engine;
    struct guard *guard;
    struct notify *notify;
    struct claim *claim;                     /* rank 0 only */
    struct metrics *metrics;                 /* rank 0 only */
    struct checkpoint_array *arrays, *share; /* all that this rank owns; what it writes of it */
    size_t n_arrays, n_share;
    struct saver *saver;
    struct interval interval;  /* when the next save is due */
    struct uploader *uploader; /* rank 0 with checkpoint.upload only */
    struct {
        double staged_s, durable_s; /* see struct metrics_row */
    } held_up;                      /* by saves since the last row of metrics.csv */
    struct manifest_state state;    /* where the run stands: what a checkpoint would say now */
    int64_t saved;                  /* step of the newest checkpoint that this run wrote or started from */
    int64_t
        other_mesh; /* step of the checkpoint that the run started from, if another mesh had written it; else 0 */
    int64_t verified;    /* rank 0: step of the newest checkpoint that was read back in full, 0 = none */
    double resume_start; /* clock when it began to look for a checkpoint */
    double peak;         /* FLOP/s of all ranks together; rank 0 raises it when a step comes to more */
};

/* Tokens of a step, counted or not. */
double run_step_tokens(const struct run *run);

/* Logs the sentence, with the rank's number when there are several. */
void run_complain(const struct run *run, const struct err *err);

/* Says why this rank cannot go on (code not 0: err, prefixed with the rank), then gives every rank the largest code of all. */
int run_agree(struct run *run, int code, const struct err *err);

/* Rank 0: work(run, err) while the claim is locked and still ours, so that an attempt that was overtaken touches nothing that is now its
 * successor's. Returns the work's exit code, or that of the claim with a sentence. */
int run_fenced(struct run *run, int (*work)(struct run *run, struct err *err), struct err *err);

#endif
