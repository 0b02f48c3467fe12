/* machines: three const tables and their lookups. A pair that is not written here has action 0, "missing". */
#include "daemon/core/machines.h"

#include <stddef.h>

#define ROW(event, next_state, what) [event] = {next_state, what}

/* A waiting job may still have an attempt that is being stopped; its end says RETRY or WAIT, which change nothing then. */
#define WAITING_ROWS(self)                                                                                   \
    ROW(JOB_PLACED, JOB_STARTING, JOB_NOTE), ROW(JOB_RAN, self, JOB_IGNORE), ROW(JOB_FAULT, self, JOB_NOTE), \
        ROW(JOB_UNPLACED, self, JOB_NOTE), ROW(JOB_RETRY, self, JOB_QUEUE),                                  \
        ROW(JOB_WAIT, JOB_PENDING, JOB_QUEUE)

#define ENDING_ROWS                                                                                          \
    ROW(JOB_COMPLETE, JOB_COMPLETED, JOB_FINISH), ROW(JOB_FAIL, JOB_FAILED, JOB_FINISH),                     \
        ROW(JOB_CANCEL_DONE, JOB_CANCELLED, JOB_FINISH), ROW(JOB_HOLD_DONE, JOB_HELD, JOB_SET_ASIDE)

#define ASKING_ROWS(self)                                                                                    \
    ROW(JOB_ASK_CANCEL, self, JOB_DO_CANCEL), ROW(JOB_ASK_HOLD, self, JOB_DO_HOLD),                          \
        ROW(JOB_ASK_RELEASE, self, JOB_DO_RELEASE)

#define FINAL_ROWS(self)                                                                                     \
    ROW(JOB_PLACED, self, JOB_IGNORE), ROW(JOB_RAN, self, JOB_IGNORE), ROW(JOB_FAULT, self, JOB_IGNORE),     \
        ROW(JOB_UNPLACED, self, JOB_IGNORE), ROW(JOB_RETRY, self, JOB_IGNORE),                               \
        ROW(JOB_WAIT, self, JOB_IGNORE), ROW(JOB_COMPLETE, self, JOB_IGNORE),                                \
        ROW(JOB_FAIL, self, JOB_IGNORE), ROW(JOB_CANCEL_DONE, self, JOB_IGNORE),                             \
        ROW(JOB_HOLD_DONE, self, JOB_IGNORE), ROW(JOB_ASK_CANCEL, self, JOB_REFUSE),                         \
        ROW(JOB_ASK_HOLD, self, JOB_REFUSE), ROW(JOB_ASK_RELEASE, self, JOB_REFUSE),                         \
        ROW(JOB_ASK_REQUEUE, JOB_PENDING, JOB_DO_REVIVE)

static const struct job_row job_table[JOB_STATE_COUNT][JOB_EVENT_COUNT] = {
    [JOB_PENDING] = {WAITING_ROWS(JOB_PENDING), ENDING_ROWS, ASKING_ROWS(JOB_PENDING),
                     ROW(JOB_ASK_REQUEUE, JOB_PENDING, JOB_REFUSE)},
    [JOB_RESTARTING] = {WAITING_ROWS(JOB_RESTARTING), ENDING_ROWS, ASKING_ROWS(JOB_RESTARTING),
                        ROW(JOB_ASK_REQUEUE, JOB_PENDING, JOB_DO_REQUEUE)},
    [JOB_PREEMPTED] = {WAITING_ROWS(JOB_PREEMPTED), ENDING_ROWS, ASKING_ROWS(JOB_PREEMPTED),
                       ROW(JOB_ASK_REQUEUE, JOB_PENDING, JOB_DO_REQUEUE)},
    [JOB_STARTING] = {ROW(JOB_PLACED, JOB_STARTING, JOB_IGNORE), ROW(JOB_RAN, JOB_RUNNING, JOB_NOTE),
                      ROW(JOB_FAULT, JOB_RESTARTING, JOB_NOTE), ROW(JOB_UNPLACED, JOB_PENDING, JOB_NOTE),
                      ROW(JOB_RETRY, JOB_RESTARTING, JOB_QUEUE), ROW(JOB_WAIT, JOB_PENDING, JOB_QUEUE),
                      ENDING_ROWS, ASKING_ROWS(JOB_STARTING),
                      ROW(JOB_ASK_REQUEUE, JOB_PENDING, JOB_DO_REQUEUE)},
    [JOB_RUNNING] = {ROW(JOB_PLACED, JOB_RUNNING, JOB_IGNORE), ROW(JOB_RAN, JOB_RUNNING, JOB_IGNORE),
                     ROW(JOB_FAULT, JOB_RESTARTING, JOB_NOTE), ROW(JOB_UNPLACED, JOB_RESTARTING, JOB_NOTE),
                     ROW(JOB_RETRY, JOB_RESTARTING, JOB_QUEUE), ROW(JOB_WAIT, JOB_PENDING, JOB_QUEUE),
                     ENDING_ROWS, ASKING_ROWS(JOB_RUNNING),
                     ROW(JOB_ASK_REQUEUE, JOB_PENDING, JOB_DO_REQUEUE)},
    [JOB_HELD] = {ROW(JOB_PLACED, JOB_HELD, JOB_IGNORE), ROW(JOB_RAN, JOB_HELD, JOB_IGNORE),
                  ROW(JOB_FAULT, JOB_HELD, JOB_IGNORE), ROW(JOB_UNPLACED, JOB_HELD, JOB_IGNORE),
                  ROW(JOB_RETRY, JOB_HELD, JOB_IGNORE), ROW(JOB_WAIT, JOB_PENDING, JOB_QUEUE),
                  ROW(JOB_COMPLETE, JOB_HELD, JOB_IGNORE), ROW(JOB_FAIL, JOB_FAILED, JOB_FINISH),
                  ROW(JOB_CANCEL_DONE, JOB_CANCELLED, JOB_FINISH), ROW(JOB_HOLD_DONE, JOB_HELD, JOB_IGNORE),
                  ROW(JOB_ASK_CANCEL, JOB_HELD, JOB_DO_CANCEL), ROW(JOB_ASK_HOLD, JOB_HELD, JOB_REFUSE),
                  ROW(JOB_ASK_RELEASE, JOB_HELD, JOB_DO_RELEASE), ROW(JOB_ASK_REQUEUE, JOB_HELD, JOB_REFUSE)},
    [JOB_COMPLETED] = {FINAL_ROWS(JOB_COMPLETED)},
    [JOB_FAILED] = {FINAL_ROWS(JOB_FAILED)},
    [JOB_CANCELLED] = {FINAL_ROWS(JOB_CANCELLED)},
};

