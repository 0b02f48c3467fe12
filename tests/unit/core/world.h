/* world: a little cluster around the core, in virtual time: fake agents that carry out orders, and a fake store.
 *
 * It works like belayd: events go in, core_turn, then the changes are "committed" (deep copies), and only then orders reach the
 * agents. A controller restart throws the core away and loads a new one from the store. Every commit checks the invariants. */
#ifndef BELAY_TESTS_UNIT_CORE_WORLD_H
#define BELAY_TESTS_UNIT_CORE_WORLD_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "daemon/core/core.h"
#include "daemon/core/placement.h"
#include "tests/unit/core/world_records.h"

enum { WORLD_NODES = 16, WORLD_JOBS = 64, WORLD_ATTEMPTS = 1024, WORLD_SHIMS = 64 };
#define WORLD_UTC 1800000000000

struct shim {
    bool used;
    struct link_report report;
    enum order_phase phase;
    int64_t checkpoint;
    char token[33];
    bool unsent;
    bool stubborn; /* stays alive after an order to stop until the test ends it */
};

struct agent {
    char name[64], boot[40];
    bool alive, linked, mute; /* mute: linked, but stopped: says and does nothing */
    bool refuse, slow;        /* refuses to prepare; never gets ready */
    int64_t slots;
    const char *rack, *pod; /* or NULL */
    struct shim shims[WORLD_SHIMS];
    struct link_report old; /* some earlier report */
    int64_t beat_mono_ms;
};

struct world {
    struct core_config config;
    struct core *core;
    int64_t now_ms, mono_ms;
    struct agent agents[WORLD_NODES];
    size_t n_agents;
    char *yaml[WORLD_JOBS]; /* by id */
    /* the store */
    struct job_record jobs[WORLD_JOBS];
    struct attempt_record attempts[WORLD_ATTEMPTS];
    size_t n_attempts;
    struct node_record nodes[WORLD_NODES];
    size_t n_nodes;
    struct checkpoint_record checkpoints[4096];
    size_t n_checkpoints;
    int64_t next_job, next_event;
    char *log; /* texts of all events, one a line */
    size_t log_len;
    /* faults of the links: in thousandths, drawn from random */
    uint64_t random;
    int lose, repeat;
    bool mpi;                    /* ranks are connected */
    int64_t commits, restart_at; /* the controller is killed after this commit; -1 = after each */
};

static inline struct core_time world_time(const struct world *w)
{
    return (struct core_time){w->now_ms, w->mono_ms};
}

static inline uint64_t world_random(struct world *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random;
}

static inline bool world_chance(struct world *w, int thousandths)
{
    return (int)(world_random(w) % 1000) < thousandths;
}

/* ---- the store ---- */

static inline struct attempt_record *world_stored_attempt(struct world *w, int64_t job, int64_t number)
{
    for (size_t i = 0; i < w->n_attempts; i++)
        if (w->attempts[i].job == job && w->attempts[i].number == number)
            return &w->attempts[i];
    assert_true(w->n_attempts < WORLD_ATTEMPTS);
    return &w->attempts[w->n_attempts++];
}

static inline struct node_record *world_stored_node(struct world *w, const char *name)
{
    for (size_t i = 0; i < w->n_nodes; i++)
        if (strcmp(w->nodes[i].name, name) == 0)
            return &w->nodes[i];
    return &w->nodes[w->n_nodes++];
}

static inline void world_log(struct world *w, const struct event_record *e)
{
    char *line = str_printf("%s: %s\n", e->kind, e->text);
    size_t n = strlen(line);
    w->log = mem_grow(w->log, w->log_len + n + 1, 1);
    memcpy(w->log + w->log_len, line, n + 1);
    w->log_len += n;
    free(line);
}

/* ---- invariants ---- */

static inline bool world_attempt_live(const struct attempt_record *a)
{
    return a->job != 0 && a->state != ATTEMPT_ENDED;
}

static inline void world_check_slots(const struct world *w)
{
    static bool taken[WORLD_NODES][64];
    memset(taken, 0, sizeof(taken));
    for (size_t i = 0; i < w->n_attempts; i++) {
        const struct attempt_record *a = &w->attempts[i];
        for (size_t r = 0; world_attempt_live(a) && r < a->world; r++) {
            int node = (int)strtol(a->placement[r].node + 4, NULL, 10);
            assert_true(a->placement[r].slot < 64);
            assert_false(taken[node][a->placement[r].slot]); /* no slot is given twice */
            taken[node][a->placement[r].slot] = true;
        }
    }
}

