/* keep: the slots that an attempt holds, and what a job keeps of them until its next attempt.
 *
 * A job that starts again keeps its slots and spares for a while, so that nobody takes them meanwhile and only the ranks that lost their
 * node have to move. The job's record says whose slots it keeps, so a controller that starts again keeps the same. A requeue, a
 * hold or an end gives everything back. */
#include <stdlib.h>

#include "common/mem.h"
#include "daemon/core/core_private.h"

static void own_all(struct core *core, const struct placed_rank *ranks, size_t n, struct attempt *from,
                    struct attempt *to, int64_t memory)
{
    for (size_t i = 0; i < n; i++) {
        struct node *node = node_find(core, ranks[i].node);
        if (node)
            node_own(node, ranks[i].slot, from, to, memory);
    }
}

void attempt_hold(struct core *core, struct attempt *a)
{
    a->holds = true;
    own_all(core, a->r.placement, a->r.world, NULL, a, a->job->r.spec->memory);
    own_all(core, a->r.spares, a->r.n_spares, NULL, a, a->job->r.spec->memory);
}

void attempt_release(struct core *core, struct attempt *a)
{
    if (!a->holds)
        return;
    a->holds = false;
    own_all(core, a->r.placement, a->r.world, a, NULL, a->job->r.spec->memory);
    own_all(core, a->r.spares, a->r.n_spares, a, NULL, a->job->r.spec->memory);
    capacity_grew(core);
}

/* When its ranks last ran: attempts that nodes refused do not keep the slots any longer. */
static int64_t idle_since(const struct job *job)
{
    int64_t since = 0;
    for (size_t i = job->n_attempts; i > 0; i--) {
        since = job->attempts[i - 1]->r.ended_ms;
        if (job->attempts[i - 1]->r.running_ms > 0)
            break;
    }
    return since;
}

/* Decides from the records alone. */
static bool keeps(const struct core *core, const struct job *job, const struct attempt *ended)
{
    enum attempt_outcome o = ended->r.outcome;
    return job->waiting && !job->current && o != OUTCOME_PREEMPTED && o != OUTCOME_CANCELLED &&
           ended->r.placement && idle_since(job) + core->config.keep_ms > core->t.now_ms;
}

void keep_slots(struct core *core, struct job *job, struct attempt *ended)
{
    if (!keeps(core, job, ended)) {
        attempt_release(core, ended);
        return;
    }
    job->kept = ended;
    if (job->r.kept != ended->r.number)
        mark_job(core, job);
    job->r.kept = ended->r.number;
    int64_t until = core_mono_of(core, idle_since(job)), now = core->t.mono_ms;
    job->keep_until_mono_ms = (until < now ? until : now) + core->config.keep_ms;
    core->schedule_dirty = true;
    job_rearm(core, job);
}

void keep_end(struct core *core, struct job *job)
{
    if (job->r.kept != 0)
        mark_job(core, job);
    job->r.kept = 0;
    if (!job->kept)
        return;
    struct attempt *a = job->kept;
    job->kept = NULL;
    attempt_release(core, a);
    mark_all_orders(core, a); /* what it held in memory goes, too */
}

/* Only once every live attempt has its slots: what they hold is not to be kept by another. */
void keep_after_load(struct core *core)
{
    core->loaded = true;
    for (size_t i = 0; i < core->jobs.count; i++) {
        struct job *job = core->jobs.items[i];
        struct attempt *newest = job_newest(job);
        bool kept = newest && job->r.kept == newest->r.number && !job->current && !job->kept;
        if (!kept || !keeps(core, job, newest))
            continue;
        attempt_hold(core, newest);
        keep_slots(core, job, newest);
    }
}

const struct node *keep_unheard(const struct core *core, const struct job *job)
{
    for (size_t i = 0; !core->settled && job->kept && i < job->kept->r.n_nodes; i++)
        if (job->kept->seats[i].node->r.state == NODE_UNKNOWN)
            return job->kept->seats[i].node;
    return NULL;
}

static size_t list_held(const struct core *core, const struct attempt *a, const struct placed_rank *ranks,
                        size_t n, struct placed_rank *out)
{
    size_t held = 0;
    for (size_t i = 0; i < n; i++) {
        const struct node *node = node_find(core, ranks[i].node);
        size_t at = (size_t)ranks[i].slot;
        bool there = node && ranks[i].slot < node->r.inventory.slots; /* it may have come back with fewer */
        if (there && at < node->n_owners && node->owners[at] == a)
            out[held++] = ranks[i];
    }
    return held;
}

struct placed_rank *keep_list(const struct core *core, const struct job *job, size_t *n)
{
    const struct attempt *a = job->kept;
    struct placed_rank *out = mem_zero(a->r.world + a->r.n_spares + 1, sizeof(*out));
    *n = list_held(core, a, a->r.placement, a->r.world, out);
    *n += list_held(core, a, a->r.spares, a->r.n_spares, out + *n);
    return out;
}
