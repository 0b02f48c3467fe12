/* attempt: a small state machine around one shim.
 *
 * The stage says how the agent stands to the shim, the report says how the attempt stands; the two move apart, since a shim runs on
 * while the agent is away. What always holds: a shim is started at most once in a folder (a folder that exists is loaded, never
 * started again); `lost` is said only after a sweep found nothing left alive; the report is on disk before it is told; the folder
 * is removed only after attempt_forget. Everything may be repeated. */
#include "agent/attempt.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/attempt_table.h"
#include "agent/shimproc.h"
#include "agent/sweep.h"
#include "common/clock.h"
#include "common/fsutil.h"
#include "common/jsonx.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/proctree.h"

#define START_LIMIT_MS   20000 /* a shim that does not listen by then never will */
#define STOP_LIMIT_MS    10000 /* beyond the grace: then the shim is stuck and the agent does its work */
#define RELEASE_LIMIT_MS 10000
#define REV_NO_TRACE     INT64_C(1000000000) /* beyond any revision a vanished shim may have sent */

struct attempt {
    const struct attempt_env *env;
    struct folder_id id;
    char what[64]; /* "job 7 attempt 2" */
    char *path;
    bool on_disk;
    struct link_order order; /* zeroed when it was lost */
    json_t *order_json;
    enum attempt_stage stage;
    struct shimproc *shim;
    struct sweep *sweep;
    struct link_report report;
    bool reported, forget, keep;
    char *scratch, *cgroup;
    char *token;     /* from state.json, for when the order was lost */
    char death[128]; /* how the shim ended, in words */
    struct event *watchdog;
    const char *watchdog_why;
    int64_t watchdog_ms;
};

static void step(struct attempt *a, enum attempt_happening what);

/* ---- the shim must do what it is told in time ---- */

static void on_watchdog(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct attempt *a = ctx;
    a->watchdog_ms = 0;
    if (!a->shim)
        return;
    log_error("%s: killing belay-shim (pid %ld): %s", a->what, (long)shimproc_pid(a->shim), a->watchdog_why);
    shimproc_kill(a->shim);
}

/* An earlier limit that is already running stays. */
static void watch(struct attempt *a, int64_t limit_ms, const char *why)
{
    int64_t at_ms = clock_boot_ms() + limit_ms;
    if (a->watchdog_ms != 0 && a->watchdog_ms <= at_ms)
        return;
    a->watchdog_ms = at_ms;
    a->watchdog_why = why;
    struct timeval delay = {limit_ms / 1000, limit_ms % 1000 * 1000};
    event_add(a->watchdog, &delay);
}

static void watch_off(struct attempt *a)
{
    a->watchdog_ms = 0;
    event_del(a->watchdog);
}

static void watch_stop(struct attempt *a)
{
    if (a->order.phase == ORDER_STOP && !attempt_final(a))
        watch(a, (a->order.kill ? 0 : a->order.grace_ms) + STOP_LIMIT_MS,
              "it did not stop its ranks in time");
}

/* ---- what the shim says ---- */

static void take_report(struct attempt *a, const struct link_report *report)
{
    bool was_final = attempt_final(a);
    if (a->reported && report->rev <= a->report.rev)
        return; /* said again after a reconnect */
    link_report_copy(&a->report, report);
    a->reported = true;
    if (!was_final && attempt_final(a))
        watch_off(a);
    a->env->reported(a->env->ctx, a);
}

static int check_identity(const struct attempt *a, int64_t job, int64_t attempt, struct err *err)
{
    if (job == a->id.job && attempt == a->id.attempt)
        return 0;
    return err_set(err, "it speaks of job %" PRId64 " attempt %" PRId64, job, attempt);
}

static int on_report(struct attempt *a, const json_t *msg, struct err *err)
{
    struct link_report report;
    if (link_report_decode(msg, &report, err) < 0)
        return -1;
    int rc = check_identity(a, report.job, report.attempt, err);
    if (rc == 0)
        take_report(a, &report);
    link_report_clear(&report);
    return rc;
}