static inline void world_check_attempts(const struct world *w)
{
    int live[WORLD_JOBS] = {0};
    for (size_t i = 0; i < w->n_attempts; i++) {
        const struct attempt_record *a = &w->attempts[i];
        live[a->job] += world_attempt_live(a);
        assert_true(live[a->job] <= 1); /* one attempt of a job at a time */
    }
    for (int64_t id = 1; id < w->next_job; id++) {
        const struct job_record *j = &w->jobs[id];
        assert_int_equal(j->id, id); /* an acknowledged job is never lost */
        assert_true(j->reason[0] != '\0');
        if (job_state_final(j->state) || j->state == JOB_HELD)
            assert_int_equal(live[id], 0);
        if (j->state == JOB_STARTING || j->state == JOB_RUNNING)
            assert_int_equal(live[id], 1);
    }
}

/* ---- shims and agents ---- */

static inline struct agent *world_agent(struct world *w, const char *name)
{
    for (size_t i = 0; i < w->n_agents; i++)
        if (strcmp(w->agents[i].name, name) == 0)
            return &w->agents[i];
    fail_msg("no agent %s", name);
    return NULL;
}

static inline struct shim *world_shim(struct agent *g, int64_t job, int64_t attempt)
{
    for (size_t i = 0; i < WORLD_SHIMS; i++)
        if (g->shims[i].used && g->shims[i].report.job == job && g->shims[i].report.attempt == attempt)
            return &g->shims[i];
    return NULL;
}

static inline struct shim *world_new_shim(struct agent *g, const struct link_order *o)
{
    size_t i = 0;
    while (i < WORLD_SHIMS && g->shims[i].used)
        i++;
    assert_true(i < WORLD_SHIMS);
    struct shim *s = &g->shims[i];
    memset(s, 0, sizeof(*s));
    s->used = true;
    s->report.job = o->job;
    s->report.attempt = o->attempt;
    (void)snprintf(s->token, sizeof(s->token), "%s", o->token);
    s->report.n_ranks = o->n_ranks;
    s->report.ranks = mem_zero(o->n_ranks + 1, sizeof(struct link_rank));
    for (size_t k = 0; k < o->n_ranks; k++)
        s->report.ranks[k] = (struct link_rank){.rank = o->ranks[k].rank, .slot = o->ranks[k].slot};
    return s;
}

static inline bool shim_final(const struct shim *s)
{
    enum report_phase p = s->report.phase;
    return p == REPORT_GONE || p == REPORT_REFUSED || p == REPORT_LOST;
}

static inline void shim_set(struct shim *s, enum report_phase phase)
{
    s->report.phase = phase;
    s->report.rev++;
    s->unsent = true;
}

/* The shim's ranks that still run end so; with all ended, the shim is gone. */
static inline void shim_end_ranks(const struct world *w, struct shim *s, int code, int sig)
{
    for (size_t i = 0; i < s->report.n_ranks; i++) {
        struct link_rank *r = &s->report.ranks[i];
        if (r->state != RANK_RUNNING)
            continue;
        r->state = RANK_EXITED;
        r->code = code;
        r->signal = sig;
        r->ended_ms = w->now_ms;
        r->finalized = r->connected && code == 0 && sig == 0;
    }
    shim_set(s, REPORT_GONE);
}

static inline void shim_run(const struct world *w, struct shim *s)
{
    for (size_t i = 0; i < s->report.n_ranks; i++) {
        s->report.ranks[i].state = RANK_RUNNING;
        s->report.ranks[i].pid = 1000 + s->report.ranks[i].rank;
        s->report.ranks[i].connected = w->mpi;
        s->report.ranks[i].started_ms = w->now_ms;
    }
    shim_set(s, REPORT_RUNNING);
}

static inline void shim_prepare(struct agent *g, struct shim *s)
{
    s->phase = ORDER_PREPARE;
    s->report.port = 40000 + s->report.job;
    s->report.master_port = 20000;
    if (g->refuse)
        (void)snprintf(s->report.reason, sizeof(s->report.reason), "no space left on device");
    shim_set(s, g->refuse ? REPORT_REFUSED : g->slow ? REPORT_PREPARING : REPORT_READY);
}

