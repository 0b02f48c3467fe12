/* uploader: see uploader.h. One task at a time; the main thread starts the next when it looks, so nothing is shared but what a task is given. */
#include "runtime/uploader.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "checkpoint/shelf.h"
#include "checkpoint/upload.h"
#include "common/clock.h"
#include "common/mem.h"
#include "runtime/signals.h"
#include "runtime/task.h"

#define LOOK_MS 20 /* between two looks while waiting */
#define NICE    10 /* of the thread that uploads */

struct uploader {
    const char *directory;
    struct upload *upload;
    struct objects_watch watch;
    void (*tell)(void *ctx, const struct uploader_result *result);
    void *ctx;
    int64_t waiting; /* a step, 0 = none */
    bool busy;       /* with the following: */
    struct task task;
    int64_t step;
    double start;
    unsigned long long sent_before, retries_before;
    enum objects_result rc;
    struct err err;
};

static struct upload_spec upload_spec_of(const struct job_spec *s)
{
    return (struct upload_spec){.url = s->checkpoint.upload.url,
                                .endpoint = s->checkpoint.upload.endpoint,
                                .region = s->checkpoint.upload.region,
                                .part = (uint64_t)s->checkpoint.upload.part,
                                .keep = s->checkpoint.upload.keep};
}

struct uploader *uploader_new(const struct job_spec *spec, const struct objects_limits *limits,
                              void (*tell)(void *ctx, const struct uploader_result *result), void *ctx,
                              struct err *err)
{
    struct upload_spec what = upload_spec_of(spec);
    struct uploader *u = mem_zero(1, sizeof *u);
    u->directory = spec->checkpoint.directory;
    u->tell = tell;
    u->ctx = ctx;
    u->upload = upload_open(&what, limits, &u->watch, err);
    if (u->upload)
        return u;
    free(u);
    return NULL;
}

/* ---- one upload ---- */

/* Hashing what is sent takes a core for some seconds a GiB: on processors that train, training goes first. */
static void work(void *owner)
{
    struct uploader *u = owner;
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* without it, it is only less polite */
    char *folder = shelf_path(u->directory, u->step);
    u->rc = upload_folder(u->upload, folder, &u->err);
    free(folder);
}

static void begin(struct uploader *u)
{
    u->step = u->waiting;
    u->waiting = 0;
    u->busy = true;
    u->start = clock_monotonic_s();
    u->sent_before = u->watch.sent;
    u->retries_before = u->watch.retries;
    task_start(&u->task, work, u);
}

static bool is_on_shelf(const struct uploader *u)
{
    char *folder = shelf_path(u->directory, u->step);
    bool there = access(folder, F_OK) == 0;
    free(folder);
    return there;
}

static void tell_end(struct uploader *u)
{
    struct uploader_result r = {.step = u->step,
                                .end = UPLOADER_DONE,
                                .sent = u->watch.sent - u->sent_before,
                                .seconds = clock_monotonic_s() - u->start};
    if (u->rc != OBJECTS_OK) {
        r.end = is_on_shelf(u) ? UPLOADER_FAILED : UPLOADER_GONE;
        if (r.end == UPLOADER_GONE)
            err_prefix(&u->err, "it was removed from checkpoint.directory before it was uploaded; raise "
                                "checkpoint.keep, or see what held it up");
        r.why = u->err.text;
    }
    u->tell(u->ctx, &r);
}

/* What fails is known in full only when the upload under way gives up, minutes later. */
static void tell_overtaken(struct uploader *u, int64_t step)
{
    bool failing = u->busy && u->watch.retries > u->retries_before;
    struct uploader_result r = {
        .step = step,
        .end = UPLOADER_OVERTAKEN,
        .why = failing
                   ? "a newer one came before it was its turn: requests of the upload before it fail and are "
                     "tried again; see that the server of checkpoint.upload can be reached and is well"
                   : "a newer one came before it was its turn; the bucket is slower than checkpoint.every"};
    u->tell(u->ctx, &r);
}

