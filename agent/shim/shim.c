/* shim: see the header. Every loop turn ends in turn(), which fires what follows from the ranks' states and flushes the
 * report; so many changes of one turn make one revision, and nothing is sent before it is on disk. */
#include "agent/shim/shim.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/thread.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/shim/rankmap.h"
#include "agent/shim/shim_private.h"
#include "common/jsonline.h"
#include "common/jsonx.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/scratch.h"
#include "schema/link.h"

/* ---- report ---- */

static void send_report(struct shim *s)
{
    json_t *msg = state_message(s->state);
    agent_link_send(s->agent, msg);
    json_decref(msg);
}

static void flush(struct shim *s)
{
    if (state_flush(s->state))
        send_report(s);
}

/* ---- what ranks do ---- */

static void on_rank_changed(void *ctx)
{
    struct shim *s = ctx;
    state_changed(s->state);
}

static void on_before_exit(void *ctx)
{
    struct shim *s = ctx;
    wireup_drain(s->wireup);
    notify_drain(s->notify);
}

static const struct ranks_events RANKS_EVENTS = {.changed = on_rank_changed, .before_exit = on_before_exit};

static void on_connected(void *ctx, int64_t rank)
{
    struct shim *s = ctx;
    struct link_rank *report = ranks_report(s->ranks, rank);
    if (report)
        report->connected = true;
    state_changed(s->state);
}

static void on_finalized(void *ctx, int64_t rank)
{
    struct shim *s = ctx;
    struct link_rank *report = ranks_report(s->ranks, rank);
    if (report)
        report->finalized = true;
    state_changed(s->state);
}

static void on_aborted(void *ctx, int64_t rank, int code, const char *message)
{
    struct shim *s = ctx;
    log_info("rank %lld called MPI_Abort(%d): %s", (long long)rank, code, message);
    ranks_abort(s->ranks, rank, code);
}

/* Another shim of the attempt comes for the memory tier. */
static void on_memory(void *ctx, int fd, const json_t *line)
{
    struct shim *s = ctx;
    if (s->tier)
        tier_visitor(s->tier, fd, line);
    else
        close(fd);
}

static const struct wireup_events WIREUP_EVENTS = {
    .connected = on_connected, .finalized = on_finalized, .aborted = on_aborted, .memory = on_memory};

/* ---- progress and checkpoint requests ---- */

static int64_t local_index(const struct shim *s, int64_t rank)
{
    for (size_t i = 0; i < s->order.n_ranks; i++)
        if (s->order.ranks[i].rank == rank)
            return (int64_t)i;
    return -1;
}

static void ask_checkpoint(struct shim *s, size_t i)
{
    struct asked *a = &s->asked[i];
    if (!a->wants_signal || a->counter >= s->order.checkpoint)
        return;
    a->counter = s->order.checkpoint;
    ranks_signal_one(s->ranks, s->order.ranks[i].rank, SIGUSR1);
}

static void on_progress(void *ctx, int64_t rank, json_t *values)
{
    struct shim *s = ctx;
    int64_t i = local_index(s, rank);
    if (i >= 0 && strcmp(jsonx_str_or(values, "CHECKPOINT_ON", ""), "SIGUSR1") == 0) {
        s->asked[i].wants_signal = true;
        ask_checkpoint(s, (size_t)i); /* it may have been asked for before the rank was ready to hear */
    }
    struct link_progress progress = {
        .job = s->order.job, .attempt = s->order.attempt, .rank = rank, .values = values};
    json_t *msg = link_progress_encode(&progress);
    agent_link_progress(s->agent, rank, msg);
    json_decref(msg);
}

static int64_t on_rank_of(void *ctx, pid_t pid)
{
    const struct shim *s = ctx;
    return ranks_of_pid(s->ranks, pid);
}

static bool on_is_local(void *ctx, int64_t rank)
{
    return local_index(ctx, rank) >= 0;
}

static const struct notify_events NOTIFY_EVENTS = {
    .rank_of = on_rank_of, .is_local = on_is_local, .progress = on_progress};

void shim_fire(struct shim *s, enum shim_event event)
{
    const struct shim_rule *rule = shim_rule(s->at, event);
    if (rule->next != s->at)
        log_info("%s -> %s", shim_state_name(s->at), shim_state_name(rule->next));
    s->at = rule->next;
    shim_act(s, rule->action);
}

/* ---- orders ---- */

static void take_map(struct shim *s, struct link_order *order)
{
    free(order->token); /* the overlay holds on to the first one */
    order->token = s->order.token;
    s->order.token = NULL;
    link_order_clear(&s->order);
    s->order = *order;
    *order = (struct link_order){0};
}