/* The whole gang must be ready before anyone is told to go; the map must tell of every node. */
static inline void world_check_go(struct world *w, const struct link_order *o)
{
    int64_t ranks = 0;
    assert_int_equal(o->n_map, o->nodes);
    for (size_t i = 0; i < o->n_map; i++) {
        assert_true(o->map[i].port > 0);
        ranks += (int64_t)o->map[i].n_ranks;
    }
    assert_int_equal(ranks, o->world);
    const struct attempt_record *a = world_stored_attempt(w, o->job, o->attempt);
    for (size_t i = 0; i < a->n_nodes; i++)
        assert_true(a->nodes[i].reported && a->nodes[i].report.phase >= REPORT_READY);
}

static inline void agent_obey(struct world *w, struct agent *g, const struct link_order *o)
{
    struct shim *s = world_shim(g, o->job, o->attempt);
    if (!s) {
        s = world_new_shim(g, o);
        if (o->phase == ORDER_PREPARE)
            shim_prepare(g, s);
        else
            shim_set(s, o->phase == ORDER_STOP ? REPORT_GONE : REPORT_LOST);
        return;
    }
    assert_string_equal(s->token, o->token);
    assert_true(o->phase >= s->phase);
    assert_true(o->checkpoint >= s->checkpoint);
    s->checkpoint = o->checkpoint;
    if (o->phase == ORDER_GO && s->phase == ORDER_PREPARE && !shim_final(s)) {
        world_check_go(w, o);
        s->phase = ORDER_GO;
        shim_run(w, s);
    }
    s->phase = o->phase;
    if (o->phase == ORDER_STOP && !shim_final(s) && !(s->stubborn && !o->kill))
        shim_end_ranks(w, s, 0, o->kill ? 9 : 15);
}

static inline bool ordered(const struct link_order *orders, size_t n, const struct shim *s)
{
    for (size_t i = 0; i < n; i++)
        if (orders[i].job == s->report.job && orders[i].attempt == s->report.attempt)
            return true;
    return false;
}

static inline void agent_converge(struct world *w, struct agent *g)
{
    struct link_order *orders = NULL;
    size_t n = core_node_orders(w->core, g->name, &orders);
    for (size_t i = 0; i < WORLD_SHIMS; i++) {
        struct shim *s = &g->shims[i];
        if (!s->used || ordered(orders, n, s))
            continue;
        if (!shim_final(s)) {
            shim_end_ranks(w, s, 0, 9);
        } else if (!s->unsent) {
            link_report_clear(&s->report);
            s->used = false;
        }
    }
    for (size_t i = 0; i < n; i++) {
        agent_obey(w, g, &orders[i]);
        link_order_clear(&orders[i]);
    }
    free(orders);
}

/* ---- turns ---- */

static inline void world_commit(struct world *w)
{
    const struct core_changes *c = core_changes(w->core);
    for (size_t i = 0; i < c->n_jobs; i++) {
        assert_true(c->jobs[i]->rev > w->jobs[c->jobs[i]->id].rev);
        world_copy_job(&w->jobs[c->jobs[i]->id], c->jobs[i]);
    }
    for (size_t i = 0; i < c->n_attempts; i++)
        world_copy_attempt(world_stored_attempt(w, c->attempts[i]->job, c->attempts[i]->number),
                           c->attempts[i]);
    for (size_t i = 0; i < c->n_nodes; i++)
        world_copy_node(world_stored_node(w, c->nodes[i]->name), c->nodes[i]);
    for (size_t i = 0; i < c->n_events; i++) {
        assert_true(c->events[i].text[0] != '\0');
        world_log(w, &c->events[i]);
    }
    for (size_t i = 0; i < c->n_checkpoints; i++) {
        w->checkpoints[w->n_checkpoints] = c->checkpoints[i];
        w->checkpoints[w->n_checkpoints++].path = str_dup(c->checkpoints[i].path);
    }
    w->next_job = c->next_job;
    w->next_event = c->next_event;
    world_check_attempts(w);
    world_check_slots(w);
}