static int on_progress(struct attempt *a, const json_t *msg, struct err *err)
{
    struct link_progress progress;
    if (link_progress_decode(msg, &progress, err) < 0)
        return -1;
    int rc = check_identity(a, progress.job, progress.attempt, err);
    if (rc == 0)
        a->env->progress(a->env->ctx, &progress);
    link_progress_clear(&progress);
    return rc;
}

static void on_message(void *ctx, const json_t *msg)
{
    struct attempt *a = ctx;
    const char *type = jsonx_str_or(msg, "t", "");
    struct err err;
    int rc = 0;
    if (strcmp(type, "report") == 0)
        rc = on_report(a, msg, &err);
    else if (strcmp(type, "progress") == 0)
        rc = on_progress(a, msg, &err);
    if (rc < 0)
        log_warn("%s: ignoring a %s of belay-shim: %s", a->what, type, err.text);
}

static void on_connected(void *ctx)
{
    step(ctx, HAPPENED_CONNECTED);
}

static void on_disconnected(void *ctx)
{
    step(ctx, HAPPENED_DISCONNECTED);
}

static void describe_death(struct attempt *a, int status)
{
    if (status == SHIMPROC_STATUS_UNKNOWN)
        snprintf(a->death, sizeof a->death, "belay-shim died");
    else if (WIFSIGNALED(status))
        snprintf(a->death, sizeof a->death, "belay-shim died (signal %d)", WTERMSIG(status));
    else
        snprintf(a->death, sizeof a->death, "belay-shim ended (exit code %d)", WEXITSTATUS(status));
}

static void on_dead(void *ctx, int wait_status)
{
    struct attempt *a = ctx;
    describe_death(a, wait_status);
    step(a, HAPPENED_DIED);
}

static struct shimproc_hooks hooks_of(struct attempt *a)
{
    return (struct shimproc_hooks){a, on_connected, on_disconnected, on_message, on_dead};
}

/* ---- after the shim's end ---- */

/* Adopts what state.json says beyond what was heard: a shim writes it before it speaks. */
static void adopt_state(struct attempt *a, struct folder_state *state)
{
    if (state->has_report && check_identity(a, state->report.job, state->report.attempt, NULL) == 0) {
        free(a->scratch);
        free(a->cgroup);
        free(a->token);
        a->token = str_dup(state->token);
        a->scratch = str_dup(state->scratch);
        a->cgroup = str_dup(state->cgroup);
        take_report(a, &state->report);
    }
}

static void reread_state(struct attempt *a)
{
    struct folder_state state;
    struct err err;
    if (folder_read_state(a->path, &state, &err) < 0)
        log_warn("%s: %s", a->what, err.text);
    adopt_state(a, &state);
    folder_state_clear(&state);
}

static void remove_scratch(struct attempt *a)
{
    struct err err;
    if (a->scratch && !folder_is_scratch(a->scratch, a->id))
        log_warn("%s: state.json names %s as scratch, which is none of this attempt; left alone", a->what,
                 a->scratch);
    else if (a->scratch && fs_remove_tree(a->scratch, &err) < 0)
        log_warn("%s: %s", a->what, err.text);
    if (a->cgroup)
        proctree_cgroup_remove(a->cgroup);
}

/* Marks running ranks as killed; how many there were. */
static int end_ranks(struct link_report *report)
{
    int n = 0;
    for (size_t i = 0; i < report->n_ranks; i++) {
        struct link_rank *rank = &report->ranks[i];
        if (rank->state != RANK_RUNNING)
            continue;
        rank->state = RANK_EXITED;
        rank->signal = SIGKILL;
        rank->ended_ms = clock_utc_ms();
        snprintf(rank->why, sizeof rank->why, "killed by the agent because its belay-shim was gone");
        n++;
    }
    return n;
}

static void make_lost(struct attempt *a, struct link_report *to)
{
    link_report_copy(to, &a->report);
    to->phase = REPORT_LOST;
    to->rev = a->report.rev + 1;
    int n = end_ranks(to);
    if (n == 0)
        snprintf(to->reason, sizeof to->reason, "%s; none of its ranks was running", a->death);
    else if (n == 1)
        snprintf(to->reason, sizeof to->reason, "%s; its 1 rank was killed", a->death);
    else
        snprintf(to->reason, sizeof to->reason, "%s; its %d ranks were killed", a->death, n);
}

