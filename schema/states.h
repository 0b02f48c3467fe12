/* states: the names of states, as they are stored, sent and printed. */
#ifndef BELAY_SCHEMA_STATES_H
#define BELAY_SCHEMA_STATES_H

#include <stdbool.h>

enum job_state {
    JOB_PENDING,
    JOB_HELD,
    JOB_STARTING,
    JOB_RUNNING,
    JOB_RESTARTING,
    JOB_PREEMPTED,
    JOB_COMPLETED,
    JOB_FAILED,
    JOB_CANCELLED,
    JOB_STATE_COUNT
};
enum attempt_state {
    ATTEMPT_PREPARING, /* shims are asked to come up */
    ATTEMPT_LAUNCHING, /* all ready; go is ordered, not all ranks run yet */
    ATTEMPT_RUNNING,
    ATTEMPT_STOPPING, /* every node is told to stop, some still have processes */
    ATTEMPT_ENDED,
    ATTEMPT_STATE_COUNT
};
enum attempt_outcome {
    OUTCOME_NONE,
    OUTCOME_COMPLETED,
    OUTCOME_FAILED, /* the job's own error: charged */
    OUTCOME_NODE,   /* node or shim lost, refused to prepare: not charged */
    OUTCOME_DRAINED,
    OUTCOME_PREEMPTED,
    OUTCOME_CANCELLED,
    OUTCOME_TIME_LIMIT,
    OUTCOME_HELD,
    OUTCOME_RESIZED, /* an elastic job goes on with more ranks */
    OUTCOME_COUNT
};
enum node_state {
    NODE_UP,
    NODE_SUSPECT,
    NODE_DOWN,
    NODE_DRAINING,
    NODE_DRAINED,
    NODE_UNKNOWN,
    NODE_STATE_COUNT
};
enum report_phase {
    REPORT_PREPARING,
    REPORT_READY,
    REPORT_REFUSED,
    REPORT_RUNNING,
    REPORT_STOPPING,
    REPORT_GONE,
    REPORT_LOST,
    REPORT_PHASE_COUNT
};
enum order_phase { ORDER_PREPARE, ORDER_GO, ORDER_STOP, ORDER_PHASE_COUNT };
enum rank_state { RANK_WAITING, RANK_RUNNING, RANK_EXITED, RANK_STATE_COUNT };

const char *job_state_name(enum job_state s);
const char *attempt_state_name(enum attempt_state s);
const char *attempt_outcome_name(enum attempt_outcome o);
const char *node_state_name(enum node_state s);
const char *report_phase_name(enum report_phase p);
const char *order_phase_name(enum order_phase p);
const char *rank_state_name(enum rank_state s);

/* The value of a name, or -1. */
int job_state_parse(const char *name);
int attempt_state_parse(const char *name);
int attempt_outcome_parse(const char *name);
int node_state_parse(const char *name);
int report_phase_parse(const char *name);
int order_phase_parse(const char *name);
int rank_state_parse(const char *name);

/* completed, failed or cancelled */
bool job_state_final(enum job_state s);

#endif
