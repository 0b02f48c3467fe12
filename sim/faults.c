/* faults: what breaks, when, and when it is whole again. Each kind is a Poisson process over the whole cluster whose times and victims
 * follow from the seed alone; a failure of something that is out already counts for nothing, so what is left is a failure rate of
 * the working parts. */
#include <stdio.h>

#include "sim/sim_private.h"

static void plan_next(struct sim *sim, enum scenario_kind kind)
{
    double per_day = sim->sc->faults[kind].per_day;
    if (per_day <= 0)
        return;
    double ms = random_exponential(&sim->strikes[kind], 86400e3 / per_day);
    if (ms < 1e15)
        sim_later(sim, (int64_t)ms + 1, EVENT_FAULT, kind, 0);
}

void faults_begin(struct sim *sim)
{
    for (int k = 0; k < SCENARIO_KIND_COUNT; k++)
        plan_next(sim, (enum scenario_kind)k);
}

static void plan_repair(struct sim *sim, enum scenario_kind kind, size_t what)
{
    int64_t ms = random_time(&sim->repairs[kind], &sim->sc->faults[kind].repair);
    sim_later(sim, ms, EVENT_REPAIR, kind, (int64_t)what);
}

/* ---- whom it strikes ---- */

static bool is_out(const struct vnode *node)
{
    return node->crashed || node->cut > 0 || node->broken;
}

/* A node, each with the weight of its devices. */
static struct vnode *draw_node(struct sim *sim, enum scenario_kind kind, int64_t *slot)
{
    int64_t at = (int64_t)random_below(&sim->victims[kind], (uint64_t)sim->devices);
    for (size_t i = 0; i < sim->n_nodes; i++) {
        if (at < sim->nodes[i].spec->slots) {
            *slot = at;
            return &sim->nodes[i];
        }
        at -= sim->nodes[i].spec->slots;
    }
    return NULL;
}

static void break_job(struct sim *sim, struct vjob *job, bool *struck)
{
    if (job->live && job->state != RUN_BROKEN && job->state != RUN_OVER) {
        job->interrupted++;
        *struck = true;
    }
    runs_break(sim, job);
}

/* Every job with a part on the node. */
static void break_jobs(struct sim *sim, const struct vnode *node, bool *struck)
{
    for (size_t i = 0; i < node->n_shims; i++) {
        struct vjob *job = sim_job(sim, node->shims[i].job);
        if (job->attempt == node->shims[i].attempt)
            break_job(sim, job, struck);
    }
}

/* The rank on the slot dies; was a job struck? */
static bool fail_slot(struct sim *sim, struct vnode *node, int64_t slot, const char *why)
{
    bool struck = false;
    for (size_t i = 0; i < node->n_shims; i++) {
        struct shim *shim = &node->shims[i];
        for (size_t k = 0; k < shim->report.n_ranks; k++) {
            const struct link_rank *rank = &shim->report.ranks[k];
            if (rank->slot != slot || rank->state != RANK_RUNNING)
                continue;
            if (sim_job(sim, shim->job)->attempt == shim->attempt)
                break_job(sim, sim_job(sim, shim->job), &struck);
            agents_fail_rank(sim, node, shim, k, why);
            return struck;
        }
    }
    return false;
}

/* ---- the kinds: each returns whether something that worked was struck, and says whether a job was ---- */

static void set_down(struct sim *sim, const struct vnode *node, bool was, bool is)
{
    sim->down.value += (double)node->spec->slots * ((double)is - (double)was);
}

static void drain(struct sim *sim, const struct vnode *node)
{
    enum core_refusal why;
    (void)core_drain(sim->core, sim_time_now(sim), node->spec->name, "a device failed", 0, true, &why, NULL);
}

static bool strike_gpu(struct sim *sim, bool *struck)
{
    int64_t slot = 0;
    struct vnode *node = draw_node(sim, FAULT_GPU_BROKEN, &slot);
    if (is_out(node))
        return false;
    *struck = fail_slot(sim, node, slot, "its device failed");
    set_down(sim, node, false, true);
    node->broken = true;
    drain(sim, node);
    plan_repair(sim, FAULT_GPU_BROKEN, (size_t)(node - sim->nodes));
    return true;
}

static bool strike_node(struct sim *sim, bool *struck)
{
    int64_t slot = 0;
    struct vnode *node = draw_node(sim, FAULT_NODE_CRASH, &slot);
    if (is_out(node))
        return false;
    break_jobs(sim, node, struck);
    set_down(sim, node, false, true);
    agents_lose(sim, node);
    plan_repair(sim, FAULT_NODE_CRASH, (size_t)(node - sim->nodes));
    return true;
}

static void cut(struct sim *sim, struct vnode *node, bool *struck)
{
    bool was = is_out(node);
    break_jobs(sim, node, struck);
    node->cut++;
    set_down(sim, node, was, true);
    agents_cut(sim, node);
}

