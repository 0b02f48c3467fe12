/* progress: what ranks say of their work, and the accounts of lost and productive time made from it.
 *
 * The lowest rank that speaks of steps is the job's speaker. Each step closes an interval: the first one of an attempt is loading,
 * one up to the newest step of all attempts before is replay, and only what lies beyond is productive. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/core/core_private.h"

const char *said(const struct link_progress *p, const char *key)
{
    return json_string_value(json_object_get(p->values, key));
}

bool said_whole(const struct link_progress *p, const char *key, int64_t *out)
{
    const char *text = said(p, key);
    if (!text)
        return false;
    char *end = NULL;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || n < 0)
        return false;
    *out = n;
    return true;
}

static void real(const char *text, double *out)
{
    if (!text)
        return;
    char *end = NULL;
    double x = strtod(text, &end);
    if (end != text && *end == '\0')
        *out = x;
}

void said_real(const struct link_progress *p, const char *key, double *out)
{
    real(said(p, key), out);
}

void said_words(const struct link_progress *p, const char *key, char *to, size_t size)
{
    const char *text = said(p, key);
    if (!text)
        return;
    size_t n = strnlen(text, size - 1);
    while (n > 0 && n == size - 1 && ((unsigned char)text[n] & 0xC0) == 0x80)
        n--; /* never half a UTF-8 letter */
    memcpy(to, text, n);
    to[n] = '\0';
}

/* ---- lost time ---- */

static void lose(int64_t *of_attempt, int64_t *of_job, int64_t ms)
{
    if (ms <= 0)
        return;
    *of_attempt += ms;
    *of_job += ms;
}

#define LOSE(a, what, ms) lose(&(a)->r.lost.what, &(a)->job->r.lost.what, ms)

/* The attempt before, when the time since its end counts as lost. */
static const struct attempt *lost_before(const struct attempt *a)
{
    const struct job *job = a->job;
    size_t i = 0;
    while (i < job->n_attempts && job->attempts[i] != a)
        i++;
    const struct attempt *before = i > 0 ? job->attempts[i - 1] : NULL;
    if (!before || job->r.started_ms == 0 || before->r.ended_ms < job->r.started_ms)
        return NULL;
    bool counts = before->r.outcome == OUTCOME_FAILED || before->r.outcome == OUTCOME_NODE ||
                  before->r.outcome == OUTCOME_DRAINED || before->r.outcome == OUTCOME_RESIZED;
    return counts ? before : NULL;
}

/* Did it end without the last word of some node? Then that node was down. */
static bool ended_by_down(const struct attempt *a)
{
    for (size_t i = 0; i < a->r.n_nodes; i++) {
        enum report_phase phase = a->r.nodes[i].report.phase;
        if (!a->r.nodes[i].reported ||
            (phase != REPORT_GONE && phase != REPORT_REFUSED && phase != REPORT_LOST))
            return true;
    }
    return false;
}

/* From the death of the first failing rank, or the last sign of life of its node, to when it was noticed. */
static int64_t detect_ms(const struct core *core, const struct attempt *a)
{
    struct attempt_facts f = attempt_gather(a);
    int64_t ms = 0, longest = a->r.failed_ms - a->r.created_ms;
    if (a->r.outcome == OUTCOME_NODE && ended_by_down(a))
        ms = core->config.down_after_ms;
    else if (a->r.outcome == OUTCOME_FAILED && f.fault_rank && f.fault_rank->ended_ms > 0)
        ms = a->r.failed_ms - f.fault_rank->ended_ms;
    return ms < 0 ? 0 : ms < longest ? ms : longest; /* clocks of nodes may differ */
}

void lost_carry(struct core *core, struct attempt *a)
{
    const struct attempt *before = lost_before(a);
    if (!before)
        return;
    LOSE(a, detect, detect_ms(core, before));
    LOSE(a, stop, before->r.ended_ms - before->r.failed_ms);
}

void lost_at_go(struct core *core, struct attempt *a)
{
    const struct attempt *before = lost_before(a);
    if (before)
        LOSE(a, place, core->t.now_ms - before->r.ended_ms);
}

