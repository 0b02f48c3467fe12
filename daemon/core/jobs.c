/* jobs: what a job is doing and why, the wishes of users, and what follows the end of an attempt.
 *
 * Every change of state goes through the table. A wish that ends a running attempt is noted in the record first
 * (cancel_requested, hold_requested, or the attempt's outcome), so that it survives a restart of the controller. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"
#include "daemon/core/core_private.h"
#include "daemon/core/directory.h"
#include "daemon/core/recovery.h"

static struct event_of of_job(const struct job *job, const char *kind)
{
    return (struct event_of){.kind = kind, .job = job->r.id, .rank = -1};
}

/* ---- finding and making ---- */

static size_t first_at_least(const struct list *jobs, int64_t id)
{
    size_t low = 0, high = jobs->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (((struct job *)jobs->items[mid])->r.id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct job *job_find(const struct core *core, int64_t id)
{
    size_t at = first_at_least(&core->jobs, id);
    struct job *job = at < core->jobs.count ? core->jobs.items[at] : NULL;
    return job && job->r.id == id ? job : NULL;
}

static void insert_by_id(struct core *core, struct job *job)
{
    size_t at = first_at_least(&core->jobs, job->r.id);
    list_add(&core->jobs, job);
    memmove(&core->jobs.items[at + 1], &core->jobs.items[at], (core->jobs.count - 1 - at) * sizeof(void *));
    core->jobs.items[at] = job;
}

static void job_due(void *ctx, void *owner);

struct job *job_add(struct core *core, struct job_record *record)
{
    struct job *job = mem_zero(1, sizeof(*job));
    job->r = *record;
    job->high_step = job->high_checkpoint = -1;
    job->grow.version = ELASTIC_LOOK;
    job->grow.since_mono_ms = INT64_MAX;
    job->timer = (struct timer){.owner = job, .fire = job_due};
    job->directory = directory_absolute(job->r.cwd, job->r.spec->checkpoint.directory);
    insert_by_id(core, job);
    core->any_elastic = core->any_elastic || job_elastic(job->r.spec);
    core->any_spares = core->any_spares || job->r.spec->placement.spares != 0;
    if (job->r.key) {
        char *key = submit_key(job->r.uid, job->r.key);
        idmap_put(core->job_by_key, key, job);
        free(key);
    }
    if (job->directory && !job_state_final(job->r.state))
        idmap_put(core->job_by_directory, job->directory, job);
    if (job->r.id >= core->next_job)
        core->next_job = job->r.id + 1;
    return job;
}

void job_free(struct job *job)
{
    for (size_t i = 0; i < job->n_attempts; i++)
        attempt_free(job->attempts[i]);
    free(job->attempts);
    announced_free(job);
    free(job->avoided);
    free(job->directory);
    free(job->r.key);
    free(job->r.user);
    free(job->r.cwd);
    free(job->r.yaml);
    free(job->r.reason);
    job_spec_free(job->r.spec);
    free(job);
}

bool job_pauses(const struct core *core, const struct job *job)
{
    return job->pause_until_mono_ms > core->t.mono_ms;
}

void job_pause(struct core *core, struct job *job, int64_t ms)
{
    job->r.not_before_ms = ms > 0 ? core->t.now_ms + ms : 0;
    job->pause_until_mono_ms = ms > 0 ? core->t.mono_ms + ms : 0;
}

struct attempt *job_newest(const struct job *job)
{
    return job->n_attempts > 0 ? job->attempts[job->n_attempts - 1] : NULL;
}

bool job_stop_wanted(const struct job *job)
{
    enum attempt_outcome o = job->current ? job->current->r.outcome : OUTCOME_NONE;
    return job->r.cancel_requested || job->r.hold_requested || o == OUTCOME_PREEMPTED;
}

/* ---- time ---- */

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t time_limit_due(const struct core *core, const struct job *job)
{
    if (job->r.spec->limits.time_ms == 0 || job->r.started_ms == 0 || job->r.state == JOB_HELD ||
        (job->current && job->current->r.state == ATTEMPT_STOPPING))
        return INT64_MAX;
    return core_mono_of(core, job->r.started_ms + job->r.spec->limits.time_ms);
}

/* Early enough before its time limit that a checkpoint is there when it is stopped; a job with a short limit is asked half-way. One that was
 * asked before that and has not answered yet is asked again once it has. */
static int64_t last_save_due(const struct core *core, const struct job *job)
{
    int64_t limit_ms = job->r.spec->limits.time_ms;
    const struct attempt *a = job->current;
    if (time_limit_due(core, job) == INT64_MAX || !a || a->r.state != ATTEMPT_RUNNING || !a->r.checkpoint_on)
        return INT64_MAX;
    int64_t before_ms = saving_patience(job, job->r.spec->limits.grace_ms);
    int64_t at_ms = job->r.started_ms + limit_ms - (before_ms < limit_ms / 2 ? before_ms : limit_ms / 2);
    return a->r.save.waiting || a->r.save.asked_ms >= at_ms ? INT64_MAX : core_mono_of(core, at_ms);
}

static void ask_before_limit(struct core *core, struct job *job)
{
    char limit[32], left[32];
    struct err cause;
    int64_t ms = time_limit_due(core, job) - core->t.mono_ms;
    err_set(&cause, "its time limit of %s is reached in %s",
            clock_format_duration(job->r.spec->limits.time_ms, limit, sizeof(limit)),
            clock_format_duration(ms, left, sizeof(left)));
    saving_ask(core, job->current, cause.text);
}

void job_rearm(struct core *core, struct job *job)
{
    int64_t due = INT64_MAX;
    if (!job_state_final(job->r.state)) {
        due = sooner(time_limit_due(core, job), last_save_due(core, job));
        if (job->current)
            due = sooner(due, sooner(job->current->due_mono_ms, saving_due(core, job->current)));
        due = sooner(due, elastic_due(core, job));
        for (size_t i = 0; i < job->n_avoided; i++)
            due = sooner(due, job->avoided[i].until_mono_ms);
        if (job->kept)
            due = sooner(due, job->keep_until_mono_ms);
        if (job->waiting && job_pauses(core, job))
            due = sooner(due, job->pause_until_mono_ms);
    }
    timers_set(core->timers, &job->timer, due);
}

static void forgive_nodes(struct core *core, struct job *job)
{
    for (size_t i = job->n_avoided; i > 0; i--) {
        if (job->avoided[i - 1].until_mono_ms > core->t.mono_ms)
            continue;
        job->avoided[i - 1] = job->avoided[--job->n_avoided];
        job->kept_out = false;
    }
}

static void reach_time_limit(struct core *core, struct job *job)
{
    char limit[32];
    struct err why;
    err_set(&why, "time limit of %s reached",
            clock_format_duration(job->r.spec->limits.time_ms, limit, sizeof(limit)));
    if (job->current && job->current->r.state == ATTEMPT_RUNNING && !job->current->r.checkpoint_on)
        saving_skip(core, job->current, why.text);
    if (job->current)
        attempt_stop(core, job->current, OUTCOME_TIME_LIMIT, why.text);
    else
        job_event(core, job, JOB_FAIL, why.text);
}

static void job_due(void *ctx, void *owner)
{
    struct core *core = ctx;
    struct job *job = owner;
    forgive_nodes(core, job);
    if (job->kept && job->keep_until_mono_ms <= core->t.mono_ms)
        keep_end(core, job);
    core->schedule_dirty = core->schedule_dirty || job->waiting;
    elastic_expire(core, job);
    if (time_limit_due(core, job) <= core->t.mono_ms)
        reach_time_limit(core, job);
    else if (last_save_due(core, job) <= core->t.mono_ms)
        ask_before_limit(core, job);
    if (job->current)
        attempt_check_deadline(core, job->current);
    if (job->current)
        drain_examine(core, job->current);
    if (job->current)
        saving_examine(core, job->current);
    job_rearm(core, job);
}

/* ---- the table's actions ---- */

static void finish(struct core *core, struct job *job)
{
    job->r.ended_ms = core->t.now_ms;
    job_pause(core, job, 0);
    queue_remove(core, job);
    keep_end(core, job);
    if (job->directory && idmap_get(core->job_by_directory, job->directory) == job)
        idmap_remove(core->job_by_directory, job->directory);
}

static void tell(struct core *core, struct job *job)
{
    static const char *const kinds[JOB_STATE_COUNT] = {
        [JOB_PENDING] = "pending",         [JOB_HELD] = "held",
        [JOB_STARTING] = "starting",       [JOB_RUNNING] = "job_running",
        [JOB_RESTARTING] = "job_stopping", [JOB_PREEMPTED] = "preempted",
        [JOB_COMPLETED] = "completed",     [JOB_FAILED] = "failed",
        [JOB_CANCELLED] = "cancelled",
    };
    struct event_of of = of_job(job, kinds[job->r.state]);
    of.attempt = job->r.attempt;
    event_note(core, of, "job %lld (%s) is %s: %s", (long long)job->r.id, job->r.spec->name,
               job_state_name(job->r.state), job->r.reason);
}

void job_event(struct core *core, struct job *job, enum job_event event, const char *reason)
{
    struct job_row row = machine_job(job->r.state, event);
    if (row.action <= JOB_IGNORE)
        return;
    bool changed = row.next != job->r.state;
    job->r.state = row.next;
    mark_job(core, job);
    job_set_reason(core, job, "%s", reason);
    if (row.action == JOB_QUEUE)
        queue_add(core, job);
    if (row.action == JOB_SET_ASIDE) {
        queue_remove(core, job);
        keep_end(core, job);
    }
    if (row.action == JOB_FINISH)
        finish(core, job);
    if (changed)
        tell(core, job);
    job_rearm(core, job);
}

/* ---- after an attempt ---- */

static bool this_life(const struct job *job, const struct attempt *a)
{
    return job->r.started_ms > 0 && a->r.ended_ms >= job->r.started_ms;
}

/* Counts attempts from the newest back. An attempt that never ran counts for nothing; one that was moved or held is skipped. */
static void count_attempts(const struct core *core, const struct job *job, struct recovery_facts *f)
{
    int64_t window_start = core->t.now_ms - job->r.spec->restart.window_ms;
    bool fruitless = true, node_row = true, row = true, loop = true;
    int64_t here = job->attempts[job->n_attempts - 1]->r.to_step;
    for (size_t i = job->n_attempts; i > 0 && this_life(job, job->attempts[i - 1]); i--) {
        const struct attempt *a = job->attempts[i - 1];
        bool failed = a->r.outcome == OUTCOME_FAILED,
             node = a->r.outcome == OUTCOME_NODE && a->r.running_ms > 0;
        f->charged += failed && a->r.ended_ms > window_start;
        f->in_row += row && failed && a->r.ended_ms > window_start;
        row = row && !a->advanced;
        fruitless = fruitless && !a->advanced;
        f->fruitless += fruitless && (failed || node);
        loop = loop && fruitless && (!failed || a->r.to_step == here);
        f->loop += loop && failed;
        node_row = node_row && !failed && a->r.to_step < 0;
        f->node_faults += node_row && a->r.outcome == OUTCOME_NODE;
    }
}

static struct recovery_facts gather(const struct core *core, const struct job *job, const struct attempt *a)
{
    const struct job_spec *spec = job->r.spec;
    struct recovery_facts f = {
        .outcome = a->r.outcome,
        .exit_code = job->r.exit_code,
        .begun = job->r.started_ms > 0,
        .cancel = job->r.cancel_requested,
        .hold = job->r.hold_requested,
        .checkpoints = spec->checkpoint.directory != NULL || job->high_checkpoint >= 0,
        .max = spec->restart.max,
        .backoff_ms = spec->restart.backoff_ms,
        .jitter = (uint64_t)job->r.id * 1000003u + (uint64_t)a->r.number,
    };
    count_attempts(core, job, &f);
    return f;
}

static void explain_end(const struct job *job, const struct attempt *a, const struct recovery_facts *f,
                        const struct recovery_decision *d, struct err *out)
{
    char window[32];
    clock_format_duration(job->r.spec->restart.window_ms, window, sizeof(window));
    if (d->cause == RECOVERY_BUDGET && f->max == 0)
        err_set(out, "%s (restart.max is 0)", a->r.reason);
    else if (d->cause == RECOVERY_BUDGET)
        err_set(out, "%lld failures within %s, restart.max is %lld; the last: %s", (long long)f->charged,
                window, (long long)f->max, a->r.reason);
    else if (d->cause == RECOVERY_NO_PROGRESS)
        err_set(out, "no progress: %lld attempts in a row passed no new checkpoint; the last: %s",
                (long long)f->fruitless, a->r.reason);
    else if (d->event == JOB_CANCEL_DONE && a->r.outcome != OUTCOME_CANCELLED)
        err_set(out, "cancelled while it was stopping: %s", a->r.reason);
    else if (d->event == JOB_HOLD_DONE && a->r.outcome != OUTCOME_HELD)
        err_set(out, "held while it was stopping: %s", a->r.reason);
    else
        err_set(out, "%s", a->r.reason);
}

/* Only the ranks will know whether every copy in memory is still there. */
static void explain_from(const struct job_progress *p, char out[96])
{
    char stored[32] = "the beginning";
    if (p->checkpoint_step >= 0)
        (void)snprintf(stored, sizeof(stored), "step %lld", (long long)p->checkpoint_step);
    if (p->memory_step > p->checkpoint_step)
        (void)snprintf(out, 96, "from step %lld if memory has it still, else from %s",
                       (long long)p->memory_step, stored);
    else
        (void)snprintf(out, 96, "from %s", stored);
}

static void explain_retry(const struct job *job, const struct attempt *a, const struct recovery_facts *f,
                          const struct recovery_decision *d, struct err *out)
{
    char from[96], pause[32], after[64] = "";
    struct err text;
    explain_from(&job->r.progress, from);
    if (d->delay_ms > 0) {
        err_set(&text, " after a pause of %s", clock_format_duration(d->delay_ms, pause, sizeof(pause)));
        memcpy(after, text.text, strlen(text.text) + 1);
    }
    if (a->r.outcome == OUTCOME_FAILED)
        err_set(out, "restart %lld of %lld %s%s: %s", (long long)f->charged, (long long)f->max, from, after,
                a->r.reason);
    else if (f->begun)
        err_set(out, "starts again %s%s (not charged): %s", from, after, a->r.reason);
    else
        err_set(out, "waits for slots again%s: %s", after, a->r.reason);
}

static void count_restart(struct job *job, const struct attempt *a, const struct recovery_decision *d)
{
    if (d->event == JOB_RETRY &&
        (a->r.outcome == OUTCOME_FAILED || (a->r.outcome == OUTCOME_NODE && a->r.running_ms > 0)))
        job->r.restarts++;
}

void job_attempt_ended(struct core *core, struct job *job, struct attempt *a)
{
    struct recovery_facts f = gather(core, job, a);
    struct recovery_decision d = recovery_decide(&f);
    struct err why;
    bool again = d.event == JOB_RETRY || d.event == JOB_WAIT;
    if (again)
        explain_retry(job, a, &f, &d, &why);
    else
        explain_end(job, a, &f, &d, &why);
    job_pause(core, job, d.delay_ms);
    count_restart(job, a, &d);
    if (again) {
        struct event_of of = of_job(job, "restarting");
        of.attempt = a->r.number;
        of.rank = a->r.outcome == OUTCOME_FAILED ? job->r.first_failure_rank : -1;
        event_note(core, of, "%s", why.text);
    }
    job_event(core, job, d.event, why.text);
}

/* ---- wishes of users ---- */

static void stop_or(struct core *core, struct job *job, enum attempt_outcome outcome, enum job_event at_once,
                    const char *why)
{
    if (!job->current) {
        job_event(core, job, at_once, why);
        return;
    }
    attempt_stop(core, job->current, outcome, why);
    job_set_reason(core, job, "%s: waits for its ranks to stop", why);
}

/* As stop_or, but with a checkpoint first where the ranks save one when asked. */
static void save_and_stop_or(struct core *core, struct job *job, enum attempt_outcome outcome,
                             enum job_event at_once, const char *why)
{
    struct planned_stop stop = {outcome, why, why, NULL};
    if (!job->current) {
        job_event(core, job, at_once, why);
        return;
    }
    saving_stop(core, job->current, &stop);
    job_set_reason(core, job, "%s: waits for %s", why,
                   job->current->r.save.waiting ? "a checkpoint" : "its ranks to stop");
}

static void requeue(struct core *core, struct job *job, const char *why)
{
    struct planned_stop stop = {OUTCOME_PREEMPTED, why, why, NULL};
    job_pause(core, job, 0);
    keep_end(core, job);
    if (job->current && job->current->r.state == ATTEMPT_RUNNING)
        saving_stop(core, job->current, &stop);
    else if (job->current)
        attempt_preempt(core, job->current, why);
    if (job->current && job->current->r.save.waiting)
        job_set_reason(core, job, "%s: waits for a checkpoint", why);
    else
        job_event(core, job, JOB_WAIT, why);
}

/* What it waits for a checkpoint for is not wanted any more. */
static void release(struct core *core, struct job *job, const char *why)
{
    job->r.hold_requested = false;
    job_pause(core, job, 0);
    if (job->current && job->current->r.save.then == OUTCOME_HELD) {
        saving_take_back(core, job->current, OUTCOME_HELD);
        job_set_reason(core, job, "%s", why);
    }
    if (job->r.state == JOB_HELD)
        job_event(core, job, JOB_WAIT, why);
}

static void begin_anew(struct core *core, struct job *job)
{
    struct job_progress *p = &job->r.progress;
    job->r.cancel_requested = job->r.hold_requested = false;
    job->r.started_ms = job->r.ended_ms = job->r.productive_ms = 0;
    job_pause(core, job, 0);
    job->r.restarts = 0;
    job->r.lost = (struct lost_time){0};
    job->r.first_failure_rank = job->r.exit_code = -1;
    job->high_step = -1;
    p->step = p->steps = -1;
    p->loss = p->tokens_per_second = p->mfu = (double)NAN;
    p->phase[0] = p->status[0] = p->interval[0] = '\0';
    p->staged_step = p->memory_step = -1;
    memset(p->trouble, 0, sizeof(p->trouble));
    if (job->directory)
        idmap_put(core->job_by_directory, job->directory, job);
}

static void obey(struct core *core, struct job *job, enum job_action action, bool save, const char *why)
{
    switch (action) {
    case JOB_DO_CANCEL:
        job->r.cancel_requested = true;
        (save ? save_and_stop_or : stop_or)(core, job, OUTCOME_CANCELLED, JOB_CANCEL_DONE, why);
        break;
    case JOB_DO_HOLD:
        job->r.hold_requested = true;
        save_and_stop_or(core, job, OUTCOME_HELD, JOB_HOLD_DONE, why);
        break;
    case JOB_DO_RELEASE:
        release(core, job, why);
        break;
    case JOB_DO_REQUEUE:
        requeue(core, job, why);
        break;
    case JOB_DO_REVIVE:
        begin_anew(core, job);
        job_event(core, job, JOB_WAIT, why);
        break;
    default:
        break;
    }
}

static int refuse(enum core_refusal *why, struct err *err, const struct job *job, const char *verb)
{
    *why = CORE_REFUSED;
    return err_set(err, "job %lld cannot be %s: it is %s%s", (long long)job->r.id, verb,
                   job->r.cancel_requested && !job_state_final(job->r.state) ? "being cancelled while " : "",
                   job_state_name(job->r.state));
}

static int directory_taken(const struct core *core, const struct job *job, enum core_refusal *why,
                           struct err *err)
{
    const struct job *other = job->directory ? idmap_get(core->job_by_directory, job->directory) : NULL;
    if (!other || other == job)
        return 0;
    *why = CORE_REFUSED;
    return err_set(
        err, "job %lld (%s) already uses the checkpoint directory %s: cancel it or wait until it has ended",
        (long long)other->r.id, other->r.spec->name, job->directory);
}

struct verb {
    enum job_event event;
    const char *done, *kind;
};

static const struct verb verbs[] = {
    [CORE_CANCEL] = {JOB_ASK_CANCEL, "cancelled", "cancel"},
    [CORE_HOLD] = {JOB_ASK_HOLD, "held", "hold"},
    [CORE_RELEASE] = {JOB_ASK_RELEASE, "released", "release"},
    [CORE_REQUEUE] = {JOB_ASK_REQUEUE, "requeued", "requeue"},
    [CORE_CANCEL_SAVED] = {JOB_ASK_CANCEL, "cancelled", "cancel"},
};

static bool makes_sense(const struct job *job, const struct verb *verb, const struct job_row *row)
{
    if (row->action == JOB_REFUSE || (row->action == JOB_DO_RELEASE && !job->r.hold_requested))
        return false;
    bool live = !job_state_final(job->r.state);
    if (row->action == JOB_DO_REQUEUE && job->r.hold_requested)
        return false;
    return verb->event == JOB_ASK_CANCEL || !(live && job->r.cancel_requested);
}

int core_job_request(struct core *core, struct core_time t, int64_t id, enum core_job_verb which,
                     const char *who, enum core_refusal *why, struct err *err)
{
    core->t = t;
    struct job *job = job_find(core, id);
    *why = CORE_NO_SUCH;
    if (!job)
        return err_set(err, "there is no job %lld: `belay status` lists the jobs", (long long)id);
    const struct verb *verb = &verbs[which];
    struct job_row row = machine_job(job->r.state, verb->event);
    if (!makes_sense(job, verb, &row))
        return refuse(why, err, job, verb->done);
    if (row.action == JOB_DO_REVIVE && directory_taken(core, job, why, err) != 0)
        return -1;
    *why = CORE_OK;
    struct err text;
    err_set(&text, "%s by %s", verb->done, who);
    mark_job(core, job);
    event_note(core, of_job(job, verb->kind), "job %lld (%s) %s", (long long)id, job->r.spec->name,
               text.text);
    if (row.action == JOB_DO_REVIVE)
        job->r.state = row.next;
    obey(core, job, row.action, which == CORE_CANCEL_SAVED, text.text);
    job_rearm(core, job);
    return 0;
}

int core_checkpoint(struct core *core, struct core_time t, int64_t id, const char *who, int64_t *request,
                    enum core_refusal *why, struct err *err)
{
    core->t = t;
    struct job *job = job_find(core, id);
    struct attempt *a = job ? job->current : NULL;
    *why = job ? CORE_REFUSED : CORE_NO_SUCH;
    if (!job)
        return err_set(err, "there is no job %lld: `belay status` lists the jobs", (long long)id);
    if (!a || a->r.state != ATTEMPT_RUNNING)
        return err_set(err, "job %lld saves no checkpoint now: its ranks do not run, it is %s", (long long)id,
                       job_state_name(job->r.state));
    if (!a->r.checkpoint_on)
        return err_set(
            err,
            "job %lld saves no checkpoint when asked: its ranks have not announced it (`belay notify "
            "CHECKPOINT_ON=SIGUSR1` in the job, once it handles SIGUSR1)",
            (long long)id);
    struct err cause;
    err_set(&cause, "wanted by %s", who);
    saving_ask(core, a, cause.text);
    *why = CORE_OK;
    *request = a->r.checkpoint_request;
    return 0;
}