static void make_refused(struct attempt *a, struct link_report *to)
{
    char tail[300];
    folder_log_tail(a->path, tail, sizeof tail);
    to->phase = REPORT_REFUSED;
    to->rev = 1;
    snprintf(to->reason, sizeof to->reason, "%s before it was up%s%s", a->death, tail[0] ? ": " : "", tail);
}

/* The agent's own last word: on disk first, when the disk takes it. */
static void settle_report(struct attempt *a, struct link_report *report)
{
    struct err err;
    report->job = a->id.job;
    report->attempt = a->id.attempt;
    if (a->on_disk && folder_write_report(a->path, report, &err) < 0)
        log_warn("%s: cannot keep its last report, so a restarted agent will judge anew: %s", a->what,
                 err.text);
    log_warn("%s: %s: %s", a->what, report_phase_name(report->phase), report->reason);
    take_report(a, report);
    link_report_clear(report);
}

static bool is_shim(void *ctx, pid_t pid)
{
    struct attempt *a = ctx;
    return a->env->is_shim(a->env->ctx, pid);
}

static void on_swept(void *ctx, size_t killed)
{
    struct attempt *a = ctx;
    if (killed > 0)
        log_info("%s: killed %zu processes left by its belay-shim", a->what, killed);
    step(a, HAPPENED_SWEPT);
}

/* ---- the stages ---- */

static void start_sweep(struct attempt *a)
{
    watch_off(a);
    shimproc_free(a->shim);
    a->shim = NULL;
    if (a->on_disk)
        reread_state(a);
    struct sweep_target target = {.what = a->what,
                                  .token = a->order.token ? a->order.token : a->token,
                                  .cgroup = a->cgroup,
                                  .node = a->env->node,
                                  .is_shim = is_shim,
                                  .done = on_swept,
                                  .ctx = a};
    a->sweep = sweep_start(a->env->base, &target);
}

static void conclude(struct attempt *a)
{
    sweep_free(a->sweep);
    a->sweep = NULL;
    remove_scratch(a);
    if (!attempt_final(a)) {
        struct link_report report = {0};
        if (a->reported)
            make_lost(a, &report);
        else
            make_refused(a, &report);
        settle_report(a, &report);
    }
    a->env->ended(a->env->ctx, a);
    if (a->forget)
        step(a, HAPPENED_FORGET);
}

static void send_order(struct attempt *a)
{
    json_t *msg = link_order_encode(&a->order, "order");
    if (a->shim && shimproc_connected(a->shim) && !shimproc_send(a->shim, msg))
        log_warn("%s: belay-shim does not read its orders; it gets the newest when it connects again",
                 a->what);
    json_decref(msg);
}

static void greet(struct attempt *a)
{
    if (a->order.phase != ORDER_STOP)
        watch_off(a);
    if (a->order.token)
        send_order(a);
    if (a->forget)
        step(a, HAPPENED_FORGET);
}

static void release(struct attempt *a)
{
    json_t *msg = json_pack("{s:s}", "t", "release");
    if (!shimproc_send(a->shim, msg))
        log_warn("%s: belay-shim cannot be released yet", a->what);
    json_decref(msg);
    watch(a, RELEASE_LIMIT_MS, "it did not exit after its release");
}

static void drop(struct attempt *a)
{
    struct err err;
    if (a->on_disk && !a->keep && folder_remove(a->path, &err) < 0)
        log_warn("%s: %s", a->what, err.text);
    a->env->ended(a->env->ctx, a);
}

/* NOLINTNEXTLINE(misc-no-recursion): an action takes at most one further step, forward */
static void step(struct attempt *a, enum attempt_happening what)
{
    static void (*const actions[DO_COUNT])(struct attempt * a) = {
        [DO_GREET] = greet,       [DO_RELEASE] = release, [DO_SWEEP] = start_sweep,
        [DO_CONCLUDE] = conclude, [DO_DROP] = drop,
    };
    struct attempt_step to = attempt_table_step(a->stage, what);
    a->stage = to.next;
    if (actions[to.action])
        actions[to.action](a);
}

