/* machines: the state machines of job, attempt and node as tables: one row per (state, event), one lookup.
 *
 * A row that is not there is a fault of the table (the test walks it); lookups then say "ignore". */
#ifndef BELAY_DAEMON_CORE_MACHINES_H
#define BELAY_DAEMON_CORE_MACHINES_H

#include "schema/states.h"

enum job_event {
    JOB_PLACED,   /* an attempt was made for it */
    JOB_RAN,      /* every rank of it runs */
    JOB_FAULT,    /* its attempt had begun and is being stopped; another is to follow */
    JOB_UNPLACED, /* its attempt never began and is being stopped */
    JOB_RETRY,    /* its attempt ended; another is to follow */
    JOB_WAIT,     /* as RETRY, but it counts as not yet begun */
    JOB_COMPLETE,
    JOB_FAIL,
    JOB_CANCEL_DONE,
    JOB_HOLD_DONE,
    JOB_ASK_CANCEL, /* requests of users */
    JOB_ASK_HOLD,
    JOB_ASK_RELEASE,
    JOB_ASK_REQUEUE,
    JOB_EVENT_COUNT
};
enum job_action {
    JOB_ROW_MISSING,
    JOB_IGNORE,
    JOB_REFUSE,    /* a request that makes no sense in this state */
    JOB_NOTE,      /* the new state and reason are all */
    JOB_QUEUE,     /* waits for slots */
    JOB_FINISH,    /* final: gives up its directory and timers */
    JOB_SET_ASIDE, /* held: leaves the queue */
    JOB_DO_CANCEL, /* stops what runs, or is cancelled at once when nothing does */
    JOB_DO_HOLD,
    JOB_DO_RELEASE,
    JOB_DO_REQUEUE, /* stops what runs and waits again */
    JOB_DO_REVIVE,  /* a final job begins anew */
};
struct job_row {
    enum job_state next;
    enum job_action action;
};
struct job_row machine_job(enum job_state state, enum job_event event);

enum attempt_event {
    ATTEMPT_ALL_READY,
    ATTEMPT_ALL_RUNNING,
    ATTEMPT_FINISHED, /* every rank exited with 0 and nothing is left */
    ATTEMPT_STOP,     /* a fault or a wish */
    ATTEMPT_ALL_GONE, /* no node has anything left of it */
    ATTEMPT_EVENT_COUNT
};
enum attempt_action {
    ATTEMPT_ROW_MISSING,
    ATTEMPT_IGNORE,
    ATTEMPT_GO,
    ATTEMPT_RUNS,
    ATTEMPT_SEND_STOP,
    ATTEMPT_COMPLETE,
    ATTEMPT_END,
};
struct attempt_row {
    enum attempt_state next;
    enum attempt_action action;
};
struct attempt_row machine_attempt(enum attempt_state state, enum attempt_event event);

enum node_event {
    NODE_ALIVE,          /* hello or heartbeat, no drain asked for */
    NODE_ALIVE_DRAINING, /* hello or heartbeat, drain asked for */
    NODE_QUIET,
    NODE_DEAD,
    NODE_DRAIN,
    NODE_UNDRAIN,
    NODE_EMPTY, /* drain asked for and nothing runs here */
    NODE_EVENT_COUNT
};
enum node_action {
    NODE_ROW_MISSING,
    NODE_IGNORE,
    NODE_NOTE,   /* the new state and reason are all */
    NODE_JOIN,   /* its slots may be used (again) */
    NODE_LOSE,   /* its attempts have lost it */
    NODE_VACATE, /* its attempts are to move */
};
struct node_row {
    enum node_state next;
    enum node_action action;
};
struct node_row machine_node(enum node_state state, enum node_event event);

#endif
