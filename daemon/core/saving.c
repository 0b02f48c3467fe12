/* saving: checkpoints that somebody asks for, and the planned stops that wait for one: drain, requeue, hold, cancel with a checkpoint.
 *
 * A request is a counter in the orders (ranks that announced CHECKPOINT_ON get SIGUSR1). It is answered by a checkpoint of the step that
 * was known when it was made or of a later one (an older one may still have been under way), by a save that failed, or by the end of its
 * patience; then the attempt stops, if a stop was planned. One request waits at a time, others join it. All of it is in the
 * attempt's record, so a controller that starts again waits on, with its patience anew. */
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "daemon/core/core_private.h"

static struct event_of of_attempt(const struct attempt *a, const char *kind, const char *node)
{
    return (struct event_of){kind, a->r.job, a->r.number, -1, node};
}

static void copy_text(char *to, size_t size, const char *from)
{
    size_t n = strnlen(from, size - 1);
    while (n > 0 && n == size - 1 && ((unsigned char)from[n] & 0xC0) == 0x80)
        n--; /* never half a UTF-8 letter */
    memcpy(to, from, n);
    to[n] = '\0';
}

/* ---- asking ---- */

int64_t saving_patience(const struct job *job, int64_t least_ms)
{
    int64_t twice = 2 * job->longest_save_ms;
    return twice > least_ms ? twice : least_ms;
}

int64_t saving_due(const struct core *core, const struct attempt *a)
{
    if (a->r.state != ATTEMPT_RUNNING || !a->r.save.waiting)
        return INT64_MAX;
    int64_t drain_ms = drain_deadline(core, a),
            own_ms = a->asked_mono_ms + saving_patience(a->job, a->job->r.spec->limits.grace_ms);
    return a->r.save.then == OUTCOME_DRAINED || drain_ms < own_ms ? drain_ms : own_ms;
}

static void ask(struct core *core, struct attempt *a, const char *cause, const char *node)
{
    struct save_request *s = &a->r.save;
    if (s->waiting)
        return;
    *s = (struct save_request){
        .asked_ms = core->t.now_ms, .from_step = a->r.to_step, .waiting = true, .step = -1};
    copy_text(s->why, sizeof(s->why), cause);
    a->asked_mono_ms = core->t.mono_ms;
    a->r.checkpoint_request++;
    mark_attempt(core, a);
    mark_job(core, a->job);
    mark_all_orders(core, a);
    event_note(core, of_attempt(a, "checkpoint_asked", node), "%s: job %lld is asked for a checkpoint", cause,
               (long long)a->r.job);
    job_rearm(core, a->job);
}

void saving_ask(struct core *core, struct attempt *a, const char *cause)
{
    ask(core, a, cause, NULL);
}

void saving_skip(struct core *core, const struct attempt *a, const char *cause)
{
    event_note(core, of_attempt(a, "checkpoint_skipped", NULL),
               "%s: job %lld is not asked for a checkpoint, for it saves none when asked (no CHECKPOINT_ON)",
               cause, (long long)a->r.job);
}

void saving_stop(struct core *core, struct attempt *a, const struct planned_stop *stop)
{
    if (a->r.state != ATTEMPT_RUNNING || !a->r.checkpoint_on) {
        if (a->r.state == ATTEMPT_RUNNING)
            saving_skip(core, a, stop->cause);
        attempt_stop(core, a, stop->outcome, stop->why);
        return;
    }
    ask(core, a, stop->cause, stop->node);
    a->r.save.then = stop->outcome;
    copy_text(a->r.save.why, sizeof(a->r.save.why), stop->why);
    mark_attempt(core, a);
    job_rearm(core, a->job);
}

void saving_take_back(struct core *core, struct attempt *a, enum attempt_outcome outcome)
{
    if (a->r.save.then != outcome || a->r.state != ATTEMPT_RUNNING)
        return;
    a->r.save.then = OUTCOME_NONE;
    mark_attempt(core, a);
    mark_job(core, a->job);
}

/* ---- answers ---- */

static void answered(struct core *core, struct attempt *a, int64_t step, const char *why_not)
{
    a->r.save.waiting = false;
    a->r.save.step = step;
    copy_text(a->r.save.answer, sizeof(a->r.save.answer), why_not);
    mark_attempt(core, a);
    mark_job(core, a->job);
    attempt_examine_later(core, a);
}

static void unanswered(struct core *core, struct attempt *a, const char *why)
{
    event_note(core, of_attempt(a, "checkpoint_missed", NULL), "the checkpoint asked of job %lld: %s",
               (long long)a->r.job, why);
    answered(core, a, -1, why);
}

void saving_durable(struct core *core, struct attempt *a, int64_t step)
{
    if (a->r.save.waiting && step >= a->r.save.from_step)
        answered(core, a, step, "");
}

void saving_failed(struct core *core, struct attempt *a, int64_t step, const char *why)
{
    if (a->r.save.waiting && step >= a->r.save.from_step)
        answered(core, a, -1, why);
}

void saving_over(struct core *core, struct attempt *a)
{
    if (a->r.save.waiting)
        unanswered(core, a, "the attempt ended before it was durable");
    a->r.save.then = OUTCOME_NONE;
}

static void run_out(struct core *core, struct attempt *a)
{
    char text[32];
    struct err why;
    int64_t ms = core->t.mono_ms - a->asked_mono_ms;
    err_set(&why, "none was durable within %s", clock_format_duration(ms, text, sizeof(text)));
    unanswered(core, a, why.text);
}

static void stop_now(struct core *core, struct attempt *a)
{
    enum attempt_outcome then = a->r.save.then;
    char why[sizeof(a->r.save.why)];
    memcpy(why, a->r.save.why, sizeof(why));
    attempt_stop(core, a, then, why);
    if (then == OUTCOME_PREEMPTED)
        job_event(core, a->job, JOB_WAIT, why);
    else if (then != OUTCOME_DRAINED)
        job_set_reason(core, a->job, "%s: waits for its ranks to stop", why);
}

void saving_examine(struct core *core, struct attempt *a)
{
    if (a->r.state != ATTEMPT_RUNNING)
        return;
    if (saving_due(core, a) <= core->t.mono_ms)
        run_out(core, a);
    if (a->r.save.then != OUTCOME_NONE && !a->r.save.waiting)
        stop_now(core, a);
}