static int64_t began_ms(const struct attempt *a)
{
    return a->go_ms ? a->go_ms : a->r.running_ms ? a->r.running_ms : a->r.created_ms;
}

void lost_at_stop(struct core *core, struct attempt *a)
{
    const struct attempt *before = lost_before(a);
    if (!before || a->r.to_step >= 0)
        return;
    if (a->go_ms || a->r.running_ms)
        LOSE(a, load, core->t.now_ms - began_ms(a));
    else
        LOSE(a, place, core->t.now_ms - before->r.ended_ms);
}

/* ---- steps ---- */

/* It was made for the newest checkpoint in storage. Its first step tells whether what was in memory then could be used. */
static void settle_memory(struct attempt *a, int64_t step)
{
    int64_t *held = &a->job->r.progress.memory_step;
    if (a->memory_step > a->r.from_step && a->memory_step < step)
        a->r.from_step = a->memory_step;
    else if (*held >= step)
        *held = -1;
}

static void first_step(struct core *core, struct attempt *a, int64_t step)
{
    settle_memory(a, step);
    if (a->r.from_step < 0 || a->r.from_step >= step)
        a->r.from_step = step > 0 ? step - 1 : 0;
    if (lost_before(a))
        LOSE(a, load, core->t.now_ms - began_ms(a));
    mark_attempt(core, a);
    mark_job(core, a->job);
}

static void account(struct core *core, struct attempt *a, int64_t step)
{
    int64_t since = a->last_step_ms ? a->last_step_ms : a->job->r.progress.updated_ms;
    int64_t ms = core->t.now_ms - since;
    if (step > a->job->high_step) {
        a->job->r.productive_ms += ms > 0 ? ms : 0;
        return;
    }
    LOSE(a, replay, ms);
    mark_attempt(core, a);
    mark_job(core, a->job);
}

static void take_step(struct core *core, struct attempt *a, int64_t step)
{
    if (step <= a->r.to_step)
        return;                                   /* repeated or late */
    bool closed = a->r.state == ATTEMPT_STOPPING; /* its time is booked up to when it began to stop */
    if (!closed && a->r.to_step < 0)
        first_step(core, a, step);
    else if (!closed)
        account(core, a, step);
    a->last_step_ms = core->t.now_ms;
    a->r.to_step = step;
    a->job->r.progress.step = step;
    if (step > a->job->high_step)
        a->job->high_step = step;
}

static void take_words(struct core *core, struct attempt *a, const struct link_progress *p)
{
    struct job_progress *to = &a->job->r.progress;
    int64_t n = 0;
    if (said_whole(p, "STEP", &n))
        take_step(core, a, n);
    if (said_whole(p, "STEPS", &n))
        to->steps = n;
    real(said(p, "LOSS"), &to->loss);
    real(said(p, "TOKENS_PER_SECOND"), &to->tokens_per_second);
    real(said(p, "MFU"), &to->mfu);
    said_words(p, "PHASE", to->phase, sizeof(to->phase));
    said_words(p, "STATUS", to->status, sizeof(to->status));
    to->updated_ms = core->t.now_ms;
}

static bool is_speaker(struct attempt *a, const struct link_progress *p)
{
    bool steps = said(p, "STEP") != NULL;
    if (steps && (a->speaker < 0 || p->rank < a->speaker))
        a->speaker = p->rank;
    return a->speaker < 0 ? p->rank == 0 : p->rank == a->speaker;
}

/* ---- what came in ---- */

void core_node_progress(struct core *core, struct core_time t, const char *name,
                        const struct link_progress *p)
{
    core->t = t;
    struct job *job = job_find(core, p->job);
    struct attempt *a = job ? job->current : NULL;
    if (!a || a->r.number != p->attempt || a->r.state == ATTEMPT_PREPARING || p->rank < 0 ||
        (size_t)p->rank >= a->r.world || strcmp(a->r.placement[p->rank].node, name) != 0)
        return; /* of an attempt that does not count any more */
    if (is_speaker(a, p))
        take_words(core, a, p);
    announced_take(core, a, p);
    mark_job_progress(core, job);
}