static inline void agent_hello(struct world *w, struct agent *g)
{
    struct link_inventory inventory = {.slots = g->slots, .cores = 2, .memory = (int64_t)64 << 30};
    (void)snprintf(inventory.address, sizeof(inventory.address), "127.0.0.1");
    (void)snprintf(inventory.rack, sizeof(inventory.rack), "%s", g->rack ? g->rack : "");
    (void)snprintf(inventory.pod, sizeof(inventory.pod), "%s", g->pod ? g->pod : "");
    struct link_report reports[WORLD_SHIMS];
    size_t n = 0;
    for (size_t i = 0; i < WORLD_SHIMS; i++)
        if (g->shims[i].used)
            reports[n++] = g->shims[i].report;
    struct core_hello hello = {g->name, g->boot, &inventory, reports, n};
    g->linked = true;
    g->beat_mono_ms = w->mono_ms;
    core_node_hello(w->core, world_time(w), &hello);
}

static inline bool agent_speaks(const struct agent *g)
{
    return g->alive && g->linked && !g->mute;
}

/* An old report of the node arrives once more, late. */
static inline void world_replay(struct world *w, struct agent *g, const struct link_report *newest)
{
    if (g->old.job != 0 && world_chance(w, w->repeat))
        core_node_report(w->core, world_time(w), g->name, &g->old);
    if (g->old.job == 0 || world_chance(w, 300))
        link_report_copy(&g->old, newest);
}

static inline bool world_deliver(struct world *w)
{
    bool any = false;
    for (size_t i = 0; i < w->n_agents; i++)
        for (size_t k = 0; k < WORLD_SHIMS && agent_speaks(&w->agents[i]); k++) {
            struct shim *s = &w->agents[i].shims[k];
            if (!s->used || !s->unsent || world_chance(w, w->lose))
                continue;
            core_node_report(w->core, world_time(w), w->agents[i].name, &s->report);
            if (world_chance(w, w->repeat))
                core_node_report(w->core, world_time(w), w->agents[i].name, &s->report);
            world_replay(w, &w->agents[i], &s->report);
            s->unsent = world_chance(w, w->repeat); /* the acknowledgement is lost */
            any = true;
        }
    return any;
}

static inline void world_restart(struct world *w);

static inline bool world_unsent(const struct world *w)
{
    for (size_t i = 0; i < w->n_agents; i++)
        for (size_t k = 0; k < WORLD_SHIMS && agent_speaks(&w->agents[i]); k++)
            if (w->agents[i].shims[k].used && w->agents[i].shims[k].unsent)
                return true;
    return false;
}

/* Turns until nothing more happens at this time. */
static inline void world_pump(struct world *w)
{
    for (int round = 0; round < 200; round++) {
        bool any = world_deliver(w);
        core_turn(w->core, world_time(w));
        world_commit(w);
        const struct core_changes *c = core_changes(w->core);
        bool changed = c->n_jobs + c->n_attempts > 0;
        core_changes_clear(w->core);
        w->commits++;
        if (w->restart_at == -1 || w->commits == w->restart_at)
            world_restart(w);
        for (size_t i = 0; i < w->n_agents; i++)
            if (agent_speaks(&w->agents[i]))
                agent_converge(w, &w->agents[i]);
        if (!any && !changed && !world_unsent(w) && core_next_wakeup(w->core) > w->mono_ms)
            return;
    }
    fail_msg("the core does not come to rest");
}

/* A copy, so that the store stays what it is. */
static inline void world_load(struct world *w)
{
    for (size_t i = 0; i < w->n_nodes; i++) {
        struct node_record node = {.reason = NULL};
        world_copy_node(&node, &w->nodes[i]);
        core_load_node(w->core, &node);
    }
    for (int64_t id = 1; id < w->next_job; id++) {
        struct job_record job = {.reason = NULL};
        world_copy_job(&job, &w->jobs[id]);
        job.spec = world_spec(w->yaml[id]);
        core_load_job(w->core, &job);
    }
    for (size_t i = 0; i < w->n_attempts; i++) {
        struct attempt_record a = {.reason = NULL};
        world_copy_attempt(&a, &w->attempts[i]);
        core_load_attempt(w->core, &a);
    }
    for (size_t i = 0; i < w->n_checkpoints; i++)
        core_load_checkpoint(w->core, &w->checkpoints[i]);
    core_load_next_ids(w->core, w->next_job, w->next_event);
}

