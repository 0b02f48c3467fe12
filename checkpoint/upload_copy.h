/* upload_copy: one checkpoint between a directory and a bucket (upload.h), replacing nothing on either side. */
#ifndef BELAY_CHECKPOINT_UPLOAD_COPY_H
#define BELAY_CHECKPOINT_UPLOAD_COPY_H

#include "checkpoint/copy.h"
#include "checkpoint/upload.h"

/* The checkpoint in `folder` to the bucket, its manifest last; files beside its own are not sent. What an earlier try has sent is not sent again. */
enum copy_result upload_copy_to(struct upload *u, const char *folder, struct err *err);

/* The checkpoint of `step`, or, step -1, the newest complete one, to its folder in `directory`, which is made when it is missing. *copied: which. */
enum copy_result upload_copy_from(struct upload *u, int64_t step, const char *directory, int64_t *copied,
                                  struct err *err);

#endif
