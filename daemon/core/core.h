/* core: every decision of the controller, and nothing else.
 *
 * It takes events and the time and changes records; it does no I/O, reads no clock, starts no thread, and draws randomness only
 * from the seed handed in. belayd wraps it with sockets and SQLite; tests (and later the simulator) drive it with virtual time.
 *
 * One turn of the daemon: call event functions for whatever arrived, then core_turn (places, fires timers), then take the changes,
 * commit them in one transaction, and only then answer clients and send the orders of the nodes named in the changes.
 * `now_ms` is UTC milliseconds for what is stored; `mono_ms` is boot-time milliseconds for liveness and timers. */
#ifndef BELAY_DAEMON_CORE_CORE_H
#define BELAY_DAEMON_CORE_CORE_H

#include "common/err.h"
#include "daemon/core/records.h"
#include "schema/cluster.h"

struct core;

struct core_config {
    uint64_t seed;            /* tokens and jitter */
    int64_t suspect_after_ms; /* 2,500: without heartbeat or link */
    int64_t down_after_ms;    /* 5,000 */
    int64_t
        settle_ms; /* after a start: nodes stay `unknown`, nothing is evicted, until they reported or this passed (10,000) */
    int64_t prepare_timeout_ms; /* 15,000: a node that is not ready by then is replaced */
    int64_t checkpoint_wait_ms; /* 30,000: how long a drain without deadline waits for the asked checkpoint */
    int64_t keep_ms;            /* 600,000: how long a job that starts again keeps the slots it had */
    int64_t
        grow_after_ms; /* 30,000: an elastic job grows when there is room for it for so long (or for parallel.regrow, when that is
                              shorter) */
    double failures_per_node_day,
        repair_days;                    /* 6.5e-3 and 0.5: for `spares: auto` and checkpoint.every: auto */
    const struct cluster_spec *cluster; /* the cluster file, or NULL; borrowed */
    bool
        played; /* other machines stand in for those of the file: of what they have only the number of slots is compared */
};
void core_config_defaults(struct core_config *config);

struct core_time {
    int64_t now_ms, mono_ms;
};

/* An empty core; t is when it began. Next it is loaded, then it takes events. core_free takes NULL. */
struct core *core_new(const struct core_config *config, struct core_time t);
void core_free(struct core *core);

/* ---- loading what the store had, before any event; the core takes ownership of the record's insides ---- */
void core_load_node(struct core *core, struct node_record *node);
void core_load_job(struct core *core, struct job_record *job);
void core_load_attempt(struct core *core, struct attempt_record *attempt); /* its job must be loaded */
void core_load_checkpoint(struct core *core, const struct checkpoint_record *checkpoint);
void core_load_next_ids(struct core *core, int64_t next_job, int64_t next_event);

/* ---- requests; refusals return -1 with a sentence and a CORE_E* class in *why ---- */
enum core_refusal { CORE_OK, CORE_NO_SUCH, CORE_REFUSED, CORE_INVALID };

struct core_submit {
    const char *key, *user, *cwd; /* key may be NULL */
    int64_t uid, gid;
    struct job_spec *spec; /* taken over on success */
};
/* *id: the job's id; the same key gives the same id again (then spec is freed). Refuses two live jobs with one checkpoint directory. */
int core_submit(struct core *core, struct core_time t, const struct core_submit *request, int64_t *id,
                enum core_refusal *why, struct err *err);

/* CANCEL_SAVED: with a checkpoint first. HOLD and REQUEUE ask for one too, where the ranks save one when asked. */
enum core_job_verb { CORE_CANCEL, CORE_HOLD, CORE_RELEASE, CORE_REQUEUE, CORE_CANCEL_SAVED };
/* A user's wish. who: their name, for the event. 0, or -1 with why and a sentence: no such job, or not in its state. */
int core_job_request(struct core *core, struct core_time t, int64_t id, enum core_job_verb verb,
                     const char *who, enum core_refusal *why, struct err *err);

/* Asks the running ranks for a checkpoint, or joins a request that waits. *request: its number within the newest attempt
 * (checkpoint_request); the attempt's record tells of the answer. -1 with why and a sentence when nothing runs or it saves none when asked. */
