/* attempts: a table that converges to the desired set.
 *
 * After every change each entry is looked at once more by tend(): not wanted → killed; final, acknowledged and not wanted → forgotten.
 * Until a controller has said what it wants, nothing is killed and nothing forgotten. Looking again never harms. */
#include "agent/attempts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/attempt.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"

#define RESEND_MS 2000 /* an unacknowledged report is said again after this */

struct entry {
    struct attempt *attempt;
    bool wanted;
    int64_t acked_rev; /* -1 = none */
    int64_t told_ms;
    struct entry *next;
};

struct attempts {
    struct attempts_config config;
    struct attempt_env env;
    struct entry *first;
    int64_t *keep; /* (n_keep) jobs whose ended attempts hold memory for the next */
    size_t n_keep;
    bool told;               /* a desired set has come */
    const char *kill_reason; /* attempts_kill_all was called */
    bool idle_said;
    struct event *tend, *resend;
};

static struct entry *find(const struct attempts *t, int64_t job, int64_t attempt)
{
    for (struct entry *e = t->first; e; e = e->next) {
        struct folder_id id = attempt_id(e->attempt);
        if (id.job == job && id.attempt == attempt)
            return e;
    }
    return NULL;
}

static struct entry *entry_of(const struct attempts *t, const struct attempt *a)
{
    struct entry *e = t->first;
    while (e && e->attempt != a)
        e = e->next;
    return e;
}

static bool acked(const struct entry *e)
{
    return e->acked_rev >= attempt_report(e->attempt)->rev;
}

static void tell(struct attempts *t, struct entry *e)
{
    const struct link_report *report = attempt_report(e->attempt);
    if (report->rev > 0 && !acked(e) && t->config.report(t->config.ctx, report))
        e->told_ms = clock_boot_ms();
}

/* ---- what is kept for the next attempt of a job ---- */

static bool is_kept(const struct attempts *t, int64_t job)
{
    size_t i = 0;
    while (i < t->n_keep && t->keep[i] != job)
        i++;
    return i < t->n_keep;
}

/* Its shim has taken over what those before it hold: it does so before it is ready, and ranks run after that. */
static bool has_taken_over(const struct link_report *r)
{
    bool ran = false;
    for (size_t i = 0; i < r->n_ranks; i++)
        ran = ran || r->ranks[i].started_ms > 0;
    return r->phase == REPORT_READY || r->phase == REPORT_RUNNING || r->phase == REPORT_STOPPING || ran;
}

static bool is_superseded(const struct attempts *t, struct folder_id id)
{
    for (const struct entry *e = t->first; e; e = e->next) {
        struct folder_id other = attempt_id(e->attempt);
        if (other.job == id.job && other.attempt > id.attempt && has_taken_over(attempt_report(e->attempt)))
            return true;
    }
    return false;
}

/* Everything of it is over but for its shim, which holds memory for the next attempt. */
static bool holds_memory(const struct attempts *t, const struct attempt *a)
{
    struct folder_id id = attempt_id(a);
    return attempt_report(a)->phase == REPORT_GONE && attempt_shim_pid(a) > 0 && is_kept(t, id.job) &&
           !is_superseded(t, id);
}

/* ---- looking after all entries, from the loop only: here attempts are freed ---- */

static void tend_entry(struct attempts *t, struct entry *e)
{
    struct attempt *a = e->attempt;
    if (t->kill_reason) {
        attempt_unwanted(a, t->kill_reason);
        if (attempt_final(a))
            attempt_forget(a, !acked(e) || e->wanted);
    } else if (t->told && !e->wanted) {
        attempt_unwanted(a, "the controller does not want it on this node");
        if (attempt_final(a) && acked(e) && !holds_memory(t, a))
            attempt_forget(a, false);
    }
}

static void free_removed(struct attempts *t)
{
    for (struct entry **at = &t->first; *at;) {
        struct entry *e = *at;
        if (!attempt_removed(e->attempt)) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        attempt_free(e->attempt);
        free(e);
    }
}

static void on_tend(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct attempts *t = ctx;
    for (struct entry *e = t->first; e; e = e->next)
        tend_entry(t, e);
    free_removed(t);
    if (t->kill_reason && !t->first && !t->idle_said) {
        t->idle_said = true;
        t->config.idle(t->config.ctx);
    }
}

static void tend_soon(struct attempts *t)
{
    event_active(t->tend, EV_TIMEOUT, 0);
}

static void on_resend(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct attempts *t = ctx;
    int64_t now_ms = clock_boot_ms();
    for (struct entry *e = t->first; e; e = e->next)
        if (now_ms - e->told_ms >= RESEND_MS)
            tell(t, e);
}

/* ---- what attempts say ---- */

static void on_reported(void *ctx, struct attempt *a)
{
    struct attempts *t = ctx;
    struct entry *e = entry_of(t, a);
    if (e) /* else it is being made: told by add() */
        tell(t, e);
    tend_soon(t);
}

static void on_progress(void *ctx, const struct link_progress *progress)
{
    struct attempts *t = ctx;
    t->config.progress(t->config.ctx, progress);
}

