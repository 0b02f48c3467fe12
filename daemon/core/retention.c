/* retention: which of the checkpoints that a job announced are still there.
 *
 * Nobody tells when a checkpoint goes, and nobody need: belay-train's rules (docs/checkpoint-format.md) are applied to what it
 * announced. An attempt that goes on from step S sets aside what is later, and after each checkpoint only the `keep` newest stay.
 * The list serves as a stack: steps grow upwards, later steps are cut from its top, old ones fall off its bottom. */
#include <stdlib.h>
#include <string.h>

#include "daemon/core/core_private.h"

static int by_attempt(const void *a, const void *b)
{
    const struct checkpoint_record *x = a, *y = b;
    if (x->attempt != y->attempt)
        return x->attempt < y->attempt ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

/* The earliest step from which an attempt after `after`, up to `last`, went on; INT64_MAX when none did. */
static int64_t went_on_from(const struct job *job, int64_t after, int64_t last)
{
    int64_t from = INT64_MAX;
    for (size_t i = 0; i < job->n_attempts; i++) {
        const struct attempt_record *a = &job->attempts[i]->r;
        if (a->number > after && a->number <= last && a->from_step >= 0 && a->from_step < from)
            from = a->from_step;
    }
    return from;
}

size_t core_checkpoints_kept(const struct core *core, int64_t id, struct checkpoint_record *list, size_t n)
{
    const struct job *job = job_find(core, id);
    if (!job || !job->r.spec->is_train || n == 0)
        return n; /* other programs keep what they like */
    size_t keep = (size_t)job->r.spec->checkpoint.keep, top = 0, bottom = 0;
    qsort(list, n, sizeof(*list), by_attempt);
    for (size_t i = 0; i <= n; i++) {
        int64_t before = i > 0 ? list[i - 1].attempt : 0, now = i < n ? list[i].attempt : INT64_MAX;
        int64_t from = now != before ? went_on_from(job, before, now) : INT64_MAX;
        while (top > bottom && list[top - 1].step > from)
            top--;
        if (i < n)
            list[top++] = list[i];
        if (top - bottom > keep)
            bottom = top - keep;
    }
    memmove(list, list + bottom, (top - bottom) * sizeof(*list));
    return top - bottom;
}
