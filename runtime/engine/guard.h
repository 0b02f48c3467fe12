/* guard: watches the loss and the gradient norm of each step, and says what to do about one that jumps. Pure: all ranks feed it the same
 * numbers and get the same answer.
 *
 * Why: large runs meet spikes that clipping does not prevent. PaLM restarted some 100 steps before each of about 20 spikes and skipped
 * 200 to 500 batches, after which they did not come back, though the same batches did no harm elsewhere (arXiv 2204.02311, section 5.1);
 * OPT-175B went back to older checkpoints by hand (arXiv 2205.01068, section 2.5); spikes of the gradient norm often come before those of the
 * loss (OLMo 2, arXiv 2501.00656).
 *
 * What is a spike: a loss or norm that is not finite, at any time; and once 8 steps (or the whole window, if smaller) are known
 *   loss  above all of: factor x median, median + 6 spreads, median + 0.5 nats
 *   norm  above all of: 10 x factor x median, median + 6 spreads; where gradients are clipped it is not looked at: what follows a bad update, or an
 *         unusual batch, may have a hundred times the usual norm, and clipping takes what harm it could do
 * The medians and spreads (1.4826 x the median distance from the median: one standard deviation when noise is normal) are of the newest
 * `window` steps that were fine: numbers of a spike never get among them, so a NaN does not blind the guard to what follows. The factor
 * keeps small jumps of smooth curves from counting, the spreads keep the noise of rough ones from counting, the 0.5 those near zero. */
#ifndef BELAY_RUNTIME_GUARD_H
#define BELAY_RUNTIME_GUARD_H

#include <stdint.h>

#include "common/err.h"
#include "schema/job.h"

struct guard;

enum guard_verdict {
    GUARD_FINE, /* apply the update */
    GUARD_BEAR, /* apply it all the same: the step before was skipped and this one is no better, so not its samples are off but the weights,
                     * and only updates mend those */
    GUARD_SKIP, /* do not apply it; go on with the next samples */
    GUARD_ROLLBACK, /* back to the newest checkpoint, past the samples since then */
    GUARD_STOP,     /* end the job */
};

/* By train->guard_action, _factor, _window and _patience. guard_free takes NULL. */
struct guard *guard_new(const struct job_train *train);
void guard_free(struct guard *guard);

/* Judges step `step` before its update is applied. Steps come in order; after a rollback they begin again at a smaller one, and what was seen of
 * steps from there on no longer counts as fine, while spikes stay counted. A spike gets the verdict of the action; the job stops
 * instead when `patience` spikes at most `window` - 1 steps away from it came before. why: a sentence unless GUARD_FINE. With the action skip the second of two spikes in a row that are numbers
 * is borne; patience counts it. action off: always
 * GUARD_FINE. */
enum guard_verdict guard_judge(struct guard *guard, int64_t step, double loss, double grad_norm,
                               struct err *why);

/* As guard_judge, for a step of the past (a row of metrics.csv), without an answer: a resumed run that feeds the newest 3 x window rows, oldest
 * first, goes on with the same window and the same spikes. A spike of a step that is counted already is not counted again, so after a
 * rollback the rows before it may be fed as well, to fill the window with them. */
void guard_feed(struct guard *guard, int64_t step, double loss, double grad_norm);

#endif