int core_checkpoint(struct core *core, struct core_time t, int64_t id, const char *who, int64_t *request,
                    enum core_refusal *why, struct err *err);

/* deadline_ms: UTC, 0 = none. `now`: do not wait for a checkpoint. */
int core_drain(struct core *core, struct core_time t, const char *node, const char *reason,
               int64_t deadline_ms, bool now, enum core_refusal *why, struct err *err);
int core_undrain(struct core *core, struct core_time t, const char *node, enum core_refusal *why,
                 struct err *err);

/* ---- what nodes say ---- */
struct core_hello {
    const char *node, *boot;
    const struct link_inventory *inventory;
    const struct link_report *reports; /* complete list of what is there */
    size_t n_reports;
};
void core_node_hello(struct core *core, struct core_time t, const struct core_hello *hello);
void core_node_heartbeat(struct core *core, struct core_time t, const char *node);
void core_node_link_lost(struct core *core, struct core_time t, const char *node);
/* Its agent was told to end everything there and to exit: the attempts there stop and move, uncharged. */
void core_node_leaving(struct core *core, struct core_time t, const char *node, const char *reason);
void core_node_report(struct core *core, struct core_time t, const char *node,
                      const struct link_report *report);
void core_node_progress(struct core *core, struct core_time t, const char *node,
                        const struct link_progress *progress);

/* ---- time ---- */
/* Fires due timers and places what can be placed. Call after each batch of events. */
void core_turn(struct core *core, struct core_time t);
/* mono_ms at which core_turn must be called again although nothing happens; INT64_MAX = never. */
int64_t core_next_wakeup(const struct core *core);

/* ---- what changed since the last core_changes_clear; pointers are valid until the next call that changes the core ---- */
struct core_changes {
    const struct job_record *const *jobs;
    size_t n_jobs;
    const struct attempt_record *const *attempts;
    size_t n_attempts;
    const struct node_record *const *nodes;
    size_t n_nodes;
    const struct event_record *events;
    size_t n_events;
    const struct checkpoint_record *checkpoints;
    size_t n_checkpoints;
    const char *const *order_nodes;
    size_t n_order_nodes;           /* nodes whose desired set changed */
    int64_t next_job, next_event;   /* to be stored too */
    const bool *jobs_progress_only; /* like jobs: only progress changed, which may be stored later */
};
const struct core_changes *core_changes(struct core *core);
void core_changes_clear(struct core *core);

/* ---- reading ---- */
const struct job_record *core_job(const struct core *core, int64_t id);
const struct attempt_record *core_attempt(const struct core *core, int64_t job,
                                          int64_t number); /* number 0 = newest */
const struct node_record *core_node(const struct core *core, const char *name);
/* Walks in id order (jobs) or numeric name order (nodes); fn returns false to stop. */
void core_each_job(const struct core *core, bool (*fn)(void *ctx, const struct job_record *job), void *ctx);
void core_each_node(const struct core *core, bool (*fn)(void *ctx, const struct node_record *node),
                    void *ctx);
/* Does the job, between two attempts, keep the slots of its newest one? */
bool core_job_keeps(const struct core *core, int64_t id);
/* Slots of the node that nobody holds. */
int64_t core_node_free_slots(const struct core *core, const char *name);
/* Effective training time ratio of the job so far: productive / (time since its first start); NaN before. */
double core_job_ettr(const struct core *core, int64_t id, int64_t now_ms);

/* Of the n checkpoints that the job announced, moves those that are still there to the front of the list, by step;
 * how many. For the bundled runtime by its rules of retention; another program's list is left as it is. */
size_t core_checkpoints_kept(const struct core *core, int64_t job, struct checkpoint_record *list, size_t n);

/* The full set of orders this node should be carrying out (fresh array; each order to be cleared, the array freed, both before the next
 * call that changes the core: maps are borrowed). */
size_t core_node_orders(const struct core *core, const char *name, struct link_order **orders);

/* The jobs (a fresh array of their ids, growing) with copies in memory that hold slots of this node, for an attempt or for the next one: what their ended
 * attempts hold in memory there is to stay until the next is ready. A job that is held, requeued or over has no slots; and nothing stays on a
 * node that drains. */
size_t core_node_keep(const struct core *core, const char *name, int64_t **jobs);

#endif