/* kill -9 of the controller; every living agent comes back at once. */
static inline void world_restart(struct world *w)
{
    core_free(w->core);
    w->config.seed++;
    w->core = core_new(&w->config, world_time(w));
    world_load(w);
    for (size_t i = 0; i < w->n_agents; i++) {
        w->agents[i].linked = false;
        if (w->agents[i].alive && !w->agents[i].mute)
            agent_hello(w, &w->agents[i]);
    }
}

static inline void world_beat(struct world *w)
{
    for (size_t i = 0; i < w->n_agents; i++) {
        struct agent *g = &w->agents[i];
        if (!agent_speaks(g) || w->mono_ms - g->beat_mono_ms < 1000)
            continue;
        g->beat_mono_ms = w->mono_ms;
        core_node_heartbeat(w->core, world_time(w), g->name);
    }
}

/* Lets time pass, in small steps, with heartbeats. */
static inline void world_pass(struct world *w, int64_t ms)
{
    for (int64_t left = ms; left > 0;) {
        int64_t step = left < 100 ? left : 100;
        left -= step;
        w->now_ms += step;
        w->mono_ms += step;
        world_beat(w);
        world_pump(w);
    }
}

static inline struct world *world_new(size_t n_agents, int64_t slots)
{
    struct world *w = mem_zero(1, sizeof(*w));
    core_config_defaults(&w->config);
    w->config.seed = 7;
    w->random = 88172645463325252u;
    w->now_ms = WORLD_UTC;
    w->mono_ms = 5000;
    w->next_job = 1;
    w->n_agents = n_agents;
    w->mpi = true;
    w->core = core_new(&w->config, world_time(w));
    for (size_t i = 0; i < n_agents; i++) {
        struct agent *g = &w->agents[i];
        (void)snprintf(g->name, sizeof(g->name), "node%zu", i);
        (void)snprintf(g->boot, sizeof(g->boot), "boot-1");
        g->alive = true;
        g->slots = slots;
        agent_hello(w, g);
    }
    world_pump(w);
    return w;
}

static inline void world_free(struct world *w)
{
    core_free(w->core);
    for (size_t i = 0; i < WORLD_JOBS; i++) {
        world_drop_job(&w->jobs[i]);
        free(w->yaml[i]);
    }
    for (size_t i = 0; i < w->n_attempts; i++)
        world_drop_attempt(&w->attempts[i]);
    for (size_t i = 0; i < w->n_nodes; i++)
        world_drop_node(&w->nodes[i]);
    for (size_t i = 0; i < w->n_checkpoints; i++)
        free(w->checkpoints[i].path);
    for (size_t i = 0; i < w->n_agents; i++) {
        link_report_clear(&w->agents[i].old);
        for (size_t k = 0; k < WORLD_SHIMS; k++)
            if (w->agents[i].shims[k].used)
                link_report_clear(&w->agents[i].shims[k].report);
    }
    free(w->log);
    free(w);
}

/* ---- what tests do and look at ---- */

static inline int world_try_submit(struct world *w, const char *yaml, const char *key, int64_t *id,
                                   struct err *err)
{
    enum core_refusal why;
    struct job_spec *spec = world_spec(yaml);
    struct core_submit s = {key, "ann", "/home/ann", 1000, 1000, spec};
    if (core_submit(w->core, world_time(w), &s, id, &why, err) != 0) {
        assert_int_equal(why, CORE_REFUSED);
        job_spec_free(spec);
        return -1;
    }
    if (!w->yaml[*id])
        w->yaml[*id] = str_dup(yaml);
    world_pump(w);
    return 0;
}

static inline int64_t world_submit(struct world *w, const char *yaml)
{
    int64_t id = 0;
    struct err err = {""};
    if (world_try_submit(w, yaml, NULL, &id, &err) != 0)
        fail_msg("%s", err.text);
    return id;
}

/* A program: ranks, and more lines of YAML. */
static inline int64_t world_run(struct world *w, int ranks, const char *more)
{
    char *yaml = str_printf("name: prog\nrun: {command: [prog], ranks: %d}\n%s", ranks, more);
    int64_t id = world_submit(w, yaml);
    free(yaml);
    return id;
}

static inline const struct job_record *world_job(const struct world *w, int64_t id)
{
    return core_job(w->core, id);
}

static inline const struct attempt_record *world_attempt(const struct world *w, int64_t id)
{
    return core_attempt(w->core, id, 0);
}