/* ---- beginning ---- */

static struct attempt *new_attempt(const struct attempt_env *env, struct folder_id id)
{
    struct attempt *a = mem_zero(1, sizeof *a);
    a->env = env;
    a->id = id;
    a->path = folder_path(env->dir, id.job, id.attempt);
    a->report.job = id.job;
    a->report.attempt = id.attempt;
    a->watchdog = event_new(env->base, -1, 0, on_watchdog, a);
    snprintf(a->what, sizeof a->what, "job %" PRId64 " attempt %" PRId64, id.job, id.attempt);
    return a;
}

static void take_order(struct attempt *a, struct link_order *order)
{
    link_order_clear(&a->order);
    json_decref(a->order_json);
    a->order = *order;
    a->order_json = link_order_encode(order, NULL);
    memset(order, 0, sizeof *order);
}

/* An attempt that ended before it began. */
static void end_at_once(struct attempt *a, enum report_phase phase, int64_t rev, const char *reason)
{
    struct link_report report = {.phase = phase, .rev = rev};
    snprintf(report.reason, sizeof report.reason, "%s", reason);
    a->stage = STAGE_ENDED;
    settle_report(a, &report);
    a->env->ended(a->env->ctx, a);
}

static int start_shim(struct attempt *a, struct err *err)
{
    struct shimproc_hooks hooks = hooks_of(a);
    if (folder_make(a->path, err) < 0)
        return -1;
    a->on_disk = true;
    if (folder_write_order(a->path, &a->order, err) < 0)
        return -1;
    a->shim = shimproc_start(a->env->base, a->env->program, a->path, &hooks, err);
    return a->shim ? 0 : -1;
}

struct attempt *attempt_start(const struct attempt_env *env, struct link_order *order)
{
    struct attempt *a = new_attempt(env, (struct folder_id){order->job, order->attempt});
    struct err err;
    take_order(a, order);
    if (start_shim(a, &err) < 0) {
        end_at_once(a, REPORT_REFUSED, 1, err.text);
        return a;
    }
    log_info("%s: started belay-shim (pid %ld)", a->what, (long)shimproc_pid(a->shim));
    watch(a, START_LIMIT_MS, "it does not listen on its socket");
    return a;
}

struct attempt *attempt_unknown(const struct attempt_env *env, struct link_order *order)
{
    struct attempt *a = new_attempt(env, (struct folder_id){order->job, order->attempt});
    take_order(a, order);
    end_at_once(a, REPORT_LOST, REV_NO_TRACE,
                "this node has no trace of the attempt; nothing of it runs here");
    return a;
}

static void shim_was_dead(struct attempt *a, const struct folder_state *state, bool damaged)
{
    struct procid self;
    bool rebooted = procid_of(0, &self) == 0 && strcmp(self.boot, state->shim.boot) != 0;
    snprintf(a->death, sizeof a->death, "%s",
             rebooted ? "this node was restarted" : "belay-shim died while the agent was away");
    if (damaged) { /* ranks may have run: `lost`, not `refused`, and newer than whatever was reported */
        a->reported = true;
        a->report.rev = REV_NO_TRACE - 1;
    }
    step(a, HAPPENED_DIED);
}

static void find_shim(struct attempt *a, const struct folder_state *state, bool damaged)
{
    struct shimproc_hooks hooks = hooks_of(a);
    struct err err;
    if (state->has_shim && procid_alive(&state->shim))
        a->shim = shimproc_attach(a->env->base, &state->shim, a->path, &hooks, &err);
    if (!a->shim) {
        shim_was_dead(a, state, damaged);
        return;
    }
    log_info("%s: found belay-shim (pid %ld)", a->what, (long)shimproc_pid(a->shim));
    if (!a->reported)
        watch(a, START_LIMIT_MS, "it does not listen on its socket");
    watch_stop(a);
}

/* Nothing was started in the folder: the earlier agent died between making it and starting the shim. */
static struct attempt *discard(struct attempt *a)
{
    struct err err;
    log_info("%s: was never started; removing its folder", a->what);
    if (folder_remove(a->path, &err) < 0)
        log_warn("%s: %s", a->what, err.text);
    attempt_free(a);
    return NULL;
}

