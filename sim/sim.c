/* sim: the loop. The clock jumps from event to event; whatever happens at one moment happens before the core's turn of that moment, as in
 * belayd: events in, core_turn, then what changed is looked at and the orders of the nodes concerned are carried out. Heartbeats
 * are left out (a node is silent only when its link is lost), which is what makes weeks cheap. */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "sim/sim_private.h"

#define BOOT_MS  INT64_C(1000)
#define NEVER_MS INT64_C(1000000000000000) /* suspect only when a link is lost */
#define PATIENCE 3                         /* times the prepare time of a node, before the core gives it up */

struct core_time sim_time_now(const struct sim *sim)
{
    return (struct core_time){.now_ms = SIM_UTC_MS + sim->now_ms, .mono_ms = BOOT_MS + sim->now_ms};
}

uint64_t sim_later(struct sim *sim, int64_t in_ms, enum event_kind kind, int64_t a, int64_t b)
{
    uint64_t stamp = ++sim->stamps;
    queue_put(&sim->queue, (struct queue_event){
                               .at_ms = sim->now_ms + in_ms, .kind = kind, .a = a, .b = b, .stamp = stamp});
    return stamp;
}

struct vnode *sim_node(struct sim *sim, const char *name)
{
    return idmap_get(sim->node_by_name, name);
}

struct vjob *sim_job(struct sim *sim, int64_t id)
{
    return sim->jobs[id - 1];
}

/* ---- begin and end ---- */

/* What the core is told for `spares: auto`: failures that take a node out, and how long. */
static void tell_failures(const struct scenario *sc, struct core_config *config)
{
    static const enum scenario_kind kinds[] = {FAULT_GPU_BROKEN, FAULT_NODE_CRASH, FAULT_LINK_CUT};
    double per_day = 0, days = 0;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        per_day += sc->faults[kinds[i]].per_day;
        days += sc->faults[kinds[i]].per_day * (double)sc->faults[kinds[i]].repair.ms / 86400e3;
    }
    config->failures_per_node_day = per_day / (double)sc->cluster->n_nodes;
    config->repair_days = per_day > 0 ? days / per_day : 0;
}

static struct core *make_core(struct sim *sim)
{
    core_config_defaults(&sim->config);
    int64_t prepare_ms = PATIENCE * sim->sc->timing.prepare_ms;
    sim->config.seed = sim->options->seed;
    sim->config.cluster = sim->sc->cluster;
    sim->config.suspect_after_ms = NEVER_MS;
    sim->config.down_after_ms = sim->sc->timing.detect_ms;
    if (sim->config.prepare_timeout_ms < prepare_ms)
        sim->config.prepare_timeout_ms = prepare_ms;
    tell_failures(sim->sc, &sim->config);
    return core_new(&sim->config, sim_time_now(sim));
}

static void drain_marked(struct sim *sim, const struct cluster_node *node)
{
    enum core_refusal why;
    if (node->drained)
        (void)core_drain(sim->core, sim_time_now(sim), node->name, "drained in the cluster file", 0, true,
                         &why, NULL);
}

static void begin(struct sim *sim)
{
    sim->core = make_core(sim);
    agents_build(sim);
    for (size_t i = 0; i < sim->n_nodes; i++)
        agents_hello(sim, &sim->nodes[i]);
    for (size_t i = 0; i < sim->n_nodes; i++)
        drain_marked(sim, sim->nodes[i].spec);
    for (uint64_t k = 0; k < SCENARIO_KIND_COUNT; k++) {
        sim->strikes[k] = random_stream(sim->options->seed, 10 + k);
        sim->victims[k] = random_stream(sim->options->seed, 30 + k);
        sim->repairs[k] = random_stream(sim->options->seed, 50 + k);
    }
    faults_begin(sim);
    sim->points = mem_zero(sim->options->points + 1, sizeof(*sim->points));
    if (sim->options->points > 0)
        sim_later(sim, sim->end_ms / (int64_t)sim->options->points, EVENT_POINT, 0, 0);
}

static void clear(struct sim *sim)
{
    for (size_t i = 0; i < sim->n_jobs; i++) {
        free(sim->jobs[i]->nodes);
        free(sim->jobs[i]->seat_ranks);
        free(sim->jobs[i]);
    }
    agents_free(sim);
    core_free(sim->core);
    queue_clear(&sim->queue);
    free(sim->jobs);
    free(sim->points);
    free(sim->arrived);
    free(sim->entry_streams);
    free(sim->entry_step_ms);
}

/* ---- the loop ---- */

