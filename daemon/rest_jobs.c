/* rest_jobs: submitting, listing, looking at and acting on jobs.
 *
 * A submitted job file is read again here, whatever the launcher has checked: nobody is trusted. What is stored is the
 * completed form that job_spec_to_yaml prints. */
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/mem.h"
#include "daemon/exchange.h"
#include "daemon/rest_jobfile.h"
#include "daemon/view.h"

#define KEY_MAX  128
#define PATH_LEN 4096

/* ---- POST /v1/jobs ---- */

struct submission {
    const char *cwd, *key;
};

static int read_submission(const json_t *body, struct submission *s, struct err *err)
{
    s->key = jsonx_str_or(body, "key", NULL);
    if (jsonx_str(body, "cwd", &s->cwd, err) != 0)
        return -1;
    if (s->cwd[0] != '/' || strlen(s->cwd) >= PATH_LEN)
        return err_set(err, "\"cwd\" must be an absolute path of less than %d bytes", PATH_LEN);
    if (s->key && (!s->key[0] || strlen(s->key) > KEY_MAX))
        return err_set(err, "\"key\" must have 1 to %d bytes", KEY_MAX);
    return 0;
}

static void submit_spec(struct exchange *x, const struct submission *s, struct job_spec *spec)
{
    struct core_submit request = {
        .key = s->key, .user = x->user, .cwd = s->cwd, .uid = x->uid, .gid = x->gid, .spec = spec};
    enum core_refusal why = CORE_OK;
    struct err err = {0};
    if (core_submit(turn_core(x->turn), turn_time(), &request, &x->id, &why, &err) != 0) {
        job_spec_free(spec);
        exchange_refuse_core(x, why, &err);
    }
}

static void submit(struct exchange *x)
{
    struct submission s = {0};
    struct err err = {0};
    struct job_spec *spec = rest_jobfile_read(x, false);
    if (!spec)
        return;
    if (read_submission(x->body, &s, &err) == 0) {
        submit_spec(x, &s, spec);
        return;
    }
    job_spec_free(spec);
    exchange_refuse(x, 400, "%s", err.text);
}

static enum exchange_next render_submitted(struct exchange *x)
{
    x->status = 201;
    x->reply = json_pack("{s:I}", "id", (json_int_t)x->id);
    return EXCHANGE_ANSWER;
}

/* ---- reading ---- */

/* The job, or NULL after a 404. */
static const struct job_record *find_job(struct exchange *x)
{
    const struct job_record *job = core_job(turn_core(x->turn), x->id);
    if (!job)
        exchange_refuse(x, 404, "there is no job %lld; belay status lists them", (long long)x->id);
    return job;
}

struct listing {
    struct exchange *x;
    int64_t now_ms;
    int state; /* -1 = any */
};

static bool list_job(void *ctx, const struct job_record *job)
{
    struct listing *l = ctx;
    if (l->state < 0 || (int)job->state == l->state)
        json_array_append_new(l->x->reply, view_job(turn_core(l->x->turn), job, l->now_ms));
    return true;
}

static enum exchange_next render_jobs(struct exchange *x)
{
    const char *state = exchange_query(x, "state");
    struct listing l = {.x = x, .now_ms = turn_time().now_ms, .state = state ? job_state_parse(state) : -1};
    if (state && l.state < 0) {
        exchange_refuse(x, 400, "\"%.40s\" is no state of a job", state);
        return EXCHANGE_ANSWER;
    }
    x->reply = json_array();
    core_each_job(turn_core(x->turn), list_job, &l);
    return EXCHANGE_ANSWER;
}

static enum exchange_next render_job(struct exchange *x)
{
    const struct job_record *job = find_job(x);
    x->wait_for = exchange_query_int(x, "rev", 0, INT64_MAX, -1);
    int64_t wait = exchange_query_int(x, "wait", 0, INT64_MAX, 0);
    if (x->status || !job)
        return EXCHANGE_ANSWER;
    if (job->rev == x->wait_for && wait > 0 && !x->waited_enough)
        return EXCHANGE_WAIT;
    x->reply = view_job(turn_core(x->turn), job, turn_time().now_ms);
    return EXCHANGE_ANSWER;
}

static bool job_wakes(const struct exchange *x, const struct core_changes *changes)
{
    const struct job_record *job;
    if (changes->n_jobs == 0)
        return false;
    job = core_job(turn_core(x->turn), x->id);
    return !job || job->rev != x->wait_for;
}

static enum exchange_next render_attempts(struct exchange *x)
{
    const struct job_record *job = find_job(x);
    if (!job)
        return EXCHANGE_ANSWER;
    x->reply = json_array();
    for (int64_t number = 1; number <= job->attempt; number++) {
        const struct attempt_record *attempt = core_attempt(turn_core(x->turn), job->id, number);
        if (attempt)
            json_array_append_new(x->reply, view_attempt(attempt));
    }
    return EXCHANGE_ANSWER;
}