/* Later orders change these and nothing else. */
static void take_changes(struct shim *s, struct link_order *order)
{
    if (order->n_map > 0 && s->order.n_map == 0 && s->at == SHIM_READY)
        take_map(s, order);
    else {
        if (order->phase > s->order.phase)
            s->order.phase = order->phase;
        s->order.grace_ms = order->grace_ms;
        s->order.kill = s->order.kill || order->kill;
        if (order->checkpoint > s->order.checkpoint)
            s->order.checkpoint = order->checkpoint;
    }
}

static int check_same(const struct shim *s, const struct link_order *order, struct err *err)
{
    if (order->job != s->order.job || order->attempt != s->order.attempt ||
        strcmp(order->token, s->order.token) != 0)
        return err_set(err, "an order for job %lld attempt %lld came to the shim of job %lld attempt %lld",
                       (long long)order->job, (long long)order->attempt, (long long)s->order.job,
                       (long long)s->order.attempt);
    if (order->node_rank != s->order.node_rank || order->n_ranks != s->order.n_ranks)
        return err_set(err, "a later order changes which ranks run here");
    return 0;
}

static void follow(struct shim *s)
{
    for (size_t i = 0; i < s->order.n_ranks; i++)
        ask_checkpoint(s, i);
    if (s->order.phase == ORDER_STOP) {
        if (s->order.reason && *s->order.reason && !*state_report(s->state)->reason)
            shim_set_reason(s, s->order.reason);
        shim_fire(s, s->order.kill ? SHIM_EV_KILL : SHIM_EV_STOP);
    } else if (s->order.phase == ORDER_GO && s->order.n_map > 0) {
        shim_fire(s, SHIM_EV_GO);
    }
}

static int on_order(void *ctx, const json_t *msg, struct err *err)
{
    struct shim *s = ctx;
    struct link_order order;
    if (link_order_decode(msg, &order, err) != 0)
        return -1;
    int rc = check_same(s, &order, err);
    if (rc == 0) {
        take_changes(s, &order);
        follow(s);
    }
    link_order_clear(&order);
    return rc;
}

static void on_release(void *ctx)
{
    shim_fire(ctx, SHIM_EV_RELEASE);
}

static void on_agent(void *ctx)
{
    struct shim *s = ctx;
    (void)state_flush(s->state); /* whatever is new goes out with the report below */
    send_report(s);
}

static const struct agent_link_events AGENT_EVENTS = {
    .connected = on_agent, .order = on_order, .release = on_release};

/* ---- the loop ---- */

static void turn(struct shim *s)
{
    bool started = s->at == SHIM_LAUNCHING || s->at == SHIM_RUNNING || s->at == SHIM_STOPPING;
    if (s->at == SHIM_LAUNCHING && ranks_waiting(s->ranks) == 0)
        shim_fire(s, SHIM_EV_STARTED);
    if (started && ranks_alive(s->ranks) == 0)
        shim_fire(s, SHIM_EV_ENDED);
    flush(s);
    if (s->exit_when_gone)
        shim_fire(s, SHIM_EV_RELEASE); /* ignored until gone or refused */
}

static void on_grace(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    shim_fire(arg, SHIM_EV_GRACE_OVER);
}

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    shim_sweep_once(arg);
}

static void on_signal(evutil_socket_t sig, short what, void *arg)
{
    (void)what;
    struct shim *s = arg;
    if (sig == SIGCHLD) {
        (void)ranks_reap(s->ranks);
        return;
    }
    log_info("signal %d: ending the attempt", (int)sig);
    s->exit_when_gone = true;
    if (!*state_report(s->state)->reason)
        shim_set_reason(s, "the shim was told by a signal to end the attempt");
    shim_fire(s, SHIM_EV_KILL);
}

static void make_events(struct shim *s)
{
    static const int watched[] = {SIGCHLD, SIGTERM, SIGINT};
    s->grace = evtimer_new(s->base, on_grace, s);
    s->sweep = evtimer_new(s->base, on_sweep, s);
    for (size_t i = 0; i < 3; i++) {
        s->signals[i] = evsignal_new(s->base, watched[i], on_signal, s);
        event_add(s->signals[i], NULL);
    }
}

static int open_tier(struct shim *s, struct err *err)
{
    s->tier = tier_open(s->base, &s->order, s->prepared.who.uid, s->prepared.memory_socket, s->dir, err);
    if (!s->tier)
        return -1;
    tier_take_over(s->tier, s->dir);
    return 0;
}

