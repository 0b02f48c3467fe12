/* records: what the controller knows, as plain structs: the core changes them, the store keeps them, the API shows them.
 *
 * Strings are owned by the record. All times are UTC milliseconds as handed in with the events; 0 = not yet. */
#ifndef BELAY_DAEMON_CORE_RECORDS_H
#define BELAY_DAEMON_CORE_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/job.h"
#include "schema/link.h"
#include "schema/states.h"

/* Lost time by cause, milliseconds. */
struct lost_time {
    int64_t detect, stop, place, load, replay;
};

/* Where a checkpoint lies. */
enum checkpoint_tier { TIER_STORAGE, TIER_UPLOAD, TIER_MEMORY, CHECKPOINT_TIERS };

/* Saves to one tier that failed since the last that succeeded. */
struct checkpoint_trouble {
    int64_t count, step; /* count 0 = none */
    char why[256];       /* of the newest */
};

/* What the ranks said of themselves (rank 0's word wins for step and loss). */
struct job_progress {
    int64_t step, steps;                 /* -1 = not said */
    double loss, tokens_per_second, mfu; /* NaN = not said */
    char phase[32], status[128];
    int64_t checkpoint_step; /* newest durable; -1 = none */
    int64_t checkpoint_ms, checkpoint_bytes;
    int64_t updated_ms;
    int64_t upload_step, upload_ms; /* newest in object storage; -1 = none */
    char interval[192];             /* how many steps lie between two saves, and why; "" = not said */
    /* What follows is not stored. */
    int64_t staged_step;            /* newest copied, perhaps not yet written; -1 = none */
    int64_t memory_step, memory_ms; /* newest held in memory; -1 = none */
    struct checkpoint_trouble trouble[CHECKPOINT_TIERS];
};

struct placed_rank {
    int64_t rank;
    char node[LINK_NODE_NAME_MAX + 1];
    int64_t slot, tp, pp, cp, dp;
};

struct job_record {
    int64_t id;
    int64_t rev;             /* grows with every change, for long polls; not stored progress-only */
    char *key;               /* idempotency key of the submit, or NULL */
    char *user, *cwd, *yaml; /* yaml: the spec as completed by job_spec_to_yaml */
    int64_t uid, gid;
    struct job_spec *spec; /* parsed from yaml */
    enum job_state state;
    char *reason;     /* one sentence: why it is in this state; never NULL */
    int64_t attempt;  /* number of the newest attempt, 0 = none yet */
    int64_t restarts; /* charged restarts in the window are counted from the attempts */
    bool cancel_requested, hold_requested;
    int64_t not_before_ms; /* backoff: no attempt before this time */
    int64_t submitted_ms, started_ms, ended_ms;
    int64_t productive_ms; /* time with steps that count, over all attempts (for ETTR) */
    struct lost_time lost;
    struct job_progress progress;
    int64_t kept; /* number of the ended attempt whose slots it keeps for the next one; 0 = none */
    int64_t first_failure_rank; /* of the newest failed attempt; -1 = none */
    int exit_code;              /* of that rank; -1 = none */
};

/* An ended attempt that is not among the newest of its job is kept without its details (placement, spares and nodes empty), which are
 * megabytes in a large job: the store has them. */
#define ATTEMPTS_DETAILED 8

/* The newest request for a checkpoint of an attempt. */
struct save_request {
    int64_t asked_ms; /* 0 = none yet */
    int64_t
        from_step; /* newest step known then: a checkpoint of that step or a later one answers it; -1 = any */
    bool waiting;  /* no answer yet */
    int64_t step;  /* of the checkpoint that answered; -1 = none did */
    enum attempt_outcome
        then;         /* with what the attempt ends once there is an answer; OUTCOME_NONE = it goes on */
    char why[192];    /* what it was asked for, and the reason when the attempt ends then */
    char answer[256]; /* why it ended without a checkpoint; "" = it did not */
};

struct attempt_record {
    int64_t job, number;
    enum attempt_state state;
    enum attempt_outcome outcome;
    char *reason;                  /* sentence: why it ended or is stopping; never NULL */
    char token[33];                /* fencing secret of the attempt */
    struct placed_rank *placement; /* world entries, by rank */
    size_t world;
    struct placed_rank *spares; /* slots held for a repair, rank -1; those of one node stand together */
    size_t n_spares;
    int64_t created_ms, running_ms, failed_ms, ended_ms; /* failed_ms: first sign of trouble */
    int64_t from_step, to_step;                          /* resumed at, newest step seen; -1 unknown */
    struct lost_time lost;                               /* lost before this attempt trained again */
    bool checkpoint_on;                                  /* its ranks save a checkpoint when asked */
    int64_t checkpoint_request;                          /* counter sent in orders: how often it was asked */
    struct save_request save;                            /* the newest of these requests */
    /* Newest committed report of each node, in node_rank order. */
    struct attempt_node {
        char node[LINK_NODE_NAME_MAX + 1];
        bool reported;
        struct link_report report;
    } * nodes;
    size_t n_nodes;
};

struct node_record {
    char name[LINK_NODE_NAME_MAX + 1];
    enum node_state state;
    char *reason; /* never NULL */
    int64_t since_ms;
    bool drain_requested;
    bool drain_now;
    int64_t drain_deadline_ms; /* UTC; 0 = none */
    struct link_inventory inventory;
    char boot[40];
    bool connected;       /* not stored */
    int64_t heartbeat_ms; /* not stored */
};

struct event_record {
    int64_t id; /* given by the core, growing by one */
    int64_t time_ms;
    char kind
        [32]; /* e.g. submitted, placed, running, rank_exited, restarting, completed, node_down, drain … */
    int64_t job, attempt, rank; /* 0, 0, -1 = none */
    char node[LINK_NODE_NAME_MAX + 1];
    char *text; /* a sentence */
};

struct checkpoint_record {
    int64_t job, step, attempt, time_ms, bytes;
    int64_t staged_ms,
        durable_ms; /* how long training waited for the copy; from the begin until it was durable; -1 = not said */
    double held_loss; /* loss over held-out data after this very step; NaN = not said */
    char *path;       /* where the program says it lies, absolute; NULL = not said */
};

#endif
