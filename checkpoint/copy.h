/* copy: a checkpoint into another directory, so that it is there whole or not at all. */
#ifndef BELAY_CHECKPOINT_COPY_H
#define BELAY_CHECKPOINT_COPY_H

#include "checkpoint/digest.h"
#include "common/err.h"

enum copy_result {
    COPY_ERROR = -1, /* nothing half is there; a sentence */
    COPY_DONE = 0,
    COPY_THERE = 1, /* this very checkpoint is there already, and whole */
    COPY_OTHER = 2, /* another one of the same step is there: it stays; a sentence */
};

/* Copies the checkpoint in `folder`, with whatever files stand beside its own (a tokenizer), to its step's folder in `directory`, which is made
 * when it is missing. What is read is held against the manifest, what was written is read back, and only then does it get its name; an older
 * attempt that was broken off is no help and no harm. watch (may be NULL) hears of each byte twice: when it is copied and when it is read back. */
enum copy_result copy_checkpoint(const char *folder, const char *directory, const struct digest_watch *watch,
                                 struct err *err);

#endif