struct job_row machine_job(enum job_state state, enum job_event event)
{
    return job_table[state][event];
}

static const struct attempt_row attempt_table[ATTEMPT_STATE_COUNT][ATTEMPT_EVENT_COUNT] = {
    [ATTEMPT_PREPARING] = {ROW(ATTEMPT_ALL_READY, ATTEMPT_LAUNCHING, ATTEMPT_GO),
                           ROW(ATTEMPT_ALL_RUNNING, ATTEMPT_PREPARING, ATTEMPT_IGNORE), /* nobody said go */
                           ROW(ATTEMPT_FINISHED, ATTEMPT_PREPARING, ATTEMPT_IGNORE),
                           ROW(ATTEMPT_STOP, ATTEMPT_STOPPING, ATTEMPT_SEND_STOP),
                           ROW(ATTEMPT_ALL_GONE, ATTEMPT_PREPARING, ATTEMPT_IGNORE)},
    [ATTEMPT_LAUNCHING] = {ROW(ATTEMPT_ALL_READY, ATTEMPT_LAUNCHING, ATTEMPT_IGNORE),
                           ROW(ATTEMPT_ALL_RUNNING, ATTEMPT_RUNNING, ATTEMPT_RUNS),
                           ROW(ATTEMPT_FINISHED, ATTEMPT_ENDED,
                               ATTEMPT_COMPLETE), /* shorter than a report's way */
                           ROW(ATTEMPT_STOP, ATTEMPT_STOPPING, ATTEMPT_SEND_STOP),
                           ROW(ATTEMPT_ALL_GONE, ATTEMPT_LAUNCHING, ATTEMPT_IGNORE)},
    [ATTEMPT_RUNNING] = {ROW(ATTEMPT_ALL_READY, ATTEMPT_RUNNING, ATTEMPT_IGNORE),
                         ROW(ATTEMPT_ALL_RUNNING, ATTEMPT_RUNNING, ATTEMPT_IGNORE),
                         ROW(ATTEMPT_FINISHED, ATTEMPT_ENDED, ATTEMPT_COMPLETE),
                         ROW(ATTEMPT_STOP, ATTEMPT_STOPPING, ATTEMPT_SEND_STOP),
                         ROW(ATTEMPT_ALL_GONE, ATTEMPT_RUNNING, ATTEMPT_IGNORE)},
    [ATTEMPT_STOPPING] = {ROW(ATTEMPT_ALL_READY, ATTEMPT_STOPPING, ATTEMPT_IGNORE),
                          ROW(ATTEMPT_ALL_RUNNING, ATTEMPT_STOPPING, ATTEMPT_IGNORE),
                          ROW(ATTEMPT_FINISHED, ATTEMPT_STOPPING,
                              ATTEMPT_IGNORE), /* a stopped rank may exit with 0 too */
                          ROW(ATTEMPT_STOP, ATTEMPT_STOPPING, ATTEMPT_IGNORE),
                          ROW(ATTEMPT_ALL_GONE, ATTEMPT_ENDED, ATTEMPT_END)},
    [ATTEMPT_ENDED] = {ROW(ATTEMPT_ALL_READY, ATTEMPT_ENDED, ATTEMPT_IGNORE),
                       ROW(ATTEMPT_ALL_RUNNING, ATTEMPT_ENDED, ATTEMPT_IGNORE),
                       ROW(ATTEMPT_FINISHED, ATTEMPT_ENDED, ATTEMPT_IGNORE),
                       ROW(ATTEMPT_STOP, ATTEMPT_ENDED, ATTEMPT_IGNORE),
                       ROW(ATTEMPT_ALL_GONE, ATTEMPT_ENDED, ATTEMPT_IGNORE)},
};

