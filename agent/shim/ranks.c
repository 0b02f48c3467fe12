/* ranks: fork, exec, log pipes, and the end.
 *
 * The child between fork and exec makes system calls only (the parent has threads). It tells a failed exec through a
 * close-on-exec pipe: end of file there means that the program runs. A rank leads its own session, so its pid is the number
 * of its session and process group too. It dies with the shim (PDEATHSIG, set after the change of user, which clears it). */
#include "agent/shim/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/shim/identity.h"
#include "agent/shim/rank_log.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/procid.h"
#include "common/proctree.h"

#define LOG_READ_BYTES 65536
#define LOG_READS      16        /* a turn and rank: 1 MiB, then the others */
#define PIPE_BYTES     (1 << 20) /* a rank may print this much while the shim waits for the disk */
#define ANCESTORS_MAX  256
#define CODE_NOT_RUN   127

enum stage { STAGE_CGROUP, STAGE_USER, STAGE_CHDIR, STAGE_EXEC };

struct failure {
    enum stage stage;
    int error;
};

struct rank {
    struct ranks *owner;
    struct link_rank *report;
    pid_t pid;
    int pidfd, exec_fd, log_fd;
    struct event *exit_event, *exec_event, *log_event;
    struct rank_log *log;
    bool aborted, not_run;
    int abort_code;
};

struct ranks {
    struct event_base *base;
    const struct link_order *order;
    const struct prepared *prepared;
    const struct ranks_events *events;
    void *ctx;
    struct rank *rank;
    size_t n;
    bool stopping;
};

struct ranks *ranks_new(struct event_base *base, const struct link_order *order,
                        const struct prepared *prepared, struct link_rank *reports,
                        const struct ranks_events *events, void *ctx)
{
    struct ranks *r = mem_zero(1, sizeof *r);
    *r = (struct ranks){.base = base,
                        .order = order,
                        .prepared = prepared,
                        .events = events,
                        .ctx = ctx,
                        .n = order->n_ranks};
    r->rank = mem_zero(r->n + 1, sizeof *r->rank);
    for (size_t i = 0; i < r->n; i++)
        r->rank[i] =
            (struct rank){.owner = r, .report = &reports[i], .pidfd = -1, .exec_fd = -1, .log_fd = -1};
    return r;
}

static void close_watch(struct event **ev, int *fd)
{
    if (*ev)
        event_free(*ev);
    *ev = NULL;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void ranks_free(struct ranks *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n; i++) {
        struct rank *k = &r->rank[i];
        close_watch(&k->exit_event, &k->pidfd);
        close_watch(&k->exec_event, &k->exec_fd);
        close_watch(&k->log_event, &k->log_fd);
        rank_log_close(k->log);
    }
    free(r->rank);
    free(r);
}

/* ---- output ---- */

static void read_log(struct rank *k, int reads)
{
    char buf[LOG_READ_BYTES];
    while (k->log_fd >= 0 && reads-- > 0) {
        ssize_t n = read(k->log_fd, buf, sizeof buf);
        if (n > 0)
            rank_log_write(k->log, buf, (size_t)n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            close_watch(&k->log_event, &k->log_fd);
        else if (errno == EAGAIN)
            return;
    }
}

static void log_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    read_log(arg, LOG_READS);
}

void ranks_drain_logs(struct ranks *r)
{
    for (size_t i = 0; r && i < r->n; i++)
        read_log(&r->rank[i],
                 4 * LOG_READS); /* bounded: a leftover that prints for ever must not hold the shim */
}

/* ---- the child ---- */

static void fail_child(int fd, enum stage stage)
{
    struct failure f = {.stage = stage, .error = errno};
    (void)!write(fd, &f, sizeof f);
    _exit(CODE_NOT_RUN);
}

static void reset_signals(void)
{
    struct sigaction dfl = {.sa_handler = SIG_DFL};
    for (int sig = 1; sig < NSIG; sig++)
        (void)sigaction(sig, &dfl, NULL); /* SIGKILL and SIGSTOP refuse */
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

struct launch {
    pid_t shim;
    int exec_fd, log_fd, null_fd, cgroup_fd;
    char **env;
};

/* "@JOB@" in the command line stands for the spec file that this shim wrote. Only in the child, whose memory is its own. */
static void name_job_file(const struct ranks *r)
{
    for (char **arg = r->order->argv; *arg; arg++)
        if (strcmp(*arg, "@JOB@") == 0)
            *arg = r->prepared->job_file;
}

static void run_child(const struct ranks *r, const struct launch *l)
{
    reset_signals();
    (void)setsid(); /* cannot fail in a fresh child */
    if (l->cgroup_fd >= 0)
        (void)proctree_cgroup_enter(
            l->cgroup_fd); /* without it the process is still found by descent and token */
    if (dup2(l->null_fd, 0) < 0 || dup2(l->log_fd, 1) < 0 || dup2(l->log_fd, 2) < 0)
        fail_child(l->exec_fd, STAGE_CGROUP);
    (void)close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    if (identity_assume(&r->prepared->who) != 0)
        fail_child(l->exec_fd, STAGE_USER);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != l->shim)
        _exit(CODE_NOT_RUN); /* the shim died before PDEATHSIG was set */
    if (chdir(r->order->cwd) != 0)
        fail_child(l->exec_fd, STAGE_CHDIR);
    name_job_file(r);
    execve(r->prepared->program, r->order->argv, l->env);
    fail_child(l->exec_fd, STAGE_EXEC);
}

