/* metrics: one CSV row per training step, as if the run had never been interrupted.
 *
 * Rows of steps 1..n each stand there exactly once, in order. Rows are in the kernel's hands when metrics_append returns (a killed
 * process loses none) and on disk when metrics_sync returns (called before a checkpoint becomes visible). */
#ifndef BELAY_RUNTIME_METRICS_H
#define BELAY_RUNTIME_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct metrics;

#define METRICS_AXES 5 /* tp, cp, pp, ep, dp */

struct metrics_row {
    int64_t step;
    double loss, grad_norm, lr;                                 /* printed %.17g: they read back bitwise */
    uint64_t tokens;                                            /* trained on since step 1 */
    float step_ms, tokens_per_second, mfu, compute_ms, wait_ms; /* printed %.9g, bitwise as well */
    int64_t attempt;
    float hfu;
    double router_loss; /* balance and z losses of experts, with their weights */
    double held_loss;   /* of an evaluation after this step; NAN: there was none, the field stays empty */
    bool skipped;       /* the guard had the update left out */
    float bubble;       /* idle part of rank 0's pipelined time */
    float axis_ms[METRICS_AXES],
        axis_mib[METRICS_AXES]; /* rank 0: waited in, and sent over, the groups of each axis */
    float staged_ms,
        durable_ms; /* of saves since the row before: training was held up; from then until it was on storage. 0: none */
};

#define METRICS_HEADER                                                                                       \
    "step,loss,grad_norm,lr,tokens,step_ms,tokens_per_second,mfu,compute_ms,wait_ms,attempt,hfu,router_"     \
    "loss,held_loss,"                                                                                        \
    "skipped,bubble,tp_ms,cp_ms,pp_ms,ep_ms,dp_ms,tp_mib,cp_mib,pp_mib,ep_mib,dp_mib,staged_ms,durable_ms"

/* Opens the file for a run that goes on after step `resumed` (0 = from the start). Later rows, a torn last line and doubled rows are cut
 * off, through a new file and a rename: a superseded process that still has the old file open can no longer reach this one. A file
 * with other columns is kept beside it under another name. Says on stderr when rows before `resumed` are missing. NULL with a sentence. */
struct metrics *metrics_open(const char *path, int64_t resumed, struct err *err);
void metrics_close(struct metrics *metrics);

/* Appends a row. When the file cannot be written now the row is kept and goes out with the next one; -1 with a sentence then. */
int metrics_append(struct metrics *metrics, const struct metrics_row *row, struct err *err);

/* What the guard wants to know of a row. */
struct metrics_past {
    int64_t step;
    double loss, grad_norm;
};
/* The newest rows of the file at path, at most `room`, oldest first, into past. How many; 0 when there is no such file or no row. */
size_t metrics_recall(const char *path, struct metrics_past *past, size_t room);

/* Brings every row to the disk; another thread may append in the meantime. 0, or -1 with a sentence. */
int metrics_sync(struct metrics *metrics, struct err *err);

#endif
