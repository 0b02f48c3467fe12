/* upload_private: what the halves of upload share. */
#ifndef BELAY_CHECKPOINT_UPLOAD_PRIVATE_H
#define BELAY_CHECKPOINT_UPLOAD_PRIVATE_H

#include "checkpoint/upload.h"

struct upload {
    struct objects *objects;
    char *prefix; /* of keys: "" or "runs/llama/" */
    uint64_t part;
    int64_t keep;
};

/* "PREFIX/step-00000100/NAME"; with name "" the folder. The caller frees. */
char *upload_key(const struct upload *u, int64_t step, const char *name);
/* The step of such a key, -1 when it is no checkpoint's. */
int64_t upload_step_of(const struct upload *u, const char *key);

#endif