/* ---- exec seen ---- */

static void describe_failure(const struct rank *k, const struct failure *f, char *out, size_t size)
{
    static const char *const what[] = {[STAGE_CGROUP] = "cannot set up",
                                       [STAGE_USER] = "cannot become the job's user for",
                                       [STAGE_CHDIR] = "cannot enter the working directory of",
                                       [STAGE_EXEC] = "cannot exec"};
    snprintf(out, size, "%s %s: %s", what[f->stage], k->owner->prepared->program, strerror(f->error));
}

static void read_exec_pipe(struct rank *k)
{
    struct failure f;
    if (k->exec_fd < 0)
        return;
    ssize_t n = read(k->exec_fd, &f, sizeof f);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n == (ssize_t)sizeof f) {
        k->not_run = true;
        describe_failure(k, &f, k->report->why, sizeof k->report->why);
    } else if (k->report->state == RANK_WAITING) {
        k->report->state = RANK_RUNNING;
    }
    close_watch(&k->exec_event, &k->exec_fd);
    k->owner->events->changed(k->owner->ctx);
}

static void exec_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    read_exec_pipe(arg);
}

/* ---- start ---- */

static void exit_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)ranks_reap(arg);
}

static struct event *watch(struct ranks *r, int fd, event_callback_fn fn, void *arg)
{
    struct event *ev = event_new(r->base, fd, EV_READ | EV_PERSIST, fn, arg);
    event_add(ev, NULL);
    return ev;
}

static void watch_rank(struct ranks *r, struct rank *k, pid_t pid)
{
    struct procid id = {0};
    k->pid = pid;
    k->pidfd = pidfd_open(pid, 0);
    k->report->pid = pid;
    k->report->start = procid_of(pid, &id) == 0 ? id.start : 0;
    k->report->started_ms = clock_utc_ms();
    if (k->pidfd >= 0)
        k->exit_event = watch(r, k->pidfd, exit_readable, r);
    k->exec_event = watch(r, k->exec_fd, exec_readable, k);
    k->log_event = watch(r, k->log_fd, log_readable, k);
}

static int make_pipe(int *read_fd, int *write_fd, struct err *err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0)
        return err_sys(err, "cannot make a pipe for a rank");
    (void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
    *read_fd = fds[0];
    *write_fd = fds[1];
    return 0;
}

static int start_one(struct ranks *r, size_t i, struct launch *l, struct err *err)
{
    struct rank *k = &r->rank[i];
    k->log = rank_log_open(r->prepared->log_dir, k->report->rank, 0, err);
    if (!k->log || make_pipe(&k->exec_fd, &l->exec_fd, err) != 0)
        return -1;
    if (make_pipe(&k->log_fd, &l->log_fd, err) != 0) {
        close(l->exec_fd);
        return -1;
    }
    (void)fcntl(k->log_fd, F_SETPIPE_SZ,
                PIPE_BYTES); /* refused when the user has many pipes: the default will do */
    pid_t pid = fork();
    if (pid == 0)
        run_child(r, l);
    int rc = pid < 0 ? err_sys(err, "cannot fork rank %lld", (long long)k->report->rank) : 0;
    close(l->exec_fd);
    close(l->log_fd);
    if (rc == 0)
        watch_rank(r, k, pid);
    return rc;
}

int ranks_start(struct ranks *r, char **const *envs, struct err *err)
{
    struct launch l = {.shim = getpid(), .null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC), .cgroup_fd = -1};
    int rc = l.null_fd < 0 ? err_sys(err, "cannot open /dev/null") : 0;
    if (r->prepared->cgroup)
        l.cgroup_fd = proctree_cgroup_open(r->prepared->cgroup);
    for (size_t i = 0; rc == 0 && i < r->n; i++) {
        l.env = envs[i];
        rc = start_one(r, i, &l, err);
    }
    if (l.null_fd >= 0)
        close(l.null_fd);
    if (l.cgroup_fd >= 0)
        close(l.cgroup_fd);
    r->events->changed(r->ctx);
    return rc;
}

/* ---- the end ---- */

