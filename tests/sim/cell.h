/* cell: a small cluster around the core in virtual time, made to go wrong: the real core, a store that keeps what was committed, agents with
 * shims whose every step may come late, and links that break, lose and repeat.
 *
 * It works like belayd: events go in, core_turn, the changes are committed (deep copies), and only then orders are sent, reports
 * acknowledged and requests answered. The controller may be killed between any two of these; then a new core is loaded from the store.
 * All that happens is drawn from one seed, in micro-steps, and after each of them the invariants are checked (check.c). */
#ifndef BELAY_TESTS_SIM_CELL_H
#define BELAY_TESTS_SIM_CELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/core/core.h"
#include "sim/random.h"

enum { AGENTS_MAX = 16, SLOTS_MAX = 8, JOBS_MAX = 32, SHIMS_MAX = 64, MAILS_MAX = 64, REQUESTS_MAX = 64 };
#define CELL_UTC INT64_C(1800000000000)

/* An order as an agent keeps it. */
struct order {
    int64_t job, attempt, checkpoint, grace_ms;
    enum order_phase phase;
    bool kill;
    char token[33];
    size_t n_ranks;
    struct link_rank_slot ranks[SLOTS_MAX];
};

/* The full set of a node at one moment. */
struct mail {
    struct order *orders;
    size_t n;
};

enum shim_todo { TODO_NOTHING, TODO_PREPARE, TODO_START, TODO_STOP };

struct shim {
    bool used;
    int64_t job, attempt, checkpoint;
    enum order_phase phase; /* of the last order */
    char token[33];
    enum shim_todo todo;
    bool killed;                    /* the stop is a kill */
    bool stubborn;                  /* does not end before its grace is over */
    int64_t lingers_ms;             /* how long it takes to die when killed */
    int64_t stop_by_ms, dead_by_ms; /* mono: the grace is over; it is dead after a kill */
    bool unsent, unacked; /* the newest report was not told; was told, but the turn is not committed */
    struct link_report report;
};

struct agent {
    size_t index;
    char name[64], rack[32], pod[32];
    int64_t boot, slots;
    bool up;     /* the agent's process */
    bool linked; /* has said hello to this core, and the link holds */
    bool mute;   /* linked, but says and hears nothing for now */
    bool leaving, refuses;
    bool lost; /* never comes back */
    int64_t beat_ms;
    struct shim shims[SHIMS_MAX];
    struct mail mails[MAILS_MAX];
    size_t n_mails;
    struct link_report old; /* some earlier report, job 0 = none */
};

/* What was promised about a job once a request for it was committed and answered. */
struct promise {
    char *yaml, *key;
    int64_t cancelled_at, held_at; /* attempt number then; -1 = not asked */
    bool ever_held;
};

struct request {
    enum { ASK_SUBMIT, ASK_VERB, ASK_DRAIN, ASK_UNDRAIN } kind;
    int64_t job;
    enum core_job_verb verb;
    size_t agent;
    bool revives; /* a requeue of a job that had ended */
    char *yaml, *key;
};

struct stored_attempt {
    struct attempt_record r;
    bool ready[AGENTS_MAX];  /* a shim there was ready for it at some time */
    bool fenced[AGENTS_MAX]; /* it ended while something of it was left there, on a node that was down */
};

