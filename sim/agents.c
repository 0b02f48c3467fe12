/* agents: virtual nodes that carry out the core's orders as real agents do: a shim per order, ready after a while, ranks on go, gone
 * after stop; what a node says reaches the core only while the node can be reached, and its hello lists what is there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "sim/sim_private.h"

static size_t index_of(const struct sim *sim, const struct vnode *node)
{
    return (size_t)(node - sim->nodes);
}

/* ---- the cluster ---- */

static struct vrack *rack_of(struct sim *sim, struct idmap *racks, const struct cluster_node *node)
{
    char *key = str_printf("%s/%s", node->pod, node->rack);
    size_t at = (size_t)(uintptr_t)idmap_get(racks, key);
    if (at == 0) {
        at = ++sim->n_racks;
        sim->racks[at - 1] = (struct vrack){.nodes = NULL};
        idmap_put(racks, key, (void *)(uintptr_t)at); /* NOLINT(performance-no-int-to-ptr) */
    }
    free(key);
    return &sim->racks[at - 1];
}

static void add_node(struct sim *sim, size_t i, struct vrack *rack)
{
    struct vnode *node = &sim->nodes[i];
    node->spec = &sim->sc->cluster->nodes[i];
    node->rack = (size_t)(rack - sim->racks);
    rack->nodes = mem_one_more(rack->nodes, rack->n_nodes, &rack->room, sizeof(size_t));
    rack->nodes[rack->n_nodes++] = i;
    rack->slots += node->spec->slots;
    sim->devices += node->spec->slots;
    idmap_put(sim->node_by_name, node->spec->name, node);
}

void agents_build(struct sim *sim)
{
    size_t n = sim->sc->cluster->n_nodes;
    struct idmap *racks = idmap_new();
    sim->n_nodes = n;
    sim->nodes = mem_zero(n + 1, sizeof(*sim->nodes));
    sim->racks = mem_zero(n + 1, sizeof(*sim->racks));
    sim->node_by_name = idmap_new();
    for (size_t i = 0; i < n; i++)
        add_node(sim, i, rack_of(sim, racks, &sim->sc->cluster->nodes[i]));
    idmap_free(racks);
}

static void clear_shims(struct vnode *node)
{
    for (size_t i = 0; i < node->n_shims; i++)
        link_report_clear(&node->shims[i].report);
    node->n_shims = 0;
}

void agents_free(struct sim *sim)
{
    for (size_t i = 0; i < sim->n_nodes; i++) {
        clear_shims(&sim->nodes[i]);
        free(sim->nodes[i].shims);
    }
    for (size_t i = 0; i < sim->n_racks; i++)
        free(sim->racks[i].nodes);
    free(sim->nodes);
    free(sim->racks);
    idmap_free(sim->node_by_name);
}

/* ---- what a node says ---- */

static void copy(char *to, size_t size, const char *from)
{
    (void)snprintf(to, size, "%s", from);
}

static void describe(const struct vnode *node, struct link_inventory *out)
{
    const struct cluster_node *spec = node->spec;
    *out = (struct link_inventory){.slots = spec->slots, .gpu = spec->gpu};
    out->cores = spec->cores > 0 ? spec->cores : spec->slots;
    out->memory = spec->memory > 0 ? spec->memory : INT64_C(1) << 50;
    copy(out->hostname, sizeof(out->hostname), spec->name);
    copy(out->address, sizeof(out->address), "10.0.0.1");
    copy(out->rack, sizeof(out->rack), spec->rack);
    copy(out->pod, sizeof(out->pod), spec->pod);
}

void agents_hello(struct sim *sim, struct vnode *node)
{
    struct link_inventory inventory;
    char boot[40];
    struct link_report *reports = mem_zero(node->n_shims + 1, sizeof(*reports));
    describe(node, &inventory);
    (void)snprintf(boot, sizeof(boot), "boot-%lld", (long long)node->boots);
    for (size_t i = 0; i < node->n_shims; i++)
        reports[i] = node->shims[i].report; /* borrowed */
    struct core_hello hello = {node->spec->name, boot, &inventory, reports, node->n_shims};
    node->linked = true;
    core_node_hello(sim->core, sim_time_now(sim), &hello);
    free(reports);
}

static bool is_final(const struct shim *shim)
{
    enum report_phase p = shim->report.phase;
    return p == REPORT_GONE || p == REPORT_REFUSED || p == REPORT_LOST;
}

