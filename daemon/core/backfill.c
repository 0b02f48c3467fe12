/* backfill: see backfill.h. The head's start is computed once a round, and only when somebody could go before it. */
#include "daemon/core/backfill.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/mem.h"
#include "daemon/core/core_private.h"
#include "daemon/core/holders.h"

void backfill_waits(struct backfill *b, struct core *core, struct job *job)
{
    if (b->head)
        return;
    b->head = job;
    core->head_job = job->r.id;
}

static void compute(struct backfill *b, const struct core *core)
{
    const struct job_spec *spec = b->head->r.spec;
    struct holders holders = holders_collect(core, b->head);
    struct placed_rank *ranks = mem_zero((size_t)spec->ranks, sizeof(*ranks));
    b->computed = true;
    b->start_ms = INT64_MAX;
    b->then = core_view(core);
    size_t n = holders_needed(&holders, b->then, spec, ranks);
    if (n <= holders.n)
        b->start_ms = holders.list[n - 1].until_ms;
    while (n < holders.n && holders.list[n].until_ms <= b->start_ms)
        n++;
    if (b->start_ms != INT64_MAX)
        holders_give(&holders, b->then, 0, n);
    free(ranks);
    holders_clear(&holders);
}

static int64_t would_end(const struct core *core, const struct job *job)
{
    int64_t limit = job->r.spec->limits.time_ms;
    int64_t from = job->r.started_ms > 0 ? job->r.started_ms : core->t.now_ms;
    return limit > 0 ? from + limit : INT64_MAX;
}

/* The head still fits at its time with these slots taken. They stay taken then. */
static bool leaves_room(struct backfill *b, const struct job *job, const struct placed_rank *ranks)
{
    const struct job_spec *spec = job->r.spec, *head = b->head->r.spec;
    struct err ignored;
    struct placed_rank *room = mem_zero((size_t)head->ranks, sizeof(*room));
    placement_view_take(b->then, ranks, (size_t)spec->ranks, spec->memory);
    bool fits = placement_find(b->then, head, room, &ignored) == PLACEMENT_OK;
    if (!fits)
        placement_view_give(b->then, ranks, (size_t)spec->ranks, spec->memory);
    free(room);
    return fits;
}

bool backfill_allows(struct backfill *b, const struct core *core, const struct job *job,
                     const struct placed_rank *ranks, struct err *why)
{
    char when[CLOCK_UTC_SIZE];
    if (!b->head || b->head == job)
        return true;
    if (!b->computed)
        compute(b, core);
    if (b->start_ms == INT64_MAX || would_end(core, job) <= b->start_ms || leaves_room(b, job, ranks))
        return true;
    err_set(
        why,
        "would fit, but delay job %lld (%s), which goes before it and can start by %s at the latest; with a "
        "limits.time that ends before then it could start now",
        (long long)b->head->r.id, b->head->r.spec->name, clock_format_utc(b->start_ms, when));
    return false;
}

void backfill_clear(struct backfill *b)
{
    placement_view_free(b->then);
    *b = (struct backfill){.head = NULL};
}
