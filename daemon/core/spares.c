/* spares: nodes that a job holds without using them, so that the ranks of a lost node have somewhere to go.
 *
 * A job starts with those that can be had. What it lacks, or loses, is added whenever slots have become free and nobody who waits would
 * be delayed by it. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "daemon/core/backfill.h"
#include "daemon/core/core_private.h"
#include "daemon/core/holders.h"

int64_t core_spares(const struct core_config *config, const struct job_spec *spec, size_t n_nodes)
{
    int64_t most = (int64_t)n_nodes; /* as many again as it has */
    if (spec->placement.spares != JOB_SPARES_AUTO)
        return spec->placement.spares < most ? spec->placement.spares : most;
    return placement_spares_auto((int64_t)n_nodes, config->failures_per_node_day, config->repair_days);
}

int64_t attempt_spare_nodes(const struct core *core, const struct attempt *a, bool usable_only)
{
    int64_t nodes = 0;
    for (size_t i = 0; i < a->r.n_spares; i++) {
        if (i > 0 && strcmp(a->r.spares[i - 1].node, a->r.spares[i].node) == 0)
            continue;
        const struct node *node = node_find(core, a->r.spares[i].node);
        nodes += !usable_only || (node && node_usable(node));
    }
    return nodes;
}

static void add_spares(struct core *core, struct attempt *a, const struct placed_rank *more, size_t n,
                       int64_t wanted)
{
    a->r.spares = mem_grow(a->r.spares, a->r.n_spares + n, sizeof(*a->r.spares));
    memcpy(a->r.spares + a->r.n_spares, more, n * sizeof(*more));
    a->r.n_spares += n;
    for (size_t i = 0; i < n; i++)
        node_own(node_get(core, more[i].node), more[i].slot, NULL, a, a->job->r.spec->memory);
    mark_attempt(core, a);
    struct event_of of = {.kind = "spares", .job = a->r.job, .attempt = a->r.number, .rank = -1};
    event_note(core, of, "attempt %lld has %lld of %lld spare nodes", (long long)a->r.number,
               (long long)attempt_spare_nodes(core, a, true), (long long)wanted);
}

static void top_up(struct core *core, struct placement_view *view, struct backfill *backfill,
                   struct attempt *a)
{
    const struct job_spec *spec = a->job->r.spec;
    int64_t wanted = core_spares(&core->config, spec, a->r.n_nodes);
    int64_t missing = wanted - attempt_spare_nodes(core, a, true);
    struct seating seats = {.ranks = NULL};
    struct err why;
    if (missing <= 0)
        return;
    seats.spares = placement_spares(view, spec, a->r.placement, missing, &seats.n_spares);
    if (seats.n_spares > 0 &&
        backfill_allows(backfill, core, spec, holders_end_of(core, a->job), &seats, &why)) {
        placement_view_take(view, seats.spares, seats.n_spares, spec->memory);
        add_spares(core, a, seats.spares, seats.n_spares, wanted);
    }
    free(seats.spares);
}

void spares_top_up(struct core *core, struct placement_view *view, struct backfill *backfill)
{
    for (size_t i = 0; i < core->jobs.count && core->any_spares; i++) {
        struct job *job = core->jobs.items[i];
        bool runs = job->current && job->current->r.state == ATTEMPT_RUNNING;
        if (!runs || job->r.spec->placement.spares == 0 || job->spares_version == core->fit_version)
            continue;
        job->spares_version = core->fit_version;
        top_up(core, view, backfill, job->current);
    }
}