static void on_ended(void *ctx, struct attempt *a)
{
    (void)a;
    tend_soon(ctx);
}

static bool on_is_shim(void *ctx, pid_t pid)
{
    struct attempts *t = ctx;
    for (struct entry *e = t->first; e; e = e->next)
        if (attempt_shim_pid(e->attempt) == pid)
            return true;
    return false;
}

static struct entry *add(struct attempts *t, struct attempt *a)
{
    struct entry *e = mem_zero(1, sizeof *e);
    e->attempt = a;
    e->acked_rev = -1;
    e->next = t->first;
    t->first = e;
    tell(t, e);
    return e;
}

/* ---- making and freeing ---- */

static int load_all(struct attempts *t, struct err *err)
{
    struct folder_id *ids;
    size_t n;
    folder_clean(t->config.dir);
    if (folder_scan(t->config.dir, &ids, &n, err) < 0) {
        free(ids);
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        struct attempt *a = attempt_load(&t->env, ids[i]);
        if (a)
            add(t, a);
    }
    free(ids);
    return 0;
}

struct attempts *attempts_new(const struct attempts_config *config, struct err *err)
{
    struct attempts *t = mem_zero(1, sizeof *t);
    struct timeval second = {1, 0};
    t->config = *config;
    t->env = (struct attempt_env){.base = config->base,
                                  .dir = config->dir,
                                  .program = config->program,
                                  .node = config->node,
                                  .ctx = t,
                                  .reported = on_reported,
                                  .progress = on_progress,
                                  .ended = on_ended,
                                  .is_shim = on_is_shim};
    t->tend = event_new(config->base, -1, 0, on_tend, t);
    t->resend = event_new(config->base, -1, EV_PERSIST, on_resend, t);
    event_add(t->resend, &second);
    if (load_all(t, err) == 0)
        return t;
    attempts_free(t);
    return NULL;
}

void attempts_free(struct attempts *t)
{
    if (!t)
        return;
    while (t->first) {
        struct entry *e = t->first;
        t->first = e->next;
        attempt_free(e->attempt);
        free(e);
    }
    event_free(t->tend);
    event_free(t->resend);
    free(t->keep);
    free(t);
}

/* ---- what the controller says ---- */

static void begin(struct attempts *t, struct link_order *order)
{
    bool fresh = order->phase == ORDER_PREPARE;
    struct attempt *a = fresh ? attempt_start(&t->env, order) : attempt_unknown(&t->env, order);
    add(t, a)->wanted = true;
}

/* One entry of the desired set. An attempt that has another token is not the one that is wanted, although it has its number. */
static void want(struct attempts *t, struct link_order *order)
{
    struct entry *e = find(t, order->job, order->attempt);
    if (!e) {
        begin(t, order);
        return;
    }
    const char *token = attempt_token(e->attempt);
    if (token[0] && strcmp(token, order->token) != 0) {
        log_error("job %" PRId64 " attempt %" PRId64
                  " is here with another token; the one that is here is ended and the new one "
                  "is not started. Was the controller's database put back to an older state?",
                  order->job, order->attempt);
        return;
    }
    e->wanted = true;
    attempt_order(e->attempt, order);
}

static void take_keep(struct attempts *t, const int64_t *keep, size_t n_keep)
{
    t->keep = mem_grow(t->keep, n_keep + 1, sizeof *t->keep);
    memcpy(t->keep, keep, n_keep * sizeof *t->keep);
    t->n_keep = n_keep;
}

void attempts_desired(struct attempts *t, struct link_order *orders, size_t n, const int64_t *keep,
                      size_t n_keep)
{
    if (t->kill_reason)
        return; /* on the way out: nothing is begun any more */
    t->told = true;
    take_keep(t, keep, n_keep);
    for (struct entry *e = t->first; e; e = e->next)
        e->wanted = false;
    for (size_t i = 0; i < n; i++)
        want(t, &orders[i]);
    tend_soon(t);
}

void attempts_ack(struct attempts *t, int64_t job, int64_t attempt, int64_t rev)
{
    struct entry *e = find(t, job, attempt);
    if (e && rev > e->acked_rev)
        e->acked_rev = rev;
    tend_soon(t);
}

json_t *attempts_reports(const struct attempts *t)
{
    json_t *array = json_array();
    for (const struct entry *e = t->first; e; e = e->next)
        (void)json_array_append_new(array, link_report_encode(attempt_report(e->attempt), NULL));
    return array;
}

void attempts_report_all(struct attempts *t)
{
    for (struct entry *e = t->first; e; e = e->next)
        tell(t, e);
}

void attempts_kill_all(struct attempts *t, const char *reason)
{
    t->kill_reason = reason;
    tend_soon(t);
}

bool attempts_active(const struct attempts *t, int64_t job, int64_t attempt)
{
    const struct entry *e = find(t, job, attempt);
    return e && !attempt_final(e->attempt);
}

void attempts_reaped(struct attempts *t, pid_t pid, int wait_status)
{
    for (struct entry *e = t->first; e; e = e->next)
        if (attempt_shim_pid(e->attempt) == pid)
            attempt_reaped(e->attempt, wait_status);
}
