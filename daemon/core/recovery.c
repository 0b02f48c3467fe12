/* recovery: the order of the questions is the policy; the first that applies answers. */
#include "daemon/core/recovery.h"

#include "schema/job.h"

int64_t recovery_pause(int64_t backoff_ms, int64_t n, uint64_t jitter)
{
    int64_t pause = backoff_ms;
    for (int64_t i = 1; i < n && pause < RECOVERY_BACKOFF_MAX_MS; i++)
        pause *= 2;
    if (pause > RECOVERY_BACKOFF_MAX_MS)
        pause = RECOVERY_BACKOFF_MAX_MS;
    jitter ^= jitter >> 33; /* the final mix of murmur3 */
    jitter *= 0xff51afd7ed558ccdu;
    jitter ^= jitter >> 33;
    return pause + (int64_t)(jitter % (uint64_t)(pause / 10 + 1));
}

static struct recovery_decision end_with(enum job_event event, enum recovery_cause cause)
{
    return (struct recovery_decision){.event = event, .cause = cause};
}

static struct recovery_decision again(const struct recovery_facts *f, int64_t delay_ms)
{
    return (struct recovery_decision){.event = f->begun ? JOB_RETRY : JOB_WAIT, .delay_ms = delay_ms};
}

static bool out_of_progress(const struct recovery_facts *f)
{
    return f->checkpoints && (f->loop >= RECOVERY_LOOP_MAX || f->fruitless >= RECOVERY_FRUITLESS_MAX);
}

static struct recovery_decision after_failure(const struct recovery_facts *f)
{
    if (f->charged > f->max)
        return end_with(JOB_FAIL, RECOVERY_BUDGET);
    if (out_of_progress(f))
        return end_with(JOB_FAIL, RECOVERY_NO_PROGRESS);
    return again(f, recovery_pause(f->backoff_ms, f->in_row, f->jitter));
}

/* The first fault of a node costs no pause; faults in a row do, so that nothing spins. */
static struct recovery_decision after_node_fault(const struct recovery_facts *f)
{
    if (out_of_progress(f))
        return end_with(JOB_FAIL, RECOVERY_NO_PROGRESS);
    return again(f, f->node_faults > 1 ? recovery_pause(f->backoff_ms, f->node_faults - 1, f->jitter) : 0);
}

struct recovery_decision recovery_decide(const struct recovery_facts *f)
{
    if (f->outcome == OUTCOME_COMPLETED)
        return end_with(JOB_COMPLETE, RECOVERY_PLAIN);
    if (f->cancel)
        return end_with(JOB_CANCEL_DONE, RECOVERY_PLAIN);
    if (f->outcome == OUTCOME_TIME_LIMIT)
        return end_with(JOB_FAIL, RECOVERY_PLAIN);
    if (f->outcome == OUTCOME_FAILED && f->exit_code == JOB_EXIT_NO_RETRY)
        return end_with(JOB_FAIL, RECOVERY_NO_RETRY);
    if (f->hold)
        return end_with(JOB_HOLD_DONE, RECOVERY_PLAIN);
    if (f->outcome == OUTCOME_FAILED)
        return after_failure(f);
    if (f->outcome == OUTCOME_NODE)
        return after_node_fault(f);
    if (f->outcome == OUTCOME_PREEMPTED)
        return end_with(JOB_WAIT, RECOVERY_PLAIN);
    return again(f, 0); /* drained, or a hold that was taken back */
}