/* ---- the queue ---- */

int64_t uploader_step(const struct uploader *u)
{
    return u && u->busy ? u->step : 0;
}

void uploader_poll(struct uploader *u)
{
    if (!u)
        return;
    if (u->busy && task_done(&u->task)) {
        task_join(&u->task);
        u->busy = false;
        tell_end(u);
    }
    if (!u->busy && u->waiting > 0)
        begin(u);
}

void uploader_add(struct uploader *u, int64_t step)
{
    int64_t overtaken = u->waiting;
    u->waiting = step;
    if (overtaken > 0 && overtaken != step)
        tell_overtaken(u, overtaken);
    uploader_poll(u);
}

bool uploader_wait(struct uploader *u, int64_t limit_ms, bool stoppable)
{
    int64_t end = clock_boot_ms() + limit_ms;
    uploader_poll(u);
    while (u && (u->busy || u->waiting > 0)) {
        if (clock_boot_ms() >= end || (stoppable && signals_stop()))
            return false;
        (void)poll(NULL, 0, LOOK_MS);
        uploader_poll(u);
    }
    return true;
}

void uploader_free(struct uploader *u)
{
    if (!u)
        return;
    u->watch.cancel = true;
    task_join(&u->task);
    upload_close(u->upload);
    free(u);
}

/* ---- the way back ---- */

struct fetching {
    const struct job_spec *spec;
    const struct objects_limits *limits;
    int64_t attempt, step;
    struct objects_watch watch;
    enum objects_result rc;
    struct err err;
};

/* As resume_run goes by checkpoint.resume: a step or never is meant for the first attempt. */
static void fetch(void *owner)
{
    struct fetching *f = owner;
    struct upload_spec what = upload_spec_of(f->spec);
    const char *directory = f->spec->checkpoint.directory;
    int64_t rule = f->attempt > 1 ? JOB_RESUME_AUTO : f->spec->checkpoint.resume;
    struct upload *u = upload_open(&what, f->limits, &f->watch, &f->err);
    f->rc = OBJECTS_ERROR;
    if (u && rule == JOB_RESUME_AUTO) {
        f->rc = upload_fetch_newest(u, directory, f->attempt, &f->step, &f->err);
    } else if (u) {
        f->rc = upload_download(u, rule, directory, f->attempt, &f->err);
        f->step = f->rc == OBJECTS_OK ? rule : 0;
    }
    upload_close(u);
}

/* Is there anything to bring, and a place that needs it? -1 with a sentence. */
static int is_wanted(const struct job_spec *s, int64_t attempt, struct err *err)
{
    int64_t rule = s->checkpoint.resume;
    if (!s->checkpoint.upload.url || (attempt <= 1 && (rule == JOB_RESUME_NEVER || rule == 0)))
        return 0;
    int64_t *steps, count = shelf_list(s->checkpoint.directory, &steps, err);
    free(steps);
    return count < 0 ? -1 : count == 0;
}

int uploader_fetch(const struct job_spec *spec, const struct objects_limits *limits, int64_t attempt,
                   int64_t *step, struct err *err)
{
    *step = 0;
    int wanted = is_wanted(spec, attempt, err);
    if (wanted <= 0)
        return wanted;
    struct fetching *f = mem_zero(1, sizeof *f);
    struct task task = {.running = false};
    f->spec = spec;
    f->limits = limits;
    f->attempt = attempt;
    task_start(&task, fetch, f);
    while (!task_done(&task)) {
        f->watch.cancel = signals_stop();
        (void)poll(NULL, 0, LOOK_MS);
    }
    task_join(&task);
    bool fine = f->rc == OBJECTS_OK || f->rc == OBJECTS_ABSENT;
    *step = f->step;
    if (!fine)
        err_set(err, "the checkpoint to go on from cannot be brought from %s: %s",
                spec->checkpoint.upload.url, f->err.text);
    free(f);
    return fine ? 0 : -1;
}
