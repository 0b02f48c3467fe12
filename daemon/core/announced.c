/* announced: what ranks say of checkpoints (docs/protocols.md, section 4), tier by tier.
 *
 * A checkpoint in storage is a row and an event. One that was uploaded is an event. What is held in memory, perhaps after every step, is
 * only the newest number. A save that fails is told once for each reason in a row, and the next that succeeds says how many there were. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "daemon/core/core_private.h"
#include "daemon/core/directory.h"

static void note(struct core *core, const struct attempt *a, const char *kind, const char *text)
{
    struct event_of of = {.kind = kind, .job = a->r.job, .attempt = a->r.number, .rank = -1};
    event_note(core, of, "%s", text);
}

/* ---- tiers ---- */

static const struct {
    const char *name, *failed, *done, *kind;
} tiers[CHECKPOINT_TIERS] = {
    [TIER_STORAGE] = {"storage", "cannot be saved", "is durable", "checkpoint"},
    [TIER_UPLOAD] = {"upload", "cannot be uploaded", "is uploaded", "checkpoint_uploaded"},
    [TIER_MEMORY] = {"memory", "cannot be held in memory", "is held in memory", "checkpoint_held"},
};

/* CHECKPOINT_TIERS for a name that is none. */
static enum checkpoint_tier tier_of(const struct link_progress *p)
{
    const char *name = said(p, "CHECKPOINT_TIER");
    enum checkpoint_tier tier = TIER_STORAGE;
    while (name && tier < CHECKPOINT_TIERS && strcmp(tiers[tier].name, name) != 0)
        tier++;
    return tier;
}

/* ---- failures ---- */

static void take_failure(struct core *core, struct attempt *a, enum checkpoint_tier tier, int64_t step,
                         const char *why)
{
    struct checkpoint_trouble *t = &a->job->r.progress.trouble[tier];
    bool told = t->count > 0 && strcmp(t->why, why) == 0;
    t->count++;
    t->step = step;
    memcpy(t->why, why, sizeof(t->why));
    if (told)
        return;
    struct err text;
    err_set(&text, "the checkpoint of step %" PRId64 " %s: %s; the job goes on", step, tiers[tier].failed,
            why);
    note(core, a, "checkpoint_failed", text.text);
}

static void tell_success(struct core *core, struct attempt *a, enum checkpoint_tier tier, int64_t step)
{
    struct checkpoint_trouble *t = &a->job->r.progress.trouble[tier];
    struct err text;
    if (t->count > 0)
        err_set(&text, "checkpoint of step %" PRId64 " %s: it works again, after %" PRId64 " that failed",
                step, tiers[tier].done, t->count);
    else
        err_set(&text, "checkpoint of step %" PRId64 " %s", step, tiers[tier].done);
    *t = (struct checkpoint_trouble){.count = 0};
    note(core, a, tiers[tier].kind, text.text);
}

/* ---- paths to resume from ---- */

static void record_free(struct checkpoint_record *c)
{
    free(c->path);
}

/* The same path again replaces what it was before. */
static void forget_path(struct job *job, size_t i)
{
    record_free(&job->resumable[i]);
    memmove(&job->resumable[i], &job->resumable[i + 1], (--job->n_resumable - i) * sizeof(*job->resumable));
}

static void remember_path(struct job *job, const struct checkpoint_record *c)
{
    if (!c->path)
        return;
    if (!job->resumable)
        job->resumable = mem_zero(ANNOUNCED_PATHS_MAX + 1, sizeof(*job->resumable));
    for (size_t i = job->n_resumable; i > 0; i--)
        if (strcmp(job->resumable[i - 1].path, c->path) == 0)
            forget_path(job, i - 1);
    size_t at = job->n_resumable;
    while (at > 0 && job->resumable[at - 1].time_ms > c->time_ms)
        at--;
    memmove(&job->resumable[at + 1], &job->resumable[at], (job->n_resumable++ - at) * sizeof(*c));
    job->resumable[at] = *c;
    job->resumable[at].path = str_dup(c->path);
    if (job->n_resumable > ANNOUNCED_PATHS_MAX)
        forget_path(job, 0);
}

size_t announced_paths(const struct attempt *a, const char *paths[ANNOUNCED_PATHS_MAX])
{
    const struct job *job = a->job;
    size_t n = 0;
    for (size_t i = job->n_resumable; i > 0; i--)
        if (job->resumable[i - 1].attempt < a->r.number)
            paths[n++] = job->resumable[i - 1].path;
    return n;
}

void announced_free(struct job *job)
{
    while (job->n_resumable > 0)
        forget_path(job, job->n_resumable - 1);
    free(job->resumable);
}

/* ---- durable ones ---- */

static void count_save(struct job *job, int64_t durable_ms)
{
    if (durable_ms > job->longest_save_ms)
        job->longest_save_ms = durable_ms;
}

/* How long training waited for the copy stands beside the news, or came with the news of the copy. */
static int64_t staged_ms(const struct attempt *a, const struct link_progress *p, int64_t step)
{
    int64_t ms = a->staged_step == step ? a->staged_ms : -1;
    (void)said_whole(p, "CHECKPOINT_STAGED_MS", &ms);
    return ms;
}

