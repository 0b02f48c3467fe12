/* states: one table of words per enum, indexed by its value; parsing walks the same table, so the two cannot disagree. */
#include "schema/states.h"

#include <stddef.h>
#include <string.h>

static const char *const job_states[JOB_STATE_COUNT] = {
    [JOB_PENDING] = "pending",       [JOB_HELD] = "held",
    [JOB_STARTING] = "starting",     [JOB_RUNNING] = "running",
    [JOB_RESTARTING] = "restarting", [JOB_PREEMPTED] = "preempted",
    [JOB_COMPLETED] = "completed",   [JOB_FAILED] = "failed",
    [JOB_CANCELLED] = "cancelled",
};
static const char *const attempt_states[ATTEMPT_STATE_COUNT] = {
    [ATTEMPT_PREPARING] = "preparing", [ATTEMPT_LAUNCHING] = "launching", [ATTEMPT_RUNNING] = "running",
    [ATTEMPT_STOPPING] = "stopping",   [ATTEMPT_ENDED] = "ended",
};
static const char *const attempt_outcomes[OUTCOME_COUNT] = {
    [OUTCOME_NONE] = "none",           [OUTCOME_COMPLETED] = "completed",   [OUTCOME_FAILED] = "failed",
    [OUTCOME_NODE] = "node",           [OUTCOME_DRAINED] = "drained",       [OUTCOME_PREEMPTED] = "preempted",
    [OUTCOME_CANCELLED] = "cancelled", [OUTCOME_TIME_LIMIT] = "time_limit", [OUTCOME_HELD] = "held",
    [OUTCOME_RESIZED] = "resized",
};
static const char *const node_states[NODE_STATE_COUNT] = {
    [NODE_UP] = "up",           [NODE_SUSPECT] = "suspect",
    [NODE_DOWN] = "down",       [NODE_DRAINING] = "draining",
    [NODE_DRAINED] = "drained", [NODE_UNKNOWN] = "unknown",
};
static const char *const report_phases[REPORT_PHASE_COUNT] = {
    [REPORT_PREPARING] = "preparing", [REPORT_READY] = "ready",       [REPORT_REFUSED] = "refused",
    [REPORT_RUNNING] = "running",     [REPORT_STOPPING] = "stopping", [REPORT_GONE] = "gone",
    [REPORT_LOST] = "lost",
};
static const char *const order_phases[ORDER_PHASE_COUNT] = {
    [ORDER_PREPARE] = "prepare",
    [ORDER_GO] = "go",
    [ORDER_STOP] = "stop",
};
static const char *const rank_states[RANK_STATE_COUNT] = {
    [RANK_WAITING] = "waiting",
    [RANK_RUNNING] = "running",
    [RANK_EXITED] = "exited",
};

/* A value outside the enum can only come from a bug or a damaged record: it prints as a word that nothing parses. */
static const char *name_of(const char *const *table, size_t count, int value)
{
    if (value < 0 || (size_t)value >= count)
        return "invalid";
    return table[value];
}

static int value_of(const char *const *table, size_t count, const char *name)
{
    if (!name)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i], name) == 0)
            return (int)i;
    return -1;
}

const char *job_state_name(enum job_state s)
{
    return name_of(job_states, JOB_STATE_COUNT, (int)s);
}

const char *attempt_state_name(enum attempt_state s)
{
    return name_of(attempt_states, ATTEMPT_STATE_COUNT, (int)s);
}

const char *attempt_outcome_name(enum attempt_outcome o)
{
    return name_of(attempt_outcomes, OUTCOME_COUNT, (int)o);
}

const char *node_state_name(enum node_state s)
{
    return name_of(node_states, NODE_STATE_COUNT, (int)s);
}

const char *report_phase_name(enum report_phase p)
{
    return name_of(report_phases, REPORT_PHASE_COUNT, (int)p);
}

const char *order_phase_name(enum order_phase p)
{
    return name_of(order_phases, ORDER_PHASE_COUNT, (int)p);
}

const char *rank_state_name(enum rank_state s)
{
    return name_of(rank_states, RANK_STATE_COUNT, (int)s);
}

int job_state_parse(const char *name)
{
    return value_of(job_states, JOB_STATE_COUNT, name);
}

int attempt_state_parse(const char *name)
{
    return value_of(attempt_states, ATTEMPT_STATE_COUNT, name);
}

int attempt_outcome_parse(const char *name)
{
    return value_of(attempt_outcomes, OUTCOME_COUNT, name);
}

int node_state_parse(const char *name)
{
    return value_of(node_states, NODE_STATE_COUNT, name);
}

int report_phase_parse(const char *name)
{
    return value_of(report_phases, REPORT_PHASE_COUNT, name);
}

int order_phase_parse(const char *name)
{
    return value_of(order_phases, ORDER_PHASE_COUNT, name);
}

int rank_state_parse(const char *name)
{
    return value_of(rank_states, RANK_STATE_COUNT, name);
}

bool job_state_final(enum job_state s)
{
    return s == JOB_COMPLETED || s == JOB_FAILED || s == JOB_CANCELLED;
}
