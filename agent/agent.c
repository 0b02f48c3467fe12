/* agent: one libevent loop that ties uplink (what belayd says) to attempts (what runs here), and answers log requests.
 *
 * What always holds: one agent a folder (agent.lock); nothing blocks on the controller or on a shim; SIGTERM leaves shims and ranks
 * alone; what an earlier agent left is taken up before the first connection. */
#include "agent/agent.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/attempts.h"
#include "agent/gpus.h"
#include "agent/inventory.h"
#include "agent/readlog.h"
#include "agent/uplink.h"
#include "common/clock.h"
#include "common/fsutil.h"
#include "common/jsonx.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/procid.h"
#include "common/proof.h"
#include "schema/job.h"

#define LOCK_WAIT_MS    1000 /* a killed agent's shim may hold the lock for the moment between fork and exec */
#define LOCK_POLL_MS    20
#define GOODBYE_MS      1000 /* for the last reports to leave */
#define GOODBYE_POLL    10
#define LEAVING         "its agent was told to end everything on this node"
#define READ_LOG_UNSENT (4u << 20) /* beyond this much unsent, log requests are put off */

struct agent {
    const struct settings *settings;
    char *dir, *program;
    int lock;
    struct event_base *base;
    struct link_inventory inventory;
    struct attempts *attempts;
    struct uplink *uplink;
    struct event *on_term, *on_int, *on_child, *goodbye;
    int64_t goodbye_ms;
    bool killing;
};

/* ---- the folder ---- */

static int lock_folder(struct agent *a, struct err *err)
{
    char *path = str_printf("%s/agent.lock", a->dir);
    const struct timespec pause = {0, LOCK_POLL_MS * 1000000L};
    a->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int rc = a->lock < 0 ? -1 : flock(a->lock, LOCK_EX | LOCK_NB);
    for (int64_t end = clock_boot_ms() + LOCK_WAIT_MS;
         rc < 0 && errno == EWOULDBLOCK && clock_boot_ms() < end;) {
        nanosleep(&pause, NULL);
        rc = flock(a->lock, LOCK_EX | LOCK_NB);
    }
    if (rc < 0 && errno == EWOULDBLOCK)
        err_set(err,
                "another belay-agent works in %s (see agent.pid there); stop it or give each its own --dir",
                a->dir);
    else if (rc < 0)
        err_sys(err, "cannot lock %s", path);
    free(path);
    return rc;
}

static int make_folders(struct agent *a, struct err *err)
{
    char resolved[PATH_MAX];
    if (fs_mkdirs(a->settings->dir, 0711, err) < 0)
        return -1;
    if (!realpath(a->settings->dir, resolved))
        return err_sys(err, "cannot resolve %s", a->settings->dir);
    a->dir = str_dup(resolved);
    char *attempts = str_printf("%s/attempts", a->dir), *logs = str_printf("%s/logs", a->dir);
    int rc = fs_mkdirs(attempts, 0700, err) < 0 || fs_mkdirs(logs, 0700, err) < 0 ? -1 : 0;
    free(attempts);
    free(logs);
    return rc;
}

static int write_pid(struct agent *a, struct err *err)
{
    struct procid self;
    char *path = str_printf("%s/agent.pid", a->dir);
    int rc = procid_of(0, &self) < 0 ? err_set(err, "cannot read /proc/self/stat; is /proc mounted?")
                                     : procid_write_file(path, &self, err);
    free(path);
    return rc;
}

/* belay-shim lies beside this program; BELAY_SHIM says otherwise (the tests do). */
static int find_program(struct agent *a, struct err *err)
{
    char self[PATH_MAX];
    const char *given = getenv("BELAY_SHIM");
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0 && !given)
        return err_sys(err, "cannot read /proc/self/exe; set BELAY_SHIM to the path of belay-shim");
    self[n < 0 ? 0 : n] = '\0';
    char *slash = strrchr(self, '/');
    a->program =
        given ? str_dup(given) : str_printf("%.*s/belay-shim", (int)(slash ? slash - self : 0), self);
    if (access(a->program, X_OK) < 0)
        return err_sys(err, "cannot run %s; install belay-shim beside belay-agent", a->program);
    return 0;
}

/* ---- between controller and attempts ---- */

static bool send_report(void *ctx, const struct link_report *report)
{
    struct agent *a = ctx;
    if (!a->uplink || !uplink_up(a->uplink))
        return false;
    json_t *msg = link_report_encode(report, "report");
    bool sent = uplink_send(a->uplink, msg);
    json_decref(msg);
    return sent;
}

static void send_progress(void *ctx, const struct link_progress *progress)
{
    struct agent *a = ctx;
    if (a->uplink)
        uplink_progress(a->uplink, progress);
}

