/* metrics: one CSV row per training step, as if the run had never been interrupted.
 *
 * Rows of steps 1..n each stand there exactly once, in order. Rows are in the kernel's hands when metrics_append returns (a killed
 * process loses none) and on disk when metrics_sync returns (called before a checkpoint becomes visible). */
#ifndef BELAY_RUNTIME_METRICS_H
#define BELAY_RUNTIME_METRICS_H

#include <stdint.h>

#include "common/err.h"

struct metrics;

struct metrics_row {
    int64_t step;
    double loss, grad_norm, lr;                                 /* printed %.17g: they read back bitwise */
    uint64_t tokens;                                            /* trained on since step 1 */
    float step_ms, tokens_per_second, mfu, compute_ms, wait_ms; /* printed %.9g, bitwise as well */
    int64_t attempt;
};

#define METRICS_HEADER                                                                                       \
    "step,loss,grad_norm,lr,tokens,step_ms,tokens_per_second,mfu,compute_ms,wait_ms,attempt"

/* Opens the file for a run that goes on after step `resumed` (0 = from the start). Later rows, a torn last line and doubled rows are cut
 * off, through a new file and a rename: a superseded process that still has the old file open can no longer reach this one. A file
 * with other columns is kept beside it under another name. Says on stderr when rows before `resumed` are missing. NULL with a sentence. */
struct metrics *metrics_open(const char *path, int64_t resumed, struct err *err);
void metrics_close(struct metrics *metrics);

/* Appends a row. When the file cannot be written now the row is kept and goes out with the next one; -1 with a sentence then. */
int metrics_append(struct metrics *metrics, const struct metrics_row *row, struct err *err);

/* Brings every row to the disk. 0, or -1 with a sentence. */
int metrics_sync(struct metrics *metrics, struct err *err);

#endif