struct attempt *attempt_load(const struct attempt_env *env, struct folder_id id)
{
    struct attempt *a = new_attempt(env, id);
    struct folder_state state;
    struct link_order order;
    struct err err;
    a->on_disk = true;
    if (folder_read_order(a->path, &order, &err) == 0)
        take_order(a, &order);
    else
        log_warn("%s: %s", a->what, err.text);
    bool damaged = folder_read_state(a->path, &state, &err) < 0;
    if (damaged)
        log_warn("%s: %s", a->what, err.text);
    if (!state.has_report && !state.has_shim && !damaged) {
        folder_state_clear(&state);
        return discard(a);
    }
    adopt_state(a, &state);
    find_shim(a, &state, damaged);
    folder_state_clear(&state);
    return a;
}

void attempt_free(struct attempt *a)
{
    if (!a)
        return;
    shimproc_free(a->shim);
    sweep_free(a->sweep);
    event_free(a->watchdog);
    link_order_clear(&a->order);
    json_decref(a->order_json);
    link_report_clear(&a->report);
    free(a->scratch);
    free(a->cgroup);
    free(a->token);
    free(a->path);
    free(a);
}

/* ---- orders ---- */

static bool goes_back(const struct link_order *now, const struct link_order *then)
{
    return now->phase < then->phase || (now->phase == ORDER_STOP && then->kill && !now->kill);
}

/* The order holds even when the disk does not take it: a stop must work on a full disk. */
static void publish_order(struct attempt *a)
{
    struct err err;
    if (a->on_disk && folder_write_order(a->path, &a->order, &err) < 0)
        log_warn("%s: %s", a->what, err.text);
    send_order(a);
    watch_stop(a);
}

void attempt_order(struct attempt *a, struct link_order *order)
{
    if (!a->shim || goes_back(order, &a->order))
        return;
    json_t *json = link_order_encode(order, NULL);
    bool same = json_equal(json, a->order_json);
    json_decref(json);
    if (same)
        return;
    take_order(a, order);
    publish_order(a);
}

static void replace(char **text, const char *with)
{
    free(*text);
    *text = str_dup(with);
}

void attempt_unwanted(struct attempt *a, const char *reason)
{
    if (attempt_final(a) || !a->shim || (a->order.phase == ORDER_STOP && a->order.kill))
        return;
    log_info("%s: killing it: %s", a->what, reason);
    if (!a->order
             .token) { /* its order was lost: the shim cannot be told, so it is ended and its ranks are swept */
        shimproc_kill(a->shim);
        return;
    }
    a->order.phase = ORDER_STOP;
    a->order.kill = true;
    replace(&a->order.reason, reason);
    json_decref(a->order_json);
    a->order_json = link_order_encode(&a->order, NULL);
    publish_order(a);
}

void attempt_forget(struct attempt *a, bool keep)
{
    a->keep = keep;
    if (a->forget)
        return;
    a->forget = true;
    if (a->stage == STAGE_CONNECTING)
        watch(a, RELEASE_LIMIT_MS, "it is not needed any more and does not listen on its socket");
    step(a, HAPPENED_FORGET);
}

/* ---- reading ---- */

struct folder_id attempt_id(const struct attempt *a)
{
    return a->id;
}

const char *attempt_token(const struct attempt *a)
{
    return a->order.token ? a->order.token : "";
}

const struct link_report *attempt_report(const struct attempt *a)
{
    return &a->report;
}

bool attempt_final(const struct attempt *a)
{
    return a->report.phase == REPORT_GONE || a->report.phase == REPORT_REFUSED ||
           a->report.phase == REPORT_LOST;
}

bool attempt_removed(const struct attempt *a)
{
    return a->stage == STAGE_REMOVED;
}

pid_t attempt_shim_pid(const struct attempt *a)
{
    return a->shim ? shimproc_pid(a->shim) : 0;
}

void attempt_reaped(struct attempt *a, int wait_status)
{
    if (a->shim)
        shimproc_reaped(a->shim, wait_status);
}
