/* sim_private: what the modules of the simulator share.
 *
 * Virtual time is in ms since the beginning. All modules work on one struct sim; the loop in sim.c hands each event to the module of its
 * kind, then lets the core take its turn, and hands what changed back. */
#ifndef BELAY_SIM_SIM_PRIVATE_H
#define BELAY_SIM_SIM_PRIVATE_H

#include "daemon/core/core.h"
#include "daemon/core/idmap.h"
#include "sim/queue.h"
#include "sim/random.h"
#include "sim/sim.h"

enum event_kind {
    EVENT_ARRIVAL, /* a: entry of jobs */
    EVENT_SHIM,    /* a: node, b: index of the order that it was made for (stamp) */
    EVENT_RUN,     /* a: job */
    EVENT_DURABLE, /* a: job; b: step: a checkpoint that was written beside training */
    EVENT_FAULT,   /* a: kind of failure */
    EVENT_REPAIR,  /* a: kind, b: node, rack or nothing */
    EVENT_POINT,   /* the next point of the time series */
    EVENT_KIND_COUNT
};

/* One attempt's part on one node. */
struct shim {
    int64_t job, attempt, checkpoint;
    enum order_phase phase;
    bool stopping;
    uint64_t stamp; /* of the event that it waits for; 0 = none */
    struct link_report report;
};

struct vnode {
    const struct cluster_node *spec;
    size_t rack;
    bool crashed; /* nothing runs there */
    int cut;      /* reasons why it cannot be reached: its link, its switch */
    bool broken;  /* drained because a device failed */
    bool slow;
    bool linked; /* the core hears it */
    int64_t boots;
    int64_t held; /* slots that attempts hold */
    struct shim *shims;
    size_t n_shims, shims_room;
};

struct vrack {
    size_t *nodes;
    size_t n_nodes, room;
    bool out;
    int64_t slots, held;
    bool used; /* scratch of measure.c */
};

enum run_state {
    RUN_STARTING, /* not all ranks run */
    RUN_LOADING,
    RUN_STEPPING,
    RUN_SAVING,
    RUN_WAITING, /* for storage, or for the checkpoint before to become durable */
    RUN_BROKEN,  /* a part of it is gone: the others wait for it in vain */
    RUN_OVER
};

/* A job and its newest attempt. */
struct vjob {
    int64_t id, attempt;
    size_t entry;
    double step_ms;
    int64_t steps, every; /* in all; between checkpoints, 0 = none */
    /* of the attempt */
    bool live;
    size_t *nodes; /* one per seat */
    size_t n_nodes, n_running;
    int64_t *seat_ranks; /* how many ranks on each */
    int64_t ranks;
    double share;                 /* of its largest size; 1 unless it is elastic */
    enum run_state state, before; /* before: what it did when it began to wait */
    double done;                  /* steps, at since_ms */
    int64_t since_ms;
    int64_t target;    /* step at which something is to happen */
    int64_t next_save; /* step */
    bool asked;        /* a drain asked for a checkpoint */
    bool writing;      /* a checkpoint becomes durable beside training */
    bool said;         /* STEP was reported in this attempt */
    double slowness;   /* of its slowest node, 1 = none */
    uint64_t stamp, durable_stamp;
    /* of the job */
    int64_t high;                   /* newest step of all attempts */
    double useful, stalled, slowed; /* ms */
    int64_t interrupted;
    int64_t n_spares; /* slots that its attempt holds for a repair */
    int64_t idle_ms;  /* since when it has no attempt; -1 = it has one, or never had */
};

struct level {
    double value;
    double total; /* value * ms */
};

struct sim {
    const struct scenario *sc;
    const struct sim_options *options;
    struct core *core;
    struct core_config config;
    int64_t now_ms, end_ms;
    struct queue queue;
    uint64_t stamps;
    struct vnode *nodes;
    size_t n_nodes;
    struct vrack *racks;
    size_t n_racks;
    struct idmap *node_by_name;
    int64_t devices;
    struct vjob **jobs; /* by id - 1 */
    size_t n_jobs, jobs_room;
    int64_t *arrived; /* by entry */
    struct random_stream arrivals, works, strikes[SCENARIO_KIND_COUNT], victims[SCENARIO_KIND_COUNT],
        repairs[SCENARIO_KIND_COUNT];
    struct random_stream *entry_streams; /* arrivals and work by entry: 2 each */
    double *entry_step_ms;
    int storage_out;
    struct level held, useful, down, spare;
    struct sim_point *points;
    size_t n_points;
    struct sim_fault_count faults[SCENARIO_KIND_COUNT];
    int64_t events;
    struct err *err;
    bool failed;
};

#define SIM_UTC_MS INT64_C(1767225600000) /* virtual time 0 is 2026-01-01 */

/* ---- sim.c ---- */
struct core_time sim_time_now(const struct sim *sim);
uint64_t sim_later(struct sim *sim, int64_t in_ms, enum event_kind kind, int64_t a,
                   int64_t b); /* the stamp */
struct vnode *sim_node(struct sim *sim, const char *name);
struct vjob *sim_job(struct sim *sim, int64_t id);

/* ---- agents.c: nodes and what runs on them ---- */
void agents_build(struct sim *sim);
void agents_free(struct sim *sim);
void agents_hello(struct sim *sim, struct vnode *node);
void agents_converge(struct sim *sim,
                     const char *name); /* fetches the node's orders and begins to carry them out */
void agents_event(struct sim *sim, const struct queue_event *event);
void agents_finish(struct sim *sim, struct vjob *job); /* all its ranks end with 0 */
void agents_fail_rank(struct sim *sim, struct vnode *node, struct shim *shim, size_t rank, const char *why);
void agents_lose(struct sim *sim, struct vnode *node); /* the machine is gone */
void agents_cut(struct sim *sim, struct vnode *node);  /* it cannot be reached any more */
void agents_back(struct sim *sim, struct vnode *node); /* it can be reached (again) */
void agents_say(struct sim *sim, struct vjob *job, const char *key, int64_t value); /* progress, by rank 0 */

/* ---- runs.c: training ---- */
void runs_attempt(struct sim *sim, int64_t job, int64_t attempt); /* it changed */
void runs_node_runs(struct sim *sim, struct vjob *job);           /* the ranks of one more node run */
void runs_break(struct sim *sim, struct vjob *job);               /* a part of it is gone */
void runs_ask_checkpoint(struct sim *sim, struct vjob *job);
void runs_speed(struct sim *sim, struct vnode *node); /* its slowness changed */
void runs_storage(struct sim *sim);                   /* it went out, or is back */
void runs_event(struct sim *sim, const struct queue_event *event);
void runs_durable(struct sim *sim, const struct queue_event *event);
void runs_settle(struct sim *sim, struct vjob *job); /* brings its accounts up to now */

/* ---- faults.c ---- */
void faults_begin(struct sim *sim);
void faults_event(struct sim *sim, const struct queue_event *event);
void faults_repair(struct sim *sim, const struct queue_event *event);

/* ---- arrivals.c ---- */
int arrivals_begin(struct sim *sim, struct err *err);
void arrivals_event(struct sim *sim, const struct queue_event *event);

/* ---- measure.c ---- */
void measure_advance(struct sim *sim, int64_t to_ms);                  /* the levels held until then */
void measure_hold(struct sim *sim, struct vnode *node, int64_t slots); /* negative = given back */
void measure_point(struct sim *sim);
void measure_results(struct sim *sim, struct sim_result *out);

#endif
