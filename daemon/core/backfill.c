/* backfill: see backfill.h. The head's start is computed once a round, and only when somebody could go before it. */
#include "daemon/core/backfill.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/mem.h"
#include "daemon/core/core_private.h"
#include "daemon/core/holders.h"

enum {
    LOOKS_MAX = 16
}; /* a round; each costs a placement of the job and one of the head: a millisecond at full size */

void backfill_waits(struct backfill *b, struct core *core, struct job *job)
{
    if (b->head)
        return;
    b->head = job;
    if (core->head_job != job->r.id)
        core->hold_version++; /* who was held back for another may be let go, and the other way about */
    core->head_job = job->r.id;
}

/* What the head keeps itself is its own then, too. */
static void give_kept(struct backfill *b, const struct core *core)
{
    size_t n = 0;
    struct placed_rank *kept = b->head->kept ? keep_list(core, b->head, &n) : NULL;
    placement_view_give(b->then, kept, n, b->head->r.spec->memory);
    free(kept);
}

/* An elastic job starts as soon as its smallest size fits. */
static struct job_spec smallest(const struct job_spec *spec)
{
    return job_spec_resized(spec, job_dp_at_least(spec, 1));
}

static void compute(struct backfill *b, const struct core *core)
{
    const struct job_spec spec = smallest(b->head->r.spec);
    struct holders holders = holders_collect(core, b->head);
    struct placed_rank *ranks = mem_zero((size_t)spec.ranks, sizeof(*ranks));
    b->computed = true;
    b->start_ms = INT64_MAX;
    b->then = core_view(core);
    give_kept(b, core);
    size_t n = holders_needed(&holders, b->then, &spec, ranks);
    if (n <= holders.n)
        b->start_ms = holders.list[n - 1].until_ms;
    while (n < holders.n && holders.list[n].until_ms <= b->start_ms)
        n++;
    if (b->start_ms != INT64_MAX)
        holders_give(&holders, b->then, 0, n);
    free(ranks);
    holders_clear(&holders);
}

/* The head still fits at its time with these slots taken. They stay taken then. */
static bool leaves_room(struct backfill *b, const struct job_spec *spec, const struct seating *s)
{
    const struct job_spec head = smallest(b->head->r.spec);
    struct err ignored;
    struct placed_rank *room = mem_zero((size_t)head.ranks, sizeof(*room));
    size_t n = s->ranks ? (size_t)spec->ranks : 0;
    placement_view_take(b->then, s->ranks, n, spec->memory);
    placement_view_take(b->then, s->spares, s->n_spares, spec->memory);
    bool fits = placement_find(b->then, &head, room, &ignored) == PLACEMENT_OK;
    if (!fits) {
        placement_view_give(b->then, s->ranks, n, spec->memory);
        placement_view_give(b->then, s->spares, s->n_spares, spec->memory);
    }
    free(room);
    return fits;
}

static void say_wait(const struct backfill *b, const char *how, struct err *why)
{
    char when[CLOCK_UTC_SIZE];
    err_set(
        why,
        "%s delay job %lld (%s), which goes before it and can start by %s at the latest; with a limits.time "
        "that ends before then it could start now",
        how, (long long)b->head->r.id, b->head->r.spec->name, clock_format_utc(b->start_ms, when));
}

/* Nobody's turn comes before, or it is over by then. */
static bool ends_before(struct backfill *b, const struct core *core, int64_t ends_ms)
{
    if (!b->head)
        return true;
    if (!b->computed)
        compute(b, core);
    return b->start_ms == INT64_MAX || ends_ms <= b->start_ms;
}

bool backfill_bars(struct backfill *b, const struct core *core, int64_t ends_ms, struct err *why)
{
    if (b->looks < LOOKS_MAX || ends_before(b, core, ends_ms))
        return false;
    say_wait(b, "might", why);
    return true;
}

bool backfill_allows(struct backfill *b, const struct core *core, const struct job_spec *spec,
                     int64_t ends_ms, const struct seating *seats, struct err *why)
{
    if (ends_before(b, core, ends_ms))
        return true;
    b->looks++;
    if (leaves_room(b, spec, seats))
        return true;
    say_wait(b, "would fit, but", why);
    return false;
}

bool backfill_spares(struct backfill *b, const struct core *core, const struct job_spec *spec,
                     int64_t ends_ms, const struct seating *spares)
{
    if (!b->head)
        return true;
    if (!b->computed)
        compute(b, core);
    return b->start_ms != INT64_MAX && (ends_ms <= b->start_ms || leaves_room(b, spec, spares));
}

void backfill_clear(struct backfill *b)
{
    placement_view_free(b->then);
    *b = (struct backfill){.head = NULL};
}