static void report(struct sim *sim, struct vnode *node, struct shim *shim)
{
    shim->report.rev++;
    if (node->linked)
        core_node_report(sim->core, sim_time_now(sim), node->spec->name, &shim->report);
}

static void end_rank(const struct sim *sim, struct link_rank *rank, int code, int signal)
{
    if (rank->state == RANK_EXITED)
        return;
    rank->state = RANK_EXITED;
    rank->code = code;
    rank->signal = signal;
    rank->finalized = code == 0 && signal == 0;
    rank->ended_ms = SIM_UTC_MS + sim->now_ms;
}

static void end_shim(struct sim *sim, struct vnode *node, struct shim *shim, int signal)
{
    for (size_t i = 0; i < shim->report.n_ranks; i++)
        end_rank(sim, &shim->report.ranks[i], 0, signal);
    shim->report.phase = REPORT_GONE;
    shim->stamp = 0;
    report(sim, node, shim);
}

void agents_say(struct sim *sim, struct vjob *job, const char *key, int64_t value)
{
    struct vnode *node = job->n_nodes > 0 ? &sim->nodes[job->nodes[0]] : NULL;
    if (!node || !node->linked)
        return;
    char text[24];
    (void)snprintf(text, sizeof(text), "%lld", (long long)value);
    struct link_progress p = {.job = job->id, .attempt = job->attempt, .rank = 0, .values = json_object()};
    if (!job->said && job->every > 0)
        (void)json_object_set_new(p.values, "CHECKPOINT_ON", json_string("SIGUSR1"));
    (void)json_object_set_new(p.values, key, json_string(text));
    core_node_progress(sim->core, sim_time_now(sim), node->spec->name, &p);
    json_decref(p.values);
}

/* ---- orders ---- */

static struct shim *find_shim(struct vnode *node, int64_t job, int64_t attempt)
{
    for (size_t i = 0; i < node->n_shims; i++)
        if (node->shims[i].job == job && node->shims[i].attempt == attempt)
            return &node->shims[i];
    return NULL;
}

static void wait_for(struct sim *sim, const struct vnode *node, struct shim *shim, int64_t ms)
{
    shim->stamp = sim_later(sim, ms, EVENT_SHIM, (int64_t)index_of(sim, node), 0);
}

static struct shim *new_shim(struct vnode *node, const struct link_order *o)
{
    node->shims = mem_one_more(node->shims, node->n_shims, &node->shims_room, sizeof(*node->shims));
    struct shim *shim = &node->shims[node->n_shims++];
    *shim = (struct shim){.job = o->job, .attempt = o->attempt, .checkpoint = o->checkpoint};
    struct link_report *r = &shim->report;
    *r = (struct link_report){.job = o->job, .attempt = o->attempt, .port = 40000, .master_port = 20000};
    r->n_ranks = o->n_ranks;
    r->ranks = mem_zero(o->n_ranks + 1, sizeof(*r->ranks));
    for (size_t i = 0; i < o->n_ranks; i++)
        r->ranks[i] = (struct link_rank){.rank = o->ranks[i].rank, .slot = o->ranks[i].slot};
    return shim;
}

/* An order for something that is not there: only `prepare` begins it. */
static void first_order(struct sim *sim, struct vnode *node, const struct link_order *o)
{
    struct shim *shim = new_shim(node, o);
    shim->phase = o->phase;
    if (o->phase == ORDER_PREPARE) {
        wait_for(sim, node, shim, sim->sc->timing.prepare_ms);
        return;
    }
    shim->report.phase = o->phase == ORDER_STOP ? REPORT_GONE : REPORT_LOST;
    report(sim, node, shim);
}

static void stop_shim(struct sim *sim, const struct vnode *node, struct shim *shim, bool kill)
{
    int64_t ms = sim->sc->timing.stop_ms;
    if (shim->stopping || is_final(shim))
        return;
    shim->stopping = true;
    wait_for(sim, node, shim, kill || shim->report.phase < REPORT_RUNNING ? ms / 10 : ms);
}

static void obey(struct sim *sim, struct vnode *node, const struct link_order *o)
{
    struct shim *shim = find_shim(node, o->job, o->attempt);
    if (!shim) {
        first_order(sim, node, o);
        return;
    }
    if (o->phase == ORDER_GO && shim->phase == ORDER_PREPARE && !is_final(shim))
        wait_for(sim, node, shim, sim->sc->timing.launch_ms);
    if (o->phase == ORDER_STOP)
        stop_shim(sim, node, shim, o->kill);
    shim->phase = o->phase;
    if (o->checkpoint > shim->checkpoint) {
        shim->checkpoint = o->checkpoint;
        runs_ask_checkpoint(sim, sim_job(sim, o->job));
    }
}

