/* evalset: what a model is measured on, in windows of T tokens: a row of tokens from files or text, or the held-out part of a job.
 *
 * A row is cut into windows that begin `stride` tokens apart. The tokens of a window that an earlier one has counted are only read, so that each
 * token but the row's first is counted once, and with a stride below T after at least T - stride others. */
#ifndef BELAY_RUNTIME_EVALSET_H
#define BELAY_RUNTIME_EVALSET_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "runtime/text/tokenizer.h"
#include "schema/job.h"

struct evalset;

struct evalset_request {
    const char *
        path; /* token files (corpus.h); else text, JSON lines or a folder of them, which become tokens (source.h) */
    const struct job_train *train;     /* instead of a path: what it holds out */
    const struct tokenizer *tokenizer; /* borrowed, of the model */
    int64_t vocab;                     /* of the model */
    size_t context;                    /* T; with `train` it must be the job's */
    size_t stride;                     /* 1..T; of no meaning with `train` */
};

/* NULL with a sentence: it cannot be read, was made with another tokenizer, or has less than two tokens. */
struct evalset *evalset_open(const struct evalset_request *request, struct err *err);
void evalset_close(struct evalset *set);

uint64_t evalset_windows(const struct evalset *set);
/* Tokens of window i and their targets, one further on (T each); targets < 0 are not counted. 0, or -1 with a sentence. */
int evalset_fill(const struct evalset *set, uint64_t i, int32_t *tokens, int32_t *targets, struct err *err);

#endif