struct attempt_row machine_attempt(enum attempt_state state, enum attempt_event event)
{
    return attempt_table[state][event];
}

static const struct node_row node_table[NODE_STATE_COUNT][NODE_EVENT_COUNT] = {
    [NODE_UP] = {ROW(NODE_ALIVE, NODE_UP, NODE_IGNORE), ROW(NODE_ALIVE_DRAINING, NODE_DRAINING, NODE_NOTE),
                 ROW(NODE_QUIET, NODE_SUSPECT, NODE_NOTE), ROW(NODE_DEAD, NODE_DOWN, NODE_LOSE),
                 ROW(NODE_DRAIN, NODE_DRAINING, NODE_VACATE), ROW(NODE_UNDRAIN, NODE_UP, NODE_IGNORE),
                 ROW(NODE_EMPTY, NODE_UP, NODE_IGNORE)},
    [NODE_SUSPECT] = {ROW(NODE_ALIVE, NODE_UP, NODE_JOIN), ROW(NODE_ALIVE_DRAINING, NODE_DRAINING, NODE_NOTE),
                      ROW(NODE_QUIET, NODE_SUSPECT, NODE_IGNORE), ROW(NODE_DEAD, NODE_DOWN, NODE_LOSE),
                      ROW(NODE_DRAIN, NODE_SUSPECT, NODE_VACATE), ROW(NODE_UNDRAIN, NODE_SUSPECT, NODE_NOTE),
                      ROW(NODE_EMPTY, NODE_SUSPECT, NODE_IGNORE)},
    [NODE_DOWN] = {ROW(NODE_ALIVE, NODE_UP, NODE_JOIN), ROW(NODE_ALIVE_DRAINING, NODE_DRAINING, NODE_NOTE),
                   ROW(NODE_QUIET, NODE_DOWN, NODE_IGNORE), ROW(NODE_DEAD, NODE_DOWN, NODE_IGNORE),
                   ROW(NODE_DRAIN, NODE_DOWN, NODE_NOTE), ROW(NODE_UNDRAIN, NODE_DOWN, NODE_NOTE),
                   ROW(NODE_EMPTY, NODE_DOWN, NODE_IGNORE)},
    [NODE_DRAINING] = {ROW(NODE_ALIVE, NODE_UP, NODE_JOIN),
                       ROW(NODE_ALIVE_DRAINING, NODE_DRAINING, NODE_IGNORE),
                       ROW(NODE_QUIET, NODE_SUSPECT, NODE_NOTE), ROW(NODE_DEAD, NODE_DOWN, NODE_LOSE),
                       ROW(NODE_DRAIN, NODE_DRAINING, NODE_VACATE), ROW(NODE_UNDRAIN, NODE_UP, NODE_JOIN),
                       ROW(NODE_EMPTY, NODE_DRAINED, NODE_NOTE)},
    [NODE_DRAINED] = {ROW(NODE_ALIVE, NODE_UP, NODE_JOIN),
                      ROW(NODE_ALIVE_DRAINING, NODE_DRAINED, NODE_IGNORE),
                      ROW(NODE_QUIET, NODE_SUSPECT, NODE_NOTE), ROW(NODE_DEAD, NODE_DOWN, NODE_LOSE),
                      ROW(NODE_DRAIN, NODE_DRAINED, NODE_NOTE), ROW(NODE_UNDRAIN, NODE_UP, NODE_JOIN),
                      ROW(NODE_EMPTY, NODE_DRAINED, NODE_IGNORE)},
    [NODE_UNKNOWN] = {ROW(NODE_ALIVE, NODE_UP, NODE_JOIN), ROW(NODE_ALIVE_DRAINING, NODE_DRAINING, NODE_NOTE),
                      ROW(NODE_QUIET, NODE_UNKNOWN, NODE_IGNORE), ROW(NODE_DEAD, NODE_DOWN, NODE_LOSE),
                      ROW(NODE_DRAIN, NODE_UNKNOWN, NODE_VACATE), ROW(NODE_UNDRAIN, NODE_UNKNOWN, NODE_NOTE),
                      ROW(NODE_EMPTY, NODE_UNKNOWN, NODE_IGNORE)},
};

struct node_row machine_node(enum node_state state, enum node_event event)
{
    return node_table[state][event];
}
