/* uploader: rank 0 copies committed checkpoints to object storage while training goes on (checkpoint/upload.h), in a thread of its own.
 *
 * One checkpoint is under way at a time and one waits; of those that come faster, the newest. All functions belong to the main thread and return at
 * once, but uploader_wait, uploader_free (a tenth of a second or so) and uploader_fetch. */
#ifndef BELAY_RUNTIME_UPLOADER_H
#define BELAY_RUNTIME_UPLOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/objects.h"
#include "common/err.h"
#include "schema/job.h"

enum uploader_end {
    UPLOADER_DONE,     /* complete there */
    UPLOADER_FAILED,   /* given up; the next checkpoint is tried as if nothing had been */
    UPLOADER_GONE,     /* retention had removed the folder before it was sent */
    UPLOADER_OVERTAKEN /* a newer checkpoint took its place in the queue */
};

struct uploader_result {
    int64_t step;
    enum uploader_end end;
    uint64_t sent; /* bytes; those that were there already do not count */
    double seconds;
    const char *why; /* unless UPLOADER_DONE: the sentence */
};

struct uploader;

/* For a job with checkpoint.upload.url; the spec is borrowed. limits: how patient requests are, NULL: as usual. tell(ctx, result) is called from
 * uploader_poll and uploader_wait, once for each step that was added; for a job it sends CHECKPOINT_TIER=upload with CHECKPOINT_DURABLE or
 * CHECKPOINT_FAILED (docs/protocols.md, section 4). NULL with a sentence when there are no keys. */
struct uploader *uploader_new(const struct job_spec *spec, const struct objects_limits *limits,
                              void (*tell)(void *ctx, const struct uploader_result *result), void *ctx,
                              struct err *err);

/* The checkpoint of `step` has been committed to the shelf. After a start, add the one that the run goes on from: what was there is not sent again. */
void uploader_add(struct uploader *u, int64_t step);

/* The step that is under way, 0 = none. NULL is fine. */
int64_t uploader_step(const struct uploader *u);

/* Tells what has ended, and begins what waits. Before or after each step. NULL is fine. */
void uploader_poll(struct uploader *u);

/* Waits until everything is uploaded or told, at most limit_ms, or until signals_stop when `stoppable`. False when something is left. NULL is fine. */
bool uploader_wait(struct uploader *u, int64_t limit_ms, bool stoppable);

/* Leaves off what is under way; the next uploader goes on where it broke off. NULL is fine. */
void uploader_free(struct uploader *u);

/* Rank 0, with the claim held, before the shelf is looked at: when the directory has no checkpoint and the job may go on from one, brings the one that
 * checkpoint.resume asks for, the newest as a rule, from the bucket. attempt: BELAY_ATTEMPT. *step: which, 0 when nothing was brought. Ends early
 * on signals_stop. 0, or -1 with a sentence: then the run must not begin from nothing. */
int uploader_fetch(const struct job_spec *spec, const struct objects_limits *limits, int64_t attempt,
                   int64_t *step, struct err *err);

#endif
