/* bucket: what a run does with its object storage (checkpoint.upload): rank 0 takes a checkpoint from there when the directory has none, and
 * sends there what was committed. Nothing to do without checkpoint.upload.url. None is collective. */
#ifndef BELAY_RUNTIME_BUCKET_H
#define BELAY_RUNTIME_BUCKET_H

#include "runtime/run.h"

/* Rank 0, with the claim held, before the directory is looked at. 0, or an exit code with a sentence. */
int bucket_fetch(struct run *run, struct err *err);
/* Rank 0: from here on checkpoints are sent. 0, or an exit code with a sentence. */
int bucket_open(struct run *run, struct err *err);
/* The checkpoint of `step` is on the shelf. Any rank; those without a bucket do nothing, as below. */
void bucket_add(struct run *run, int64_t step);
/* The step whose checkpoint is being sent, 0 = none. */
int64_t bucket_step(const struct run *run);
/* Once a step. */
void bucket_poll(struct run *run);
/* At the end of a run that ends with `code`: waits for what is still to be sent as long as it makes sense, and says what is left. */
void bucket_close(struct run *run, int code);

#endif