struct cell {
    uint64_t seed;
    struct random_stream random;
    struct core_config config;
    struct core *core;
    int64_t now_ms, mono_ms;
    struct agent agents[AGENTS_MAX];
    size_t n_agents;
    int64_t n_slots;
    /* the store */
    struct job_record jobs[JOBS_MAX + 1]; /* by id */
    struct stored_attempt *attempts;
    size_t n_attempts, attempts_room;
    struct node_record nodes[AGENTS_MAX]; /* by agent; name "" = none yet */
    struct checkpoint_record *checkpoints;
    size_t n_checkpoints, checkpoints_room;
    int64_t next_job, next_event;
    bool down[AGENTS_MAX]; /* was down at some time since its newest hello: what runs there is fenced off */
    /* requests of this turn, and what was promised */
    struct request requests[REQUESTS_MAX];
    size_t n_requests;
    struct promise promises[JOBS_MAX + 1];
    bool drain_promised[AGENTS_MAX];
    int64_t keys;
    int64_t saves;   /* step of the newest checkpoint of act_save */
    int64_t calm_ms; /* since then nothing goes wrong any more; 0 = it does */
    /* how bad it is, in thousandths */
    int lose, repeat, kill, late;
    bool replays, mpi, loses, healed; /* loses: some nodes are gone for good in the end */
    int64_t step;
    bool trace;
    const char *program;
    char *log;
    size_t log_len, log_room;
};

/* ---- cell.c: the controller around the core ---- */
struct cell *cell_new(uint64_t seed, const char *program, bool trace);
void cell_free(struct cell *c);
struct core_time cell_time(const struct cell *c);
void cell_turn(struct cell *c); /* core_turn, commit, orders, answers; or a kill between two of them */
void cell_kill(struct cell *c); /* kill -9 of the controller, and its next start */
void cell_pass(struct cell *c, int64_t ms); /* lets time pass, with heartbeats and the turns that are due */
int64_t cell_pick(struct cell *c, int64_t n);
bool cell_chance(struct cell *c, int thousandths);
void cell_note(struct cell *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void cell_fail(struct cell *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- store.c ---- */
void store_commit(struct cell *c); /* the core's changes, and the checks of a commit */
void store_load(struct cell *c);
void store_free(struct cell *c);
struct stored_attempt *store_attempt(struct cell *c, int64_t job, int64_t number); /* or NULL */
struct agent *cell_agent(struct cell *c, const char *name);

/* ---- agent.c ---- */
void agent_hello(struct cell *c, struct agent *g);
void agent_cut(struct cell *c, struct agent *g,
               bool tell);                               /* the link breaks; tell: the core sees it at once */
void agent_send_orders(struct cell *c, struct agent *g); /* of the core, into its mail */
bool agent_read_mail(struct cell *c, struct agent *g);   /* false = there was none */
bool agent_report(struct cell *c, struct agent *g);      /* sends one unsent report */
bool agent_work(struct cell *c, struct agent *g);        /* one shim does what it has to do */
void agent_reset(struct cell *c, struct agent *g);       /* the machine boots: nothing is left */
bool agent_speaks(const struct agent *g);
struct shim *agent_shim(struct agent *g, int64_t job, int64_t attempt);
bool shim_final(const struct shim *s);
void shim_tell(struct shim *s, enum report_phase phase);
void shim_end_ranks(struct cell *c, struct shim *s, int code, int signal);
size_t shim_running(const struct shim *s); /* ranks that run */

/* ---- acts.c: what people and faults do ---- */
void act(struct cell *c);
void act_heal(struct cell *c);   /* no more faults, everything is back */
void act_save(struct cell *c);   /* every job that runs saves a checkpoint */
void act_let_go(struct cell *c); /* all nodes and jobs may be used again */

/* ---- check.c ---- */
void check_all(struct cell *c);                                         /* after every micro-step */
void check_new_attempt(struct cell *c, const struct attempt_record *a); /* at its first commit */
void check_ended_attempt(struct cell *c, const struct attempt_record *a);
void check_acknowledged(struct cell *c, const struct agent *g,
                        const struct shim *s); /* its newest report was */
void check_orders(struct cell *c, const struct agent *g, const struct link_order *orders, size_t n);
void check_start(struct cell *c, const struct agent *g, const struct shim *s); /* its ranks run from now on */
void check_verdicts(struct cell *c, bool calm);                                /* right after a turn */
void check_wishes(struct cell *c); /* a while after the last fault: what was asked for has come true */
void check_calm(struct cell *c);   /* long after the last fault: nothing is stuck */
void check_end(struct cell *c);    /* every job has ended: nothing is left */

#endif