static void point_event(struct sim *sim, const struct queue_event *event)
{
    (void)event;
    measure_point(sim);
}

static void (*const handlers[EVENT_KIND_COUNT])(struct sim *, const struct queue_event *) = {
    [EVENT_ARRIVAL] = arrivals_event, [EVENT_SHIM] = agents_event,  [EVENT_RUN] = runs_event,
    [EVENT_DURABLE] = runs_durable,   [EVENT_FAULT] = faults_event, [EVENT_REPAIR] = faults_repair,
    [EVENT_POINT] = point_event,
};

static void handle_due(struct sim *sim)
{
    struct queue_event event;
    while (queue_take(&sim->queue, sim->now_ms, &event) && !sim->failed) {
        handlers[event.kind](sim, &event);
        sim->events++;
    }
}

struct changed_attempt {
    int64_t job, number;
};

static size_t copy_attempts(const struct core_changes *c, struct changed_attempt **out)
{
    *out = mem_zero(c->n_attempts + 1, sizeof(**out));
    for (size_t i = 0; i < c->n_attempts; i++)
        (*out)[i] = (struct changed_attempt){c->attempts[i]->job, c->attempts[i]->number};
    return c->n_attempts;
}

static size_t copy_nodes(struct sim *sim, const struct core_changes *c, const char ***out)
{
    *out = mem_zero(c->n_order_nodes + 1, sizeof(**out));
    for (size_t i = 0; i < c->n_order_nodes; i++)
        (*out)[i] = sim_node(sim, c->order_nodes[i])->spec->name;
    return c->n_order_nodes;
}

/* Attempts first: orders mean the attempts that there are now. Both make reports, which make changes, so the lists are copied. */
static void digest(struct sim *sim)
{
    struct changed_attempt *attempts = NULL;
    const char **names = NULL;
    const struct core_changes *c = core_changes(sim->core);
    size_t n_attempts = copy_attempts(c, &attempts), n_names = copy_nodes(sim, c, &names);
    core_changes_clear(sim->core);
    for (size_t i = 0; i < n_attempts; i++)
        runs_attempt(sim, attempts[i].job, attempts[i].number);
    for (size_t i = 0; i < n_names; i++)
        agents_converge(sim, names[i]);
    free(attempts);
    free(names);
}

static int64_t core_due_ms(const struct sim *sim)
{
    int64_t mono_ms = core_next_wakeup(sim->core);
    return mono_ms == INT64_MAX ? INT64_MAX : mono_ms - BOOT_MS;
}

static bool changed(struct sim *sim)
{
    const struct core_changes *c = core_changes(sim->core);
    return c->n_jobs + c->n_attempts + c->n_nodes + c->n_order_nodes > 0;
}

enum { ROUNDS_MAX = 1000 }; /* turns at one moment; a core that has more to do does not come to rest */

static void moment(struct sim *sim)
{
    for (int round = 0; round < ROUNDS_MAX && !sim->failed; round++) {
        handle_due(sim);
        core_turn(sim->core, sim_time_now(sim));
        digest(sim);
        if (queue_next_ms(&sim->queue) > sim->now_ms && core_due_ms(sim) > sim->now_ms && !changed(sim))
            return;
    }
    if (!sim->failed)
        err_set(sim->err, "the core does not come to rest at %lld ms: this is a fault of belay",
                (long long)sim->now_ms);
    sim->failed = true;
}

static int64_t next_ms(const struct sim *sim)
{
    int64_t queue_ms = queue_next_ms(&sim->queue), core_ms = core_due_ms(sim);
    int64_t next = queue_ms < core_ms ? queue_ms : core_ms;
    return next < sim->now_ms ? sim->now_ms : next;
}

static void loop(struct sim *sim)
{
    moment(sim);
    for (int64_t next; !sim->failed && (next = next_ms(sim)) <= sim->end_ms;) {
        measure_advance(sim, next);
        sim->now_ms = next;
        moment(sim);
    }
    measure_advance(sim, sim->end_ms);
    sim->now_ms = sim->end_ms;
}

int sim_run(const struct scenario *scenario, const struct sim_options *options, struct sim_result *out,
            struct err *err)
{
    struct sim sim = {.sc = scenario, .options = options, .err = err};
    sim.end_ms = (int64_t)(options->days * 86400e3);
    *out = (struct sim_result){.jobs = NULL};
    begin(&sim);
    sim.failed = arrivals_begin(&sim, err) < 0;
    if (!sim.failed)
        loop(&sim);
    if (!sim.failed)
        measure_results(&sim, out);
    clear(&sim);
    return sim.failed ? -1 : 0;
}
