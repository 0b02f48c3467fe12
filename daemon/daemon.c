/* daemon: start, run, end.
 *
 * The directory is locked (flock on the directory itself, gone with the process) before anything in it is touched: two
 * controllers never share one. Start order: lock, secret, store → core, sockets, then the port and pid files, so that who finds
 * those finds a daemon that answers. At the end waiting clients are told, and jobs, agents and nodes are left as they are. */
#include "daemon/daemon.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/procid.h"
#include "daemon/agent_link.h"
#include "daemon/rest.h"
#include "daemon/secret.h"
#include "daemon/store.h"
#include "daemon/turn.h"

#define FLUSH_MS 200 /* for the last answers to leave */

struct daemon {
    const struct config *config;
    int lock_fd;
    char *secret, *pid_path, *port_path, *socket_path;
    struct event_base *base;
    struct event *sigterm, *sigint;
    struct store *store;
    struct core *core;
    struct turn *turn;
    struct agent_link *link;
    struct rest *rest;
};

static char *path_in(const struct daemon *d, const char *name)
{
    return str_printf("%s/%s", d->config->dir, name);
}

static int lock_dir(struct daemon *d, struct err *err)
{
    d->lock_fd = open(d->config->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->lock_fd < 0)
        return err_sys(err, "cannot open the folder %s", d->config->dir);
    if (flock(d->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno != EWOULDBLOCK)
        return err_sys(err, "cannot lock the folder %s", d->config->dir);
    return err_set(err, "another belayd runs on %s (see %s): stop that one first, or use another --dir",
                   d->config->dir, d->pid_path);
}

/* Thousands of agents and clients need as many descriptors; a refusal leaves what there is. */
static void raise_limits(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        log_warn("the number of open files stays limited: %s", strerror(errno));
}

/* ---- state ---- */

static void load_node(void *core, struct node_record *node)
{
    core_load_node(core, node);
}

static void load_job(void *core, struct job_record *job)
{
    core_load_job(core, job);
}

static void load_attempt(void *core, struct attempt_record *attempt)
{
    core_load_attempt(core, attempt);
}

static void load_checkpoint(void *core, const struct checkpoint_record *checkpoint)
{
    core_load_checkpoint(core, checkpoint);
}

static void load_next_ids(void *core, int64_t next_job, int64_t next_event)
{
    core_load_next_ids(core, next_job, next_event);
}

/* Tokens of attempts are secrets, so the core's seed is true randomness. */
static int seeded(struct core_config *config, struct err *err)
{
    if (getrandom(&config->seed, sizeof(config->seed), 0) != (ssize_t)sizeof(config->seed))
        return err_sys(err, "cannot get random bytes");
    return 0;
}

static int open_state(struct daemon *d, struct err *err)
{
    static const struct store_sink sink = {load_node, load_job, load_attempt, load_checkpoint, load_next_ids};
    struct core_config config = d->config->core;
    char *path = path_in(d, "belayd.db");
    d->store = seeded(&config, err) == 0 ? store_open(path, err) : NULL;
    free(path);
    if (!d->store)
        return -1;
    d->core = core_new(&config, turn_time());
    return store_load(d->store, &sink, d->core, err);
}

/* ---- loop ---- */

static void on_signal(evutil_socket_t sig, short what, void *ctx)
{
    struct daemon *d = ctx;
    const struct timeval flush = {.tv_usec = FLUSH_MS * 1000};
    (void)what;
    log_info("signal %d: shutting down; jobs go on without the controller", (int)sig);
    rest_stop(d->rest);
    event_base_loopexit(d->base, &flush);
}

static void on_disk_failure(void *ctx, const struct err *why)
{
    struct daemon *d = ctx;
    const struct timeval flush = {.tv_usec = FLUSH_MS * 1000};
    (void)why;
    rest_stop(d->rest);
    event_base_loopexit(d->base, &flush);
}

static int start_loop(struct daemon *d, struct err *err)
{
    d->base = event_base_new();
    if (!d->base || event_base_priority_init(d->base, TURN_PRIORITIES) != 0)
        return err_set(err, "cannot make an event loop");
    signal(SIGPIPE, SIG_IGN); /* both become errors of the write concerned */
    signal(SIGXFSZ, SIG_IGN);
    d->sigterm = evsignal_new(d->base, SIGTERM, on_signal, d);
    d->sigint = evsignal_new(d->base, SIGINT, on_signal, d);
    if (!d->sigterm || !d->sigint || event_add(d->sigterm, NULL) != 0 || event_add(d->sigint, NULL) != 0)
        return err_set(err, "cannot watch signals");
    d->turn = turn_new(d->base, d->core, d->store, on_disk_failure, d);
    return 0;
}

/* The port of the last run, 0 when not known. */
static int last_port(const struct daemon *d)
{
    char *text = fs_read(d->port_path, 64, NULL, NULL);
    long port = text ? strtol(text, NULL, 10) : 0;
    free(text);
    return port > 0 && port < 65536 ? (int)port : 0;
}

static int open_sockets(struct daemon *d, struct err *err)
{
    const struct agent_link_config link = {.host = d->config->listen,
                                           .secret = d->secret,
                                           .port = d->config->port,
                                           .preferred_port = last_port(d),
                                           .heartbeat_ms = d->config->heartbeat_ms};
    d->link = agent_link_new(d->base, d->turn, &link, err);
    if (!d->link)
        return -1;
    d->rest = rest_new(d->base, d->turn, d->link, d->config->dir, d->socket_path, err);
    return d->rest ? 0 : -1;
}

static int write_files(const struct daemon *d, struct err *err)
{
    struct procid me;
    char *port = str_printf("%d\n", agent_link_port(d->link));
    int rc = fs_write_durable(d->port_path, port, strlen(port), 0644, err);
    free(port);
    if (rc == 0 && procid_of(0, &me) != 0)
        rc = err_set(err, "cannot read my own entry in /proc");
    return rc == 0 ? procid_write_file(d->pid_path, &me, err) : rc;
}

static int start(struct daemon *d, struct err *err)
{
    char *secret_path = path_in(d, "secret");
    d->pid_path = path_in(d, "belayd.pid");
    d->port_path = path_in(d, "belayd.port");
    d->socket_path = path_in(d, "belayd.sock");
    raise_limits();
    int rc = lock_dir(d, err);
    if (rc == 0 && !(d->secret = secret_load(secret_path, err)))
        rc = -1;
    free(secret_path);
    if (rc != 0 || open_state(d, err) != 0 || start_loop(d, err) != 0 || open_sockets(d, err) != 0)
        return -1;
    turn_poke(d->turn); /* what the core wants to do at once, and its first timer */
    return write_files(d, err);
}

/* Only a daemon that holds the lock removes files. The port file stays: it is where the next run listens. */
static void remove_files(const struct daemon *d)
{
    if (!d->rest)
        return;
    (void)unlink(d->socket_path); /* a leftover is replaced at the next start */
    (void)unlink(d->pid_path);
}

static void free_event(struct event *ev)
{
    if (ev)
        event_free(ev);
}

static void clear(struct daemon *d)
{
    remove_files(d);
    agent_link_free(d->link); /* answers open log questions: before REST */
    rest_free(d->rest);
    turn_free(d->turn);
    core_free(d->core);
    store_close(d->store);
    free_event(d->sigterm);
    free_event(d->sigint);
    if (d->base)
        event_base_free(d->base);
    free(d->secret);
    free(d->pid_path);
    free(d->port_path);
    free(d->socket_path);
    if (d->lock_fd >= 0)
        close(d->lock_fd);
}

static int run(struct daemon *d, struct err *err)
{
    log_info("belayd %s on %s, agents at %s:%d", BELAY_VERSION, d->config->dir, d->config->listen,
             agent_link_port(d->link));
    if (event_base_dispatch(d->base) < 0)
        return err_set(err, "the event loop failed");
    turn_run(d->turn); /* nothing accepted stays unwritten */
    const struct err *failure = turn_failure(d->turn);
    return failure ? err_set(err, "%s", failure->text) : 0;
}

int daemon_run(const struct config *config, struct err *err)
{
    struct daemon d = {.config = config, .lock_fd = -1};
    int rc = start(&d, err);
    if (rc == 0)
        rc = run(&d, err);
    clear(&d);
    return rc;
}