static bool is_ordered(const struct link_order *orders, size_t n, const struct shim *shim)
{
    for (size_t i = 0; i < n; i++)
        if (orders[i].job == shim->job && orders[i].attempt == shim->attempt)
            return true;
    return false;
}

static void drop_shim(struct vnode *node, size_t i)
{
    link_report_clear(&node->shims[i].report);
    node->shims[i] = node->shims[--node->n_shims];
}

/* What nobody wants any more is killed; once it is gone and said so, it is forgotten. */
static void sweep(struct sim *sim, struct vnode *node, const struct link_order *orders, size_t n)
{
    for (size_t i = node->n_shims; i > 0; i--) {
        struct shim *shim = &node->shims[i - 1];
        if (is_ordered(orders, n, shim))
            continue;
        if (is_final(shim))
            drop_shim(node, i - 1);
        else
            stop_shim(sim, node, shim, true);
    }
}

void agents_converge(struct sim *sim, const char *name)
{
    struct vnode *node = sim_node(sim, name);
    if (!node->linked)
        return;
    struct link_order *orders = NULL;
    size_t n = core_node_orders(sim->core, name, &orders);
    sweep(sim, node, orders, n);
    for (size_t i = 0; i < n; i++) {
        obey(sim, node, &orders[i]);
        link_order_clear(&orders[i]);
    }
    free(orders);
}

/* ---- time ---- */

static void run_ranks(struct sim *sim, struct vnode *node, struct shim *shim)
{
    for (size_t i = 0; i < shim->report.n_ranks; i++) {
        struct link_rank *rank = &shim->report.ranks[i];
        rank->state = RANK_RUNNING;
        rank->pid = 1000 + rank->rank;
        rank->connected = true;
        rank->started_ms = SIM_UTC_MS + sim->now_ms;
    }
    shim->report.phase = REPORT_RUNNING;
    int64_t id = shim->job, attempt = shim->attempt;
    report(sim, node, shim);
    struct vjob *job = sim_job(sim, id);
    if (job->live && job->attempt == attempt)
        runs_node_runs(sim, job);
}

static void shim_due(struct sim *sim, struct vnode *node, struct shim *shim)
{
    shim->stamp = 0;
    if (shim->stopping) {
        end_shim(sim, node, shim, 15);
    } else if (shim->phase == ORDER_PREPARE) {
        shim->report.phase = REPORT_READY;
        report(sim, node, shim);
    } else if (shim->phase == ORDER_GO) {
        run_ranks(sim, node, shim);
    }
}

void agents_event(struct sim *sim, const struct queue_event *event)
{
    struct vnode *node = &sim->nodes[event->a];
    for (size_t i = 0; i < node->n_shims; i++)
        if (node->shims[i].stamp == event->stamp) {
            shim_due(sim, node, &node->shims[i]);
            return;
        }
}

void agents_finish(struct sim *sim, struct vjob *job)
{
    for (size_t i = 0; i < job->n_nodes; i++) {
        struct vnode *node = &sim->nodes[job->nodes[i]];
        struct shim *shim = find_shim(node, job->id, job->attempt);
        if (shim && !is_final(shim))
            end_shim(sim, node, shim, 0);
    }
}

void agents_fail_rank(struct sim *sim, struct vnode *node, struct shim *shim, size_t rank, const char *why)
{
    struct link_rank *r = &shim->report.ranks[rank];
    end_rank(sim, r, 1, 0);
    copy(r->why, sizeof(r->why), why);
    report(sim, node, shim);
}

/* ---- being reached ---- */

void agents_cut(struct sim *sim, struct vnode *node)
{
    if (!node->linked)
        return;
    node->linked = false;
    core_node_link_lost(sim->core, sim_time_now(sim), node->spec->name);
}

void agents_lose(struct sim *sim, struct vnode *node)
{
    clear_shims(node);
    node->crashed = true;
    node->boots++;
    agents_cut(sim, node);
}

void agents_back(struct sim *sim, struct vnode *node)
{
    if (!node->crashed && node->cut == 0 && !node->linked)
        agents_hello(sim, node);
}