static bool strike_link(struct sim *sim, bool *struck)
{
    int64_t slot = 0;
    struct vnode *node = draw_node(sim, FAULT_LINK_CUT, &slot);
    if (is_out(node))
        return false;
    cut(sim, node, struck);
    plan_repair(sim, FAULT_LINK_CUT, (size_t)(node - sim->nodes));
    return true;
}

static bool strike_switch(struct sim *sim, bool *struck)
{
    size_t at = (size_t)random_below(&sim->victims[FAULT_SWITCH_OUT], sim->n_racks);
    struct vrack *rack = &sim->racks[at];
    if (rack->out)
        return false;
    rack->out = true;
    for (size_t i = 0; i < rack->n_nodes; i++)
        cut(sim, &sim->nodes[rack->nodes[i]], struck);
    plan_repair(sim, FAULT_SWITCH_OUT, at);
    return true;
}

static bool strike_storage(struct sim *sim, bool *struck)
{
    *struck = false;
    sim->storage_out++;
    plan_repair(sim, FAULT_STORAGE_OUT, 0);
    return true;
}

static bool strike_slow(struct sim *sim, bool *struck)
{
    int64_t slot = 0;
    struct vnode *node = draw_node(sim, FAULT_SLOW_NODE, &slot);
    if (is_out(node) || node->slow)
        return false;
    node->slow = true;
    *struck = node->held > 0;
    runs_speed(sim, node);
    plan_repair(sim, FAULT_SLOW_NODE, (size_t)(node - sim->nodes));
    return true;
}

static bool strike_software(struct sim *sim, bool *struck)
{
    int64_t slot = 0;
    struct vnode *node = draw_node(sim, FAULT_SOFTWARE, &slot);
    *struck = !is_out(node) && fail_slot(sim, node, slot, "the program failed");
    return *struck;
}

static bool (*const strikes[SCENARIO_KIND_COUNT])(struct sim *, bool *) = {
    [FAULT_GPU_BROKEN] = strike_gpu,    [FAULT_NODE_CRASH] = strike_node,     [FAULT_LINK_CUT] = strike_link,
    [FAULT_SWITCH_OUT] = strike_switch, [FAULT_STORAGE_OUT] = strike_storage, [FAULT_SLOW_NODE] = strike_slow,
    [FAULT_SOFTWARE] = strike_software,
};

void faults_event(struct sim *sim, const struct queue_event *event)
{
    bool struck = false;
    plan_next(sim, (enum scenario_kind)event->a);
    if (!strikes[event->a](sim, &struck))
        return;
    sim->faults[event->a].happened++;
    sim->faults[event->a].struck += struck;
}

/* ---- repair ---- */

static void undrain(struct sim *sim, struct vnode *node)
{
    enum core_refusal why;
    node->broken = false;
    (void)core_undrain(sim->core, sim_time_now(sim), node->spec->name, &why, NULL);
}

/* Back before the core gave it up: its ranks find that the others lost them. */
static void fail_broken(struct sim *sim, struct vnode *node)
{
    for (size_t i = 0; i < node->n_shims && node->linked; i++) {
        struct shim *shim = &node->shims[i];
        const struct vjob *job = sim_job(sim, shim->job);
        if (shim->report.phase == REPORT_RUNNING && job->live && job->attempt == shim->attempt &&
            job->state == RUN_BROKEN)
            agents_fail_rank(sim, node, shim, 0, "its peers were lost");
    }
}

static void mend(struct sim *sim, struct vnode *node, enum scenario_kind kind)
{
    bool was = is_out(node);
    if (kind == FAULT_GPU_BROKEN)
        undrain(sim, node);
    if (kind == FAULT_NODE_CRASH)
        node->crashed = false;
    if (kind == FAULT_LINK_CUT || kind == FAULT_SWITCH_OUT)
        node->cut--;
    set_down(sim, node, was, is_out(node));
    agents_back(sim, node);
    if (kind == FAULT_LINK_CUT || kind == FAULT_SWITCH_OUT)
        fail_broken(sim, node);
}

static void mend_rack(struct sim *sim, struct vrack *rack)
{
    rack->out = false;
    for (size_t i = 0; i < rack->n_nodes; i++)
        mend(sim, &sim->nodes[rack->nodes[i]], FAULT_SWITCH_OUT);
}

void faults_repair(struct sim *sim, const struct queue_event *event)
{
    switch ((enum scenario_kind)event->a) {
    case FAULT_SWITCH_OUT:
        mend_rack(sim, &sim->racks[event->b]);
        break;
    case FAULT_STORAGE_OUT:
        sim->storage_out--;
        runs_storage(sim);
        break;
    case FAULT_SLOW_NODE:
        sim->nodes[event->b].slow = false;
        runs_speed(sim, &sim->nodes[event->b]);
        break;
    default:
        mend(sim, &sim->nodes[event->b], (enum scenario_kind)event->a);
    }
}
