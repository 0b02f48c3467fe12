/* holders: see holders.h. */
#include "daemon/core/holders.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "daemon/core/core_private.h"

int64_t holders_end_of(const struct core *core, const struct job *job)
{
    int64_t limit = job->r.spec->limits.time_ms;
    int64_t from = job->r.started_ms > 0 ? job->r.started_ms : core->t.now_ms;
    return limit > 0 ? from + limit : INT64_MAX;
}

static void add(const struct core *core, struct holders *h, size_t *room, const struct job *job)
{
    const struct attempt *a = job->current ? job->current : job->kept;
    if (!a)
        return;
    struct holder one = {.job = job->r.id, .until_ms = holders_end_of(core, job)};
    one.name = job->r.spec->name;
    one.user = job->r.user;
    one.memory = job->r.spec->memory;
    one.n = a->r.world + a->r.n_spares;
    one.ranks = mem_zero(one.n + 1, sizeof(*one.ranks));
    memcpy(one.ranks, a->r.placement, a->r.world * sizeof(*one.ranks));
    if (a->r.n_spares > 0)
        memcpy(one.ranks + a->r.world, a->r.spares, a->r.n_spares * sizeof(*one.ranks));
    h->list = mem_one_more(h->list, h->n, room, sizeof(*h->list));
    h->list[h->n++] = one;
}

static int by_end(const void *x, const void *y)
{
    const struct holder *a = x, *b = y;
    if (a->until_ms != b->until_ms)
        return a->until_ms < b->until_ms ? -1 : 1;
    return a->job < b->job ? -1 : a->job > b->job;
}

struct holders holders_collect(const struct core *core, const struct job *except)
{
    struct holders h = {.list = NULL};
    size_t room = 0;
    for (size_t i = 0; i < core->jobs.count; i++)
        if (core->jobs.items[i] != except)
            add(core, &h, &room, core->jobs.items[i]);
    if (h.n > 1)
        qsort(h.list, h.n, sizeof(*h.list), by_end);
    return h;
}

void holders_clear(struct holders *h)
{
    for (size_t i = 0; i < h->n; i++)
        free(h->list[i].ranks);
    free(h->list);
    *h = (struct holders){.list = NULL};
}

void holders_give(const struct holders *h, struct placement_view *view, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        placement_view_give(view, h->list[i].ranks, h->list[i].n, h->list[i].memory);
}

void holders_take(const struct holders *h, struct placement_view *view, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        placement_view_take(view, h->list[i].ranks, h->list[i].n, h->list[i].memory);
}

size_t holders_needed(const struct holders *h, struct placement_view *view, const struct job_spec *spec,
                      struct placed_rank *ranks)
{
    struct err ignored;
    size_t low = 0, high = h->n + 1; /* with `low` it does not fit */
    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        holders_give(h, view, 0, mid);
        bool fits = placement_find(view, spec, ranks, &ignored) == PLACEMENT_OK;
        holders_take(h, view, 0, mid);
        if (fits)
            high = mid;
        else
            low = mid;
    }
    return high;
}