static inline void world_verb(struct world *w, int64_t id, enum core_job_verb verb)
{
    enum core_refusal why;
    struct err err = {""};
    if (core_job_request(w->core, world_time(w), id, verb, "ann", &why, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(why, CORE_OK);
    world_pump(w);
}

/* The shim that runs the rank in the job's newest attempt. */
static inline struct shim *world_rank_shim(struct world *w, int64_t id, int64_t rank)
{
    const struct attempt_record *a = world_attempt(w, id);
    assert_non_null(a);
    return world_shim(world_agent(w, a->placement[rank].node), id, a->number);
}

/* One rank ends; the shim is gone when it was the last there. */
static inline void world_exit(struct world *w, int64_t id, int64_t rank, int code, int sig, bool finalized)
{
    struct shim *s = world_rank_shim(w, id, rank);
    assert_non_null(s);
    size_t running = 0;
    for (size_t i = 0; i < s->report.n_ranks; i++) {
        struct link_rank *r = &s->report.ranks[i];
        if (r->rank == rank) {
            assert_int_equal(r->state, RANK_RUNNING);
            r->state = RANK_EXITED;
            r->code = code;
            r->signal = sig;
            r->ended_ms = w->now_ms;
            r->finalized = finalized;
        }
        running += r->state == RANK_RUNNING;
    }
    shim_set(s, running > 0 ? REPORT_RUNNING : REPORT_GONE);
}

static inline void world_finish(struct world *w, int64_t id)
{
    int64_t n = (int64_t)world_attempt(w, id)->world;
    for (int64_t r = 0; r < n; r++)
        world_exit(w, id, r, 0, 0, w->mpi);
    world_pump(w);
}

static inline void world_say(struct world *w, int64_t id, int64_t rank, const char *key, const char *text)
{
    const struct attempt_record *a = world_attempt(w, id);
    struct link_progress p = {id, a->number, rank, json_object()};
    json_object_set_new(p.values, key, json_string(text));
    core_node_progress(w->core, world_time(w), a->placement[rank].node, &p);
    json_decref(p.values);
    world_pump(w);
}

/* One datagram of several "KEY=value" lines. */
static inline void world_tell(struct world *w, int64_t id, int64_t rank, const char *lines)
{
    const struct attempt_record *a = world_attempt(w, id);
    struct link_progress p = {id, a->number, rank, json_object()};
    char *copy = str_dup(lines), *rest = copy;
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        char *eq = strchr(line, '=');
        assert_non_null(eq);
        *eq = '\0';
        json_object_set_new(p.values, line, json_string(eq + 1));
    }
    free(copy);
    core_node_progress(w->core, world_time(w), a->placement[rank].node, &p);
    json_decref(p.values);
    world_pump(w);
}

/* How often the log has this text. */
static inline size_t world_logged(const struct world *w, const char *text)
{
    size_t n = 0;
    for (const char *at = w->log; at && (at = strstr(at, text)); at += strlen(text))
        n++;
    return n;
}

static inline void world_say_step(struct world *w, int64_t id, const char *key, int64_t step)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%lld", (long long)step);
    world_say(w, id, 0, key, text);
}

/* Steps first..last, one every ms_each; a checkpoint every `every` steps (0 = none). */
static inline void world_train(struct world *w, int64_t id, int64_t first, int64_t last, int64_t ms_each,
                               int64_t every)
{
    for (int64_t step = first; step <= last; step++) {
        world_pass(w, ms_each);
        world_say_step(w, id, "STEP", step);
        if (every > 0 && step % every == 0)
            world_say_step(w, id, "CHECKPOINT_DURABLE", step);
    }
}

static inline void world_unlink(struct world *w, struct agent *g)
{
    g->linked = false;
    core_node_link_lost(w->core, world_time(w), g->name);
    world_pump(w);
}

static inline void world_relink(struct world *w, struct agent *g)
{
    agent_hello(w, g);
    world_pump(w);
}

#define assert_job(w, id, wanted)                                                                            \
    assert_string_equal(job_state_name(world_job(w, id)->state), job_state_name(wanted))
#define assert_node(w, name, wanted)                                                                         \
    assert_string_equal(node_state_name(core_node((w)->core, name)->state), node_state_name(wanted))
#define assert_says(text, part)                                                                              \
    do {                                                                                                     \
        if (!strstr(text, part))                                                                             \
            fail_msg("\"%s\" does not say \"%s\"", text, part);                                              \
    } while (0)

#endif
