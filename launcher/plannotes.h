/* plannotes: what one should know before believing a prediction, a sentence each. */
#ifndef BELAY_LAUNCHER_PLANNOTES_H
#define BELAY_LAUNCHER_PLANNOTES_H

#include "planner/planner.h"

#define PLANNOTES_MAX 6

struct plannotes {
    char *text[PLANNOTES_MAX];
    size_t count;
};

/* Takes the sentence; NULL is none. */
void plannotes_add(struct plannotes *notes, char *text);
/* What docs/planning.md says of predictions of this kind, memory that is not set aside or that fp32 gradients would exceed, and a batch that
 * leaves the pipeline empty for a third of the step. */
void plannotes_caution(struct plannotes *notes, const struct plan_request *request, const struct plan *plan);
void plannotes_clear(struct plannotes *notes);

#endif