static json_t *on_hello(void *ctx, const char *local)
{
    struct agent *a = ctx;
    const char *given = a->settings->address;
    snprintf(a->inventory.address, sizeof a->inventory.address, "%s", given[0] ? given : local);
    if (setenv("BELAY_NODE_ADDRESS", a->inventory.address, 1) <
        0) /* for the shims that are started from now on */
        log_warn("cannot set BELAY_NODE_ADDRESS: %s", strerror(errno));
    json_t *msg = json_object();
    jsonx_set(msg, "inventory", link_inventory_encode(&a->inventory));
    jsonx_set(msg, "attempts", attempts_reports(a->attempts));
    return msg;
}

/* Goes ahead of what the killing makes shims report, so that no job is charged for it. */
static void say_leaving(struct agent *a)
{
    json_t *msg = json_pack("{s:s,s:s}", "t", "leaving", "reason", LEAVING);
    if (uplink_up(a->uplink))
        (void)uplink_send(a->uplink, msg); /* a link that breaks now says it again when it is back */
    json_decref(msg);
}

static void on_welcome(void *ctx)
{
    struct agent *a = ctx;
    if (a->killing)
        say_leaving(a);
    attempts_report_all(a->attempts);
}

static void on_desired(void *ctx, struct link_order *orders, size_t n, const int64_t *keep, size_t n_keep)
{
    struct agent *a = ctx;
    attempts_desired(a->attempts, orders, n, keep, n_keep);
}

static void on_ack(void *ctx, int64_t job, int64_t attempt, int64_t rev)
{
    struct agent *a = ctx;
    attempts_ack(a->attempts, job, attempt, rev);
}

/* ---- logs ---- */

struct log_request {
    int64_t id, job, attempt, rank, offset, limit;
};

static int decode_request(const json_t *msg, struct log_request *r, struct err *err)
{
    memset(r, 0, sizeof *r);
    r->id = jsonx_int_or(msg, "id", 0);
    if (jsonx_int(msg, "job", 1, INT64_MAX, &r->job, err) < 0 ||
        jsonx_int(msg, "attempt", 1, INT64_MAX, &r->attempt, err) < 0 ||
        jsonx_int(msg, "rank", 0, JOB_RANKS_MAX - 1, &r->rank, err) < 0 ||
        jsonx_int(msg, "offset", -1, INT64_MAX, &r->offset, err) < 0 ||
        jsonx_int(msg, "limit", 1, INT64_MAX, &r->limit, err) < 0)
        return -1;
    return 0;
}

static int read_log(struct agent *a, const struct log_request *r, struct readlog *out, struct err *err)
{
    char *folder = str_printf("%s/logs/%" PRId64 "/%" PRId64, a->dir, r->job, r->attempt);
    size_t limit = r->limit < (int64_t)READLOG_MAX ? (size_t)r->limit : READLOG_MAX;
    int rc = readlog_read(folder, r->rank, r->offset, limit, out, err);
    free(folder);
    if (rc == 0 && out->missing && !attempts_active(a->attempts, r->job, r->attempt))
        rc = err_set(err, "node %s has no log of rank %" PRId64 " of job %" PRId64 " attempt %" PRId64,
                     a->settings->name, r->rank, r->job, r->attempt);
    return rc;
}

static json_t *log_answer(const struct log_request *r, const struct readlog *log, const char *error)
{
    json_t *msg = json_object();
    char *data = base64_encode(log->data ? log->data : "", (size_t)(log->next - log->offset));
    jsonx_set_str(msg, "t", "log");
    jsonx_set(msg, "id", json_integer(r->id));
    jsonx_set(msg, "offset", json_integer(log->offset));
    jsonx_set(msg, "next", json_integer(log->next));
    jsonx_set(msg, "size", json_integer(log->size));
    jsonx_set_str(msg, "data", data);
    if (error)
        jsonx_set_str(msg, "error", error);
    free(data);
    return msg;
}

static void on_read_log(void *ctx, const json_t *msg)
{
    struct agent *a = ctx;
    struct log_request r;
    struct readlog log = {0};
    struct err err;
    int rc;
    if (uplink_unsent(a->uplink) > READ_LOG_UNSENT)
        rc = err_set(&err, "node %s still has much to send; ask again", a->settings->name);
    else
        rc = decode_request(msg, &r, &err) < 0 ? -1 : read_log(a, &r, &log, &err);
    r.id = jsonx_int_or(msg, "id", 0);
    json_t *answer = log_answer(&r, &log, rc < 0 ? err.text : NULL);
    (void)uplink_send(a->uplink, answer); /* the connection went meanwhile: so did the one who asked */
    json_decref(answer);
    readlog_clear(&log);
}

/* ---- signals ---- */

static void on_sigterm(evutil_socket_t sig, short what, void *ctx)
{
    (void)what;
    struct agent *a = ctx;
    log_info("exiting on signal %d; shims and ranks go on", (int)sig);
    event_base_loopexit(a->base, NULL);
}