/* Everything that may refuse the job, before anything runs. */
static int get_ready(struct shim *s, const char *scratch, struct err *err)
{
    const char *addr = getenv("BELAY_NODE_ADDRESS"), *node = getenv("BELAY_NODE");
    if (prepare(&s->order, s->dir, scratch, &s->prepared, err) != 0)
        return -1;
    state_set_leftovers(s->state, s->prepared.scratch, s->prepared.cgroup);
    s->wireup = wireup_open(s->base, addr && rankmap_is_loopback(addr), &s->order, &WIREUP_EVENTS, s, err);
    if (!s->wireup)
        return -1;
    s->notify = notify_listen(s->base, s->prepared.notify_socket, &NOTIFY_EVENTS, s, err);
    if (!s->notify)
        return -1;
    if (node && *node && wireup_start_server(s->wireup, &s->order, s->prepared.pmix_dir, node, err) != 0)
        return -1;
    if (s->order.memory_tier && open_tier(s, err) != 0)
        return -1;
    state_report(s->state)->port = wireup_port(s->wireup);
    state_report(s->state)->master_port = s->prepared.master_port;
    return 0;
}

static void begin(struct shim *s)
{
    struct err err = {""};
    char *scratch = scratch_name(s->order.job, s->order.attempt);
    state_set_leftovers(s->state, scratch,
                        NULL); /* on disk before it is made: a shim may be killed at any moment */
    flush(s);
    int rc = get_ready(s, scratch, &err);
    free(scratch);
    if (rc == 0) {
        shim_fire(s, SHIM_EV_PREPARED);
    } else {
        shim_set_reason(s, err.text);
        shim_fire(s, SHIM_EV_UNFIT);
    }
    flush(s);
    follow(s); /* order.json may have been rewritten to go or stop before this shim was up */
}

static int read_order(struct shim *s, struct err *err)
{
    char *path = str_printf("%s/order.json", s->dir);
    json_t *obj = jsonx_read_file(path, LINK_LINE_MAX, err);
    int rc = obj ? link_order_decode(obj, &s->order, err) : -1;
    if (rc != 0)
        err_prefix(err, "%s", path);
    json_decref(obj);
    free(path);
    return rc;
}

/* One shim an attempt, ever: the lock is held until exit, and a state.json means that another has been here. */
static int claim(const char *dir, struct err *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int rc = err_sys(err, "cannot claim %s (does another shim run there?)", dir);
        if (fd >= 0)
            close(fd);
        return rc;
    }
    char *path = str_printf("%s/state.json", dir);
    int rc = access(path, F_OK) == 0
                 ? err_set(err, "%s exists: this attempt was begun before and is not begun again", path)
                 : 0;
    free(path);
    if (rc != 0)
        close(fd);
    return rc; /* fd stays open on purpose: it is the lock */
}

static int set_up(struct shim *s, struct err *err)
{
    if (claim(s->dir, err) != 0 || read_order(s, err) != 0)
        return -1;
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)evthread_use_pthreads();
    s->base = event_base_new();
    s->state = state_new(s->dir, &s->order);
    s->asked = mem_zero(s->order.n_ranks + 1, sizeof *s->asked);
    for (size_t i = 0; i < s->order.n_ranks; i++)
        s->asked[i].counter = s->order.checkpoint;
    s->ranks = ranks_new(s->base, &s->order, &s->prepared, state_report(s->state)->ranks, &RANKS_EVENTS, s);
    make_events(s);
    char *path = str_printf("%s/shim.sock", s->dir);
    s->agent = agent_link_listen(s->base, path, &AGENT_EVENTS, s, err);
    free(path);
    return s->agent ? 0 : -1;
}

static void tear_down(struct shim *s)
{
    agent_link_flush(s->agent);
    alarm(10); /* whatever a library does now, nothing waits for it: the attempt is over and reported */
    agent_link_free(s->agent);
    ranks_free(s->ranks);
    notify_free(s->notify);
    wireup_close(s->wireup);
    tier_free(s->tier);
    prepared_clear(&s->prepared);
    for (size_t i = 0; i < 3; i++)
        if (s->signals[i])
            event_free(s->signals[i]);
    if (s->grace)
        event_free(s->grace);
    if (s->sweep)
        event_free(s->sweep);
    if (s->base)
        event_base_free(s->base);
    state_free(s->state);
    free(s->asked);
    link_order_clear(&s->order);
}

int shim_run(const char *attempt_dir)
{
    struct shim s = {.dir = attempt_dir, .prepared.master_fd = -1};
    struct err err = {""};
    int rc = set_up(&s, &err);
    if (rc != 0)
        log_error("%s", err.text);
    else
        begin(&s);
    while (rc == 0 && s.at != SHIM_DONE) {
        turn(&s);
        if (s.at != SHIM_DONE && event_base_loop(s.base, EVLOOP_ONCE) != 0)
            rc = -1;
    }
    tear_down(&s);
    return rc == 0 ? 0 : 1;
}
