/* spares: nodes that a job holds without using them, so that the ranks of a lost node have somewhere to go.
 *
 * A job starts with those that can be had. What it lacks, or loses, is added when slots have become free and nobody waits for them.
 * A spare whose node is out of service, or came back as less, is given up; one that is only not heard from for a moment is not. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "daemon/core/backfill.h"
#include "daemon/core/core_private.h"
#include "daemon/core/holders.h"

enum {
    LOOKS_MAX = 8
}; /* for more spares, a round: each costs a placement, perhaps also one of the head; the others' turn comes with the next */

int64_t core_spares(const struct core_config *config, const struct job_spec *spec, size_t n_nodes)
{
    int64_t most = (int64_t)n_nodes; /* as many again as it has */
    if (spec->placement.spares != JOB_SPARES_AUTO)
        return spec->placement.spares < most ? spec->placement.spares : most;
    return placement_spares_auto((int64_t)n_nodes, config->failures_per_node_day, config->repair_days);
}

static int64_t count_nodes(const struct placed_rank *spares, size_t n)
{
    int64_t nodes = 0;
    for (size_t i = 0; i < n; i++)
        nodes += i == 0 || strcmp(spares[i - 1].node, spares[i].node) != 0;
    return nodes;
}

void spares_tell(struct core *core, const struct attempt *a, int64_t wanted)
{
    struct event_of of = {.kind = "spares", .job = a->r.job, .attempt = a->r.number, .rank = -1};
    event_note(core, of, "attempt %lld has %lld of %lld spare nodes", (long long)a->r.number,
               (long long)count_nodes(a->r.spares, a->r.n_spares), (long long)wanted);
}

int64_t spares_left(const struct core *core, struct attempt *a, const struct placed_rank *ranks, size_t n)
{
    int64_t left = count_nodes(a->r.spares, a->r.n_spares);
    for (size_t i = 0; i < a->r.n_spares; i++) {
        struct node *node = node_find(core, a->r.spares[i].node);
        if (node)
            node->mark = a;
    }
    for (size_t i = 0; i < n && left > 0; i++) {
        struct node *node = node_find(core, ranks[i].node);
        if (!node || node->mark != a)
            continue;
        node->mark = NULL;
        left--;
    }
    for (size_t i = 0; i < a->r.n_spares; i++) {
        struct node *node = node_find(core, a->r.spares[i].node);
        if (node)
            node->mark = NULL;
    }
    return left;
}

/* Could the slot take over a rank, now or once its node is heard from again? */
static bool serves(const struct core *core, const struct attempt *a, const struct placed_rank *slot)
{
    const struct node *node = node_find(core, slot->node);
    if (!node || node->leaving || node->r.drain_requested || node->r.state == NODE_DOWN)
        return false;
    const struct link_inventory *inv = &node->r.inventory;
    bool same_kind = a->job->r.spec->device == DEVICE_CPU || inv->gpu == a->seats[0].node->r.inventory.gpu;
    return same_kind && slot->slot < inv->slots && (inv->memory == 0 || node->held_memory <= inv->memory);
}

/* Gives up whole nodes of which a slot does not serve any more. True: something changed. */
static bool drop_useless(struct core *core, struct attempt *a)
{
    size_t kept = 0, n = a->r.n_spares;
    for (size_t i = 0, run; i < n; i += run) {
        bool good = true;
        for (run = 0; i + run < n && strcmp(a->r.spares[i].node, a->r.spares[i + run].node) == 0; run++)
            good = good && serves(core, a, &a->r.spares[i + run]);
        for (size_t k = 0; k < run; k++)
            if (good)
                a->r.spares[kept++] = a->r.spares[i + k];
            else
                node_own(node_get(core, a->r.spares[i + k].node), a->r.spares[i + k].slot, a, NULL,
                         a->job->r.spec->memory);
    }
    a->r.n_spares = kept;
    if (kept < n)
        capacity_grew(core);
    return kept < n;
}

void spares_add(struct core *core, struct attempt *a, const struct placed_rank *more, size_t n)
{
    a->r.spares = mem_grow(a->r.spares, a->r.n_spares + n, sizeof(*a->r.spares));
    memcpy(a->r.spares + a->r.n_spares, more, n * sizeof(*more));
    a->r.n_spares += n;
    for (size_t i = 0; i < n; i++)
        node_own(node_get(core, more[i].node), more[i].slot, NULL, a, a->job->r.spec->memory);
}

/* Nodes that are spares already are left out. */
static void hide_spares(const struct core *core, struct placement_view *view, const struct attempt *a,
                        bool hide)
{
    for (size_t i = 0; i < a->r.n_spares; i++) {
        const struct node *node = node_find(core, a->r.spares[i].node);
        placement_view_usable(view, a->r.spares[i].node, !hide && node && node_usable(node));
    }
}

static bool find_more(struct core *core, struct placement_view *view, struct backfill *backfill,
                      struct attempt *a, int64_t missing)
{
    const struct job_spec *spec = a->job->r.spec;
    struct seating seats = {.ranks = NULL};
    hide_spares(core, view, a, true);
    seats.spares = placement_spares(view, spec, a->r.placement, missing, &seats.n_spares);
    hide_spares(core, view, a, false);
    bool found =
        seats.n_spares > 0 && backfill_spares(backfill, core, spec, holders_end_of(core, a->job), &seats);
    if (found) {
        placement_view_take(view, seats.spares, seats.n_spares, spec->memory);
        spares_add(core, a, seats.spares, seats.n_spares);
    }
    free(seats.spares);
    return found;
}

static void look_after(struct core *core, struct placement_view *view, struct backfill *backfill,
                       struct attempt *a, int *looks)
{
    int64_t wanted = core_spares(&core->config, a->job->r.spec, a->r.n_nodes);
    bool changed = drop_useless(core, a);
    int64_t missing = wanted - count_nodes(a->r.spares, a->r.n_spares);
    if (missing > 0 && (*looks)++ < LOOKS_MAX && find_more(core, view, backfill, a, missing))
        changed = true;
    if (!changed)
        return;
    mark_attempt(core, a);
    spares_tell(core, a, wanted);
}

static bool wants_a_look(const struct job *job, uint64_t version)
{
    return job->current && job->current->r.state == ATTEMPT_RUNNING && job->r.spec->placement.spares != 0 &&
           job->spares_version != version;
}

/* Goes on where the last round stopped, so that everybody's turn comes. */
void spares_look_after(struct core *core, struct placement_view *view, struct backfill *backfill)
{
    uint64_t version = core->fit_version + core->hold_version;
    size_t n = core->jobs.count, from = core->spares_from, i = 0;
    int looks = 0;
    if (!core->any_spares || !core->settled)
        return;
    for (; i < n && looks < LOOKS_MAX; i++) {
        struct job *job = core->jobs.items[(from + i) % n];
        if (!wants_a_look(job, version))
            continue;
        job->spares_version = version;
        look_after(core, view, backfill, job->current, &looks);
    }
    core->spares_from = n > 0 ? (from + i) % n : 0;
}