void ranks_describe_exit(bool killed, bool dumped, int status, char *out, size_t size)
{
    const char *name = killed ? sigabbrev_np(status) : NULL;
    if (killed)
        snprintf(out, size, "killed by signal %d (SIG%s)%s", status, name ? name : "?",
                 dumped ? ", core dumped" : "");
    else if (status == 0)
        snprintf(out, size, "finished");
    else
        snprintf(out, size, "exited with code %d", status);
}

static void describe_end(struct rank *k, const siginfo_t *info)
{
    struct link_rank *report = k->report;
    bool killed = info->si_code != CLD_EXITED;
    char how[96];
    report->code = killed ? 0 : info->si_status;
    report->signal = killed ? info->si_status : 0;
    if (k->not_run)
        return; /* why says it already, the code is CODE_NOT_RUN */
    if (k->aborted) {
        report->code = k->abort_code;
        report->signal = 0;
        snprintf(report->why, sizeof report->why, "called MPI_Abort(%d)", k->abort_code);
        return;
    }
    ranks_describe_exit(killed, info->si_code == CLD_DUMPED, info->si_status, how, sizeof how);
    bool told = k->owner->stopping && killed && (report->signal == SIGTERM || report->signal == SIGKILL);
    snprintf(report->why, sizeof report->why, "%s%s", how, told ? " as ordered" : "");
}

static void rank_ended(struct rank *k, const siginfo_t *info)
{
    struct ranks *r = k->owner;
    r->events->before_exit(r->ctx);
    read_exec_pipe(k);
    read_log(k, 4 * LOG_READS); /* the last words are in the log before anybody hears of the end */
    describe_end(k, info);
    k->report->state = RANK_EXITED;
    k->report->ended_ms = clock_utc_ms();
    k->pid = 0;
    close_watch(&k->exit_event, &k->pidfd);
    log_info("rank %lld (pid %d) ended: %s", (long long)k->report->rank, (int)info->si_pid, k->report->why);
    r->events->changed(r->ctx);
}

static struct rank *rank_with_pid(const struct ranks *r, pid_t pid)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->rank[i].pid == pid)
            return &r->rank[i];
    return NULL;
}

size_t ranks_reap(struct ranks *r)
{
    for (size_t n = 0;; n++) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0)
            return n;
        struct rank *k = rank_with_pid(r, info.si_pid);
        if (k)
            rank_ended(k, &info);
    }
}

size_t ranks_waiting(const struct ranks *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++)
        n += r->rank[i].report->state == RANK_WAITING;
    return n;
}

size_t ranks_alive(const struct ranks *r)
{
    size_t n = 0;
    for (size_t i = 0; r && i < r->n; i++)
        n += r->rank[i].pid > 0;
    return n;
}

/* The group exists only once the child has called setsid, so the process itself is signalled too. */
static void signal_rank(const struct rank *k, int sig)
{
    if (k->pid <= 0)
        return;
    if (kill(-k->pid, sig) != 0)
        (void)kill(k->pid, sig); /* not yet reaped, so the pid is still its own */
}

void ranks_signal(struct ranks *r, int sig)
{
    for (size_t i = 0; r && i < r->n; i++)
        signal_rank(&r->rank[i], sig);
}

void ranks_set_stopping(struct ranks *r)
{
    if (r)
        r->stopping = true;
}

static struct rank *rank_numbered(const struct ranks *r, int64_t rank)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->rank[i].report->rank == rank)
            return &r->rank[i];
    return NULL;
}

void ranks_abort(struct ranks *r, int64_t rank, int code)
{
    struct rank *k = rank_numbered(r, rank);
    if (!k || k->pid <= 0)
        return;
    k->aborted = true;
    k->abort_code = code & 0xff ? code & 0xff : 1;
    signal_rank(k, SIGKILL);
}

void ranks_signal_one(struct ranks *r, int64_t rank, int sig)
{
    struct rank *k = rank_numbered(r, rank);
    if (k && k->pid > 0)
        (void)kill(k->pid, sig);
}

struct link_rank *ranks_report(struct ranks *r, int64_t rank)
{
    struct rank *k = rank_numbered(r, rank);
    return k ? k->report : NULL;
}

/* Field 4 of /proc/PID/stat, or 0. */
static pid_t parent_of(pid_t pid)
{
    char path[40], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *rest = strrchr(text, ')');
    return rest && strlen(rest) > 4 ? (pid_t)strtol(rest + 4, NULL, 10) : 0;
}

int64_t ranks_of_pid(const struct ranks *r, pid_t pid)
{
    const struct rank *k = NULL;
    pid_t at = pid;
    for (int i = 0; !k && at > 1 && i < ANCESTORS_MAX; i++) {
        k = rank_with_pid(r, at);
        at = k ? at : parent_of(at);
    }
    pid_t session = pid > 1 ? getsid(pid) : -1;
    if (!k && session > 1)
        k = rank_with_pid(r, session);
    return k ? k->report->rank : -1;
}