static void on_sigint(evutil_socket_t sig, short what, void *ctx)
{
    (void)what;
    struct agent *a = ctx;
    if (a->killing) {
        on_sigterm(sig, what, a);
        return;
    }
    log_info("killing every attempt here, then exiting (once more to exit at once)");
    a->killing = true;
    say_leaving(a);
    attempts_kill_all(a->attempts, LEAVING);
}

static void on_sigchld(evutil_socket_t sig, short what, void *ctx)
{
    (void)sig;
    (void)what;
    struct agent *a = ctx;
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        attempts_reaped(a->attempts, pid, status);
}

/* Everything is killed: the last reports get a moment to leave. */
static void on_goodbye(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct agent *a = ctx;
    if (uplink_unsent(a->uplink) == 0 || clock_boot_ms() >= a->goodbye_ms)
        event_base_loopexit(a->base, NULL);
}

static void on_idle(void *ctx)
{
    struct agent *a = ctx;
    struct timeval poll = {0, GOODBYE_POLL * 1000};
    a->goodbye_ms = clock_boot_ms() + GOODBYE_MS;
    event_add(a->goodbye, &poll);
}

static struct event *signal_event(struct agent *a, int sig, event_callback_fn fn)
{
    struct event *e = evsignal_new(a->base, sig, fn, a);
    event_add(e, NULL);
    return e;
}

static void add_events(struct agent *a)
{
    (void)signal(SIGPIPE, SIG_IGN);
    a->on_term = signal_event(a, SIGTERM, on_sigterm);
    a->on_int = signal_event(a, SIGINT, on_sigint);
    a->on_child = signal_event(a, SIGCHLD, on_sigchld);
    a->goodbye = event_new(a->base, -1, EV_PERSIST, on_goodbye, a);
}

/* ---- starting and stopping ---- */

static int read_inventory(struct agent *a, struct err *err)
{
    if (inventory_read(&a->inventory, a->settings->slots, GPUS_NVML, err) < 0)
        return -1;
    snprintf(a->inventory.rack, sizeof a->inventory.rack, "%s", a->settings->rack);
    snprintf(a->inventory.pod, sizeof a->inventory.pod, "%s", a->settings->pod);
    snprintf(a->inventory.nvlink, sizeof a->inventory.nvlink, "%s", a->settings->nvlink);
    return 0;
}

/* The shim learns from its environment on which node it is (and at which address: on_hello); the rest is in its folder. */
static int prepare(struct agent *a, struct err *err)
{
    if (make_folders(a, err) < 0 || lock_folder(a, err) < 0 || find_program(a, err) < 0 ||
        read_inventory(a, err) < 0)
        return -1;
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return err_sys(err, "cannot become a subreaper");
    if (setenv("BELAY_NODE", a->settings->name, 1) < 0)
        return err_sys(err, "cannot set BELAY_NODE");
    a->base = event_base_new();
    return a->base ? write_pid(a, err) : err_set(err, "cannot make an event loop");
}

static int start(struct agent *a, struct err *err)
{
    struct attempts_config attempts = {.base = a->base,
                                       .dir = a->dir,
                                       .program = a->program,
                                       .node = a->settings->name,
                                       .ctx = a,
                                       .report = send_report,
                                       .progress = send_progress,
                                       .idle = on_idle};
    struct uplink_config uplink = {.base = a->base,
                                   .host = a->settings->host,
                                   .port = a->settings->port,
                                   .secret = a->settings->secret,
                                   .node = a->settings->name,
                                   .ctx = a,
                                   .hello = on_hello,
                                   .welcome = on_welcome,
                                   .desired = on_desired,
                                   .ack = on_ack,
                                   .read_log = on_read_log};
    add_events(a);
    a->attempts = attempts_new(&attempts, err);
    if (!a->attempts)
        return -1;
    a->uplink = uplink_new(&uplink);
    return 0;
}

static void free_event(struct event *e)
{
    if (e)
        event_free(e);
}

static void stop(struct agent *a)
{
    uplink_free(a->uplink);
    attempts_free(a->attempts);
    free_event(a->on_term);
    free_event(a->on_int);
    free_event(a->on_child);
    free_event(a->goodbye);
    if (a->base)
        event_base_free(a->base);
    link_inventory_clear(&a->inventory);
    if (a->lock >= 0)
        close(a->lock);
    free(a->program);
    free(a->dir);
}

int agent_run(const struct settings *settings, struct err *err)
{
    struct agent a = {.settings = settings, .lock = -1};
    int rc = prepare(&a, err);
    if (rc == 0)
        rc = start(&a, err);
    if (rc == 0) {
        log_info("node %s: %" PRId64 " %s slots, in %s", settings->name, a.inventory.slots,
                 a.inventory.gpu ? "GPU" : "CPU", a.dir);
        rc = event_base_dispatch(a.base) < 0 ? err_set(err, "the event loop failed") : 0;
    }
    stop(&a);
    return rc;
}
