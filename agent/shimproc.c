/* shimproc: the shim's death is seen through a pidfd (also when it is not a child); its socket is tried again while it lives.
 *
 * shim.pid is written by the new process itself before exec, while it still holds the agent's folder lock: whoever gets that lock
 * later finds the file, so no shim is ever overlooked, whenever the agent dies. Nothing here waits. */
#include "agent/shimproc.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/jsonline.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/unixsock.h"

#define CONNECT_FIRST_MS 3 /* a shim needs some 20 ms to come up */
#define CONNECT_MAX_MS   200
#define UNSENT_MAX       (2 * LINK_LINE_MAX) /* a shim that does not read gets no more than this */

struct shimproc {
    struct shimproc_hooks hooks;
    struct procid id;
    char *folder;
    struct event_base *base;
    struct event *death, *retry;
    int pidfd, status, retry_ms;
    bool is_dead;
    struct bufferevent *bev;
};

/* ---- the new process, before it becomes the shim ---- */

_Noreturn static void child_fail(const char *what)
{
    fprintf(stderr, "cannot start belay-shim: %s: %s\n", what, strerror(errno));
    _exit(127);
}

static void child_streams(const char *log_path)
{
    int null = open("/dev/null", O_RDONLY);
    int log = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
    if (null < 0 || log < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
        child_fail(log_path);
}

static void child_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    for (int sig = 1; sig < NSIG; sig++)
        (void)signal(sig, SIG_DFL); /* KILL, STOP and the C library's own refuse, as they may */
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

_Noreturn static void child(const char *program, const char *folder, const char *log_path,
                            const char *pid_path)
{
    struct procid self;
    struct err err;
    child_signals();
    child_streams(log_path);
    if (setsid() < 0)
        child_fail("setsid");
    if (procid_of(0, &self) < 0)
        child_fail("/proc/self/stat");
    if (procid_write_file(pid_path, &self, &err) < 0) {
        fprintf(stderr, "cannot start belay-shim: %s\n", err.text);
        _exit(127);
    }
    if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
        child_fail("close_range");
    execl(program, "belay-shim", folder, (char *)NULL);
    child_fail(program);
}

/* ---- its socket ---- */

static void schedule_retry(struct shimproc *s)
{
    struct timeval delay = {s->retry_ms / 1000, s->retry_ms % 1000 * 1000};
    s->retry_ms = s->retry_ms * 2 < CONNECT_MAX_MS ? s->retry_ms * 2 : CONNECT_MAX_MS;
    event_add(s->retry, &delay);
}

static void disconnect(struct shimproc *s)
{
    bufferevent_free(s->bev);
    s->bev = NULL;
    s->retry_ms = CONNECT_FIRST_MS;
    schedule_retry(s);
    s->hooks.disconnected(s->hooks.ctx);
}

static int on_message(void *ctx, const json_t *msg, struct err *err)
{
    (void)err;
    struct shimproc *s = ctx;
    s->hooks.message(s->hooks.ctx, msg);
    return 0;
}

static void on_readable(struct bufferevent *bev, void *ctx)
{
    struct shimproc *s = ctx;
    struct err err;
    if (jsonline_receive(bev, on_message, s, &err) < 0) {
        log_warn("%s: closing the connection to belay-shim: %s", s->folder, err.text);
        disconnect(s);
    }
}

static void on_event(struct bufferevent *bev, short what, void *ctx)
{
    (void)bev;
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
        disconnect(ctx);
}

static void try_connect(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct shimproc *s = ctx;
    char *path = str_printf("%s/shim.sock", s->folder);
    struct err ignored; /* it is not up yet, or on its way out: tried again until it is dead */
    int sock = unixsock_connect(path, 1, &ignored);
    free(path);
    if (sock < 0) {
        schedule_retry(s);
        return;
    }
    s->bev = bufferevent_socket_new(s->base, sock, BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(s->bev, on_readable, NULL, on_event, s);
    bufferevent_setwatermark(s->bev, EV_READ, 0, LINK_LINE_MAX + 2);
    bufferevent_enable(s->bev, EV_READ | EV_WRITE);
    s->hooks.connected(s->hooks.ctx);
}

/* ---- its end ---- */

static void drop_connection(struct shimproc *s)
{
    if (s->bev)
        bufferevent_free(s->bev);
    s->bev = NULL;
    event_del(s->retry);
}

/* What it still said before it died is in the socket; what it decided is in state.json. */
static void on_death(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct shimproc *s = ctx;
    int status;
    if (s->is_dead)
        return;
    s->is_dead = true;
    if (s->status == SHIMPROC_STATUS_UNKNOWN && waitpid(s->id.pid, &status, WNOHANG) == s->id.pid)
        s->status = status;
    drop_connection(s);
    s->hooks.dead(s->hooks.ctx, s->status); /* may free s */
}

void shimproc_reaped(struct shimproc *s, int wait_status)
{
    s->status = wait_status;
    event_active(s->death, EV_READ, 0);
}

/* ---- making and freeing ---- */

static struct shimproc *new_shimproc(struct event_base *base, const struct procid *id, const char *folder,
                                     const struct shimproc_hooks *hooks, int pidfd)
{
    struct shimproc *s = mem_zero(1, sizeof *s);
    s->base = base;
    s->hooks = *hooks;
    s->id = *id;
    s->folder = str_dup(folder);
    s->status = SHIMPROC_STATUS_UNKNOWN;
    s->retry_ms = CONNECT_FIRST_MS;
    s->pidfd = pidfd;
    s->death = event_new(base, pidfd, EV_READ, on_death, s);
    s->retry = event_new(base, -1, 0, try_connect, s);
    event_add(s->death, NULL);
    schedule_retry(s);
    return s;
}

static int open_pidfd(pid_t pid, struct err *err)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    return fd >= 0 ? fd : err_sys(err, "cannot watch belay-shim (pid %ld)", (long)pid);
}

struct shimproc *shimproc_attach(struct event_base *base, const struct procid *id, const char *folder,
                                 const struct shimproc_hooks *hooks, struct err *err)
{
    int pidfd = open_pidfd(id->pid, err);
    if (pidfd < 0)
        return NULL;
    if (!procid_alive(
            id)) { /* looked at after opening: the pidfd is of this very process or the number was reused */
        err_set(err, "belay-shim (pid %ld) is gone", (long)id->pid);
        close(pidfd);
        return NULL;
    }
    return new_shimproc(base, id, folder, hooks, pidfd);
}

struct shimproc *shimproc_start(struct event_base *base, const char *program, const char *folder,
                                const struct shimproc_hooks *hooks, struct err *err)
{
    char *log_path = str_printf("%s/shim.log", folder), *pid_path = str_printf("%s/shim.pid", folder);
    pid_t pid = fork();
    if (pid == 0)
        child(program, folder, log_path, pid_path);
    free(log_path);
    free(pid_path);
    if (pid < 0) {
        err_sys(err, "cannot fork belay-shim");
        return NULL;
    }
    struct procid id = {.pid = pid};
    int pidfd = open_pidfd(pid, err); /* it is an unreaped child: the number cannot be another's */
    if (pidfd < 0 || procid_of(pid, &id) < 0) {
        if (pidfd >= 0)
            close(pidfd);
        kill(pid, SIGKILL);
        err_prefix(err, "the new belay-shim was killed");
        return NULL;
    }
    return new_shimproc(base, &id, folder, hooks, pidfd);
}

void shimproc_free(struct shimproc *s)
{
    if (!s)
        return;
    drop_connection(s);
    event_free(s->retry);
    event_free(s->death);
    close(s->pidfd);
    free(s->folder);
    free(s);
}

bool shimproc_send(struct shimproc *s, const json_t *msg)
{
    if (!s->bev || evbuffer_get_length(bufferevent_get_output(s->bev)) > UNSENT_MAX)
        return false;
    jsonline_send(s->bev, msg);
    return true;
}

bool shimproc_connected(const struct shimproc *s)
{
    return s->bev != NULL;
}

void shimproc_kill(struct shimproc *s)
{
    (void)procid_kill(&s->id, SIGKILL); /* already gone: then `dead` is on its way */
}

pid_t shimproc_pid(const struct shimproc *s)
{
    return s->id.pid;
}