static struct checkpoint_record make_record(const struct core *core, const struct attempt *a,
                                            const struct link_progress *p, int64_t step)
{
    struct checkpoint_record c = {.job = a->r.job, .step = step, .attempt = a->r.number};
    c.time_ms = core->t.now_ms;
    c.bytes = a->job->r.progress.checkpoint_bytes;
    c.staged_ms = staged_ms(a, p, step);
    c.durable_ms = -1;
    (void)said_whole(p, "CHECKPOINT_DURABLE_MS", &c.durable_ms);
    c.held_loss = NAN;
    said_real(p, "CHECKPOINT_LOSS", &c.held_loss);
    if (said(p, "PATH") && said(p, "PATH")[0])
        c.path = directory_absolute(a->job->r.cwd, said(p, "PATH"));
    return c;
}

static void take_durable(struct core *core, struct attempt *a, const struct link_progress *p, int64_t step)
{
    struct job *job = a->job;
    struct job_progress *to = &job->r.progress;
    int64_t bytes = 0;
    if (said_whole(p, "CHECKPOINT_BYTES", &bytes) && bytes > 0)
        to->checkpoint_bytes = bytes;
    if (step == a->last_durable)
        return;
    a->last_durable = step;
    a->advanced = a->advanced || step > job->high_checkpoint;
    if (step > job->high_checkpoint)
        job->high_checkpoint = step;
    to->checkpoint_step = step;
    to->checkpoint_ms = core->t.now_ms;
    struct checkpoint_record c = make_record(core, a, p, step);
    count_save(job, c.durable_ms);
    remember_path(job, &c);
    checkpoint_add(core, &c);
    record_free(&c);
    mark_job(core, job);
    mark_attempt(core, a);
    tell_success(core, a, TIER_STORAGE, step);
    saving_durable(core, a, step);
    job_rearm(core, job); /* a longer save means an earlier one before the time limit */
}

static void take_upload(struct core *core, struct attempt *a, int64_t step)
{
    struct job_progress *to = &a->job->r.progress;
    if (step == to->upload_step)
        return;
    to->upload_step = step;
    to->upload_ms = core->t.now_ms;
    mark_job(core, a->job);
    tell_success(core, a, TIER_UPLOAD, step);
}

void core_load_checkpoint(struct core *core, const struct checkpoint_record *c)
{
    struct job *job = job_find(core, c->job);
    struct attempt *a = job ? attempt_find(job, c->attempt) : NULL;
    if (!job)
        return;
    if (a) {
        a->advanced = a->advanced || c->step > job->high_checkpoint;
        a->last_durable = c->step > a->last_durable ? c->step : a->last_durable;
    }
    if (c->step > job->high_checkpoint)
        job->high_checkpoint = c->step;
    count_save(job, c->durable_ms);
    remember_path(job, c);
}

/* ---- what came in ---- */

static void take_failed(struct core *core, struct attempt *a, const struct link_progress *p,
                        enum checkpoint_tier tier)
{
    int64_t step = 0;
    char why[sizeof(((struct checkpoint_trouble *)0)->why)] = "no reason given (CHECKPOINT_WHY)";
    if (!said_whole(p, "CHECKPOINT_FAILED", &step))
        return;
    said_words(p, "CHECKPOINT_WHY", why, sizeof(why));
    take_failure(core, a, tier, step, why);
    if (tier == TIER_STORAGE)
        saving_failed(core, a, step, why);
}

static void take_memory(const struct core *core, struct attempt *a, int64_t step)
{
    struct job_progress *to = &a->job->r.progress;
    to->memory_step = step;
    to->memory_ms = core->t.now_ms;
    to->trouble[TIER_MEMORY] = (struct checkpoint_trouble){.count = 0};
}

/* Copies: of the save that is under way, and those held in memory (of which a shim sends on only the newest). */
static void take_copies(struct core *core, struct attempt *a, const struct link_progress *p)
{
    struct job_progress *to = &a->job->r.progress;
    if (said_whole(p, "CHECKPOINT_STAGED", &to->staged_step)) {
        a->staged_step = to->staged_step;
        a->staged_ms = -1;
        (void)said_whole(p, "CHECKPOINT_STAGED_MS", &a->staged_ms);
    }
    if (said_whole(p, "MEMORY_CHECKPOINT", &to->memory_step))
        take_memory(core, a, to->memory_step);
}

void announced_take(struct core *core, struct attempt *a, const struct link_progress *p)
{
    enum checkpoint_tier tier = tier_of(p);
    int64_t step = 0;
    if (said(p, "CHECKPOINT_ON") && !a->r.checkpoint_on) {
        a->r.checkpoint_on = true;
        mark_attempt(core, a);
        job_rearm(core, a->job); /* it may be asked before its time limit */
    }
    said_words(p, "CHECKPOINT_INTERVAL", a->job->r.progress.interval, sizeof(a->job->r.progress.interval));
    take_copies(core, a, p);
    if (tier == CHECKPOINT_TIERS)
        return;
    if (said_whole(p, "CHECKPOINT_DURABLE", &step)) {
        if (tier == TIER_STORAGE)
            take_durable(core, a, p, step);
        else if (tier == TIER_UPLOAD)
            take_upload(core, a, step);
        else
            take_memory(core, a, step);
    }
    take_failed(core, a, p, tier);
}
