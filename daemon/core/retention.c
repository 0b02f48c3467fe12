/* retention: which of the checkpoints that a job announced are still there.
 *
 * Nobody tells when a checkpoint goes, and nobody need: belay-train's rules (docs/checkpoint-format.md, common/retention.h) are applied to what it
 * announced. An attempt that goes on from step S sets aside what is later, and after each checkpoint only those stay that the rules name.
 * The list is filled attempt by attempt; what is later than S is cut from its end. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/retention.h"
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

/* What a run's own purge leaves of those that stand there, n by step. Within an attempt steps only grow, so deciding once after its last one comes
 * to the same as deciding after each. */
static size_t purge(const struct job *job, struct checkpoint_record *list, size_t n)
{
    const struct job_spec *spec = job->r.spec;
    const struct retention_policy policy = {.keep = spec->checkpoint.keep,
                                            .keep_every = spec->checkpoint.keep_every,
                                            .keep_best = spec->checkpoint.keep_best};
    struct retention_item *items = mem_zero(n, sizeof(*items)); /* newest first */
    size_t left = 0;
    for (size_t i = 0; i < n; i++)
        items[n - 1 - i] =
            (struct retention_item){.step = list[i].step, .held_loss = list[i].held_loss, .complete = true};
    retention_decide(&policy, items, n);
    for (size_t i = 0; i < n; i++)
        if (items[n - 1 - i].stays)
            list[left++] = list[i];
    free(items);
    return left;
}

size_t core_checkpoints_kept(const struct core *core, int64_t id, struct checkpoint_record *list, size_t n)
{
    const struct job *job = job_find(core, id);
    if (!job || !job->r.spec->is_train || n == 0)
        return n; /* other programs keep what they like */
    size_t top = 0;
    qsort(list, n, sizeof(*list), by_attempt);
    for (size_t i = 0; i <= n; i++) {
        int64_t before = i > 0 ? list[i - 1].attempt : 0, now = i < n ? list[i].attempt : INT64_MAX;
        if (now != before) {
            int64_t from = went_on_from(job, before, now);
            top = purge(job, list, top);
            while (top > 0 && list[top - 1].step > from)
                top--;
        }
        if (i < n)
            list[top++] = list[i];
    }
    return top;
}