struct checkpoint_listing {
    struct checkpoint_record *list;
    char **paths; /* owns them; the list is sorted and cut */
    size_t n;
};

static void list_checkpoint(void *ctx, const struct checkpoint_record *checkpoint)
{
    struct checkpoint_listing *l = ctx;
    l->list = mem_grow(l->list, l->n + 1, sizeof(*l->list));
    l->list[l->n] = *checkpoint;
    l->paths = mem_grow(l->paths, l->n + 1, sizeof(*l->paths));
    l->list[l->n].path = l->paths[l->n] = str_dup(checkpoint->path);
    l->n++;
}

static json_t *kept_checkpoints(struct exchange *x, const struct job_record *job,
                                struct checkpoint_listing *l)
{
    json_t *array = json_array();
    size_t n = core_checkpoints_kept(turn_core(x->turn), job->id, l->list, l->n);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(array, view_checkpoint(job, &l->list[i]));
    return array;
}

static enum exchange_next render_checkpoints(struct exchange *x)
{
    const struct job_record *job = find_job(x);
    struct checkpoint_listing l = {0};
    struct err err = {0};
    if (job && store_checkpoints(turn_store(x->turn), job->id, list_checkpoint, &l, &err) != 0)
        exchange_refuse(x, 503, "%s", err.text);
    else if (job)
        x->reply = kept_checkpoints(x, job, &l);
    for (size_t i = 0; i < l.n; i++)
        free(l.paths[i]);
    free(l.paths);
    free(l.list);
    return EXCHANGE_ANSWER;
}

/* ---- acting ---- */

static void act(struct exchange *x, enum core_job_verb verb, const char *what)
{
    const struct job_record *job = find_job(x);
    enum core_refusal why = CORE_OK;
    struct err err = {0};
    if (!job)
        return;
    if (exchange_owner_only(x, job, what) &&
        core_job_request(turn_core(x->turn), turn_time(), x->id, verb, x->user, &why, &err) != 0)
        exchange_refuse_core(x, why, &err);
}

static void cancel(struct exchange *x)
{
    bool save = json_is_true(json_object_get(x->body, "checkpoint"));
    act(x, save ? CORE_CANCEL_SAVED : CORE_CANCEL, "cancel it");
}

static void hold(struct exchange *x)
{
    act(x, CORE_HOLD, "hold it");
}

static void release(struct exchange *x)
{
    act(x, CORE_RELEASE, "release it");
}

static void requeue(struct exchange *x)
{
    act(x, CORE_REQUEUE, "requeue it");
}

static enum exchange_next render_acted(struct exchange *x)
{
    const struct job_record *job = find_job(x);
    if (job)
        x->reply = json_pack("{s:I,s:s}", "id", (json_int_t)job->id, "state", job_state_name(job->state));
    return EXCHANGE_ANSWER;
}

static void ask_checkpoint(struct exchange *x)
{
    const struct job_record *job = find_job(x);
    enum core_refusal why = CORE_OK;
    struct err err = {0};
    if (!job)
        return;
    if (exchange_owner_only(x, job, "ask it for a checkpoint") &&
        core_checkpoint(turn_core(x->turn), turn_time(), x->id, x->user, &x->wait_for, &why, &err) != 0)
        exchange_refuse_core(x, why, &err);
}

static enum exchange_next render_asked(struct exchange *x)
{
    const struct attempt_record *a = core_attempt(turn_core(x->turn), x->id, 0);
    if (a)
        x->reply = json_pack("{s:I,s:I,s:I}", "id", (json_int_t)x->id, "attempt", (json_int_t)a->number,
                             "request", (json_int_t)x->wait_for);
    return EXCHANGE_ANSWER;
}

const struct route rest_job_routes[] = {
    {EVHTTP_REQ_POST, "/v1/jobs", submit, render_submitted, NULL},
    {EVHTTP_REQ_GET, "/v1/jobs", NULL, render_jobs, NULL},
    {EVHTTP_REQ_GET, "/v1/jobs/#", NULL, render_job, job_wakes},
    {EVHTTP_REQ_GET, "/v1/jobs/#/attempts", NULL, render_attempts, NULL},
    {EVHTTP_REQ_GET, "/v1/jobs/#/checkpoints", NULL, render_checkpoints, NULL},
    {EVHTTP_REQ_POST, "/v1/jobs/#/checkpoint", ask_checkpoint, render_asked, NULL},
    {EVHTTP_REQ_POST, "/v1/jobs/#/cancel", cancel, render_acted, NULL},
    {EVHTTP_REQ_POST, "/v1/jobs/#/hold", hold, render_acted, NULL},
    {EVHTTP_REQ_POST, "/v1/jobs/#/release", release, render_acted, NULL},
    {EVHTTP_REQ_POST, "/v1/jobs/#/requeue", requeue, render_acted, NULL},
    {EVHTTP_REQ_GET, NULL, NULL, NULL, NULL},
};
