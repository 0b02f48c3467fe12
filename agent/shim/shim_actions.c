/* shim_actions: what the rules of shim_table do. Each leaves the report's phase right for the state it was entered with;
 * launching and sweeping fire the events that follow from how they went. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/shim/rank_env.h"
#include "agent/shim/shim_private.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/proctree.h"

#define SWEEP_FIRST_MS   2
#define SWEEP_SLOWEST_MS 200
#define SWEEP_WORRY_MS   5000 /* after this the report says which processes cannot be killed */
#define NAMES_MAX        8    /* of them */

void shim_set_reason(struct shim *s, const char *text)
{
    struct link_report *report = state_report(s->state);
    snprintf(report->reason, sizeof report->reason, "%s", text);
    state_changed(s->state);
}

static void report_phase(struct shim *s)
{
    int phase = shim_phase(s->at);
    if (phase >= 0)
        state_report(s->state)->phase = (enum report_phase)phase;
    state_changed(s->state);
}

static void arm(struct event *timer, int64_t ms)
{
    struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    evtimer_add(timer, &tv);
}

static void give_back(struct shim *s)
{
    notify_drain(s->notify);
    ranks_drain_logs(s->ranks);
    notify_free(s->notify);
    s->notify = NULL;
    tier_end_ranks(s->tier);
    wireup_end(s->wireup);
    prepared_clear(&s->prepared);
}

static void do_refuse(struct shim *s)
{
    give_back(s);
    tier_free(s->tier); /* the shim that it was taken over from has it still */
    s->tier = NULL;
    report_phase(s);
    log_error("refused: %s", state_report(s->state)->reason);
}

/* The newest checkpoint of the program that is still there, or NULL. */
static const char *resume_from(const struct link_order *order)
{
    for (size_t i = 0; i < order->n_resume; i++) {
        if (access(order->resume[i], F_OK) == 0) {
            log_info("the ranks find BELAY_RESUME_FROM=%s", order->resume[i]);
            return order->resume[i];
        }
        log_warn("the checkpoint %s is not there (%s): the one announced before it is taken",
                 order->resume[i], strerror(errno));
    }
    return NULL;
}

/* The environments of all ranks, or NULL with a sentence. */
static char ***make_environments(struct shim *s, struct err *err)
{
    struct rank_env in = {.order = &s->order,
                          .who = &s->prepared.who,
                          .scratch = s->prepared.scratch,
                          .job_file = s->prepared.job_file,
                          .notify_socket = s->prepared.notify_socket,
                          .memory_socket = s->prepared.memory_socket,
                          .resume_from = resume_from(&s->order)};
    char ***envs = mem_zero(s->order.n_ranks + 1, sizeof *envs);
    for (size_t i = 0; i < s->order.n_ranks; i++) {
        envs[i] = rank_env_build(&in, i, s->prepared.inherited);
        if (wireup_env(s->wireup, s->order.ranks[i].rank, &envs[i], err) != 0) {
            for (size_t k = 0; k <= i; k++)
                envlist_free(envs[k]);
            free(envs);
            return NULL;
        }
        rank_env_apply_job(&envs[i], &s->order);
    }
    return envs;
}

static char ***before_launch(struct shim *s, struct err *err)
{
    const char *node = s->order.map[s->order.node_rank].node;
    if (wireup_start_server(s->wireup, &s->order, s->prepared.pmix_dir, node, err) != 0 ||
        wireup_go(s->wireup, &s->order, s->prepared.who.uid, s->prepared.who.gid, err) != 0)
        return NULL;
    if (s->tier)
        tier_go(s->tier, &s->order);
    return make_environments(s, err);
}

static void do_launch(struct shim *s)
{
    struct err err = {""};
    char ***envs = before_launch(s, &err);
    if (!envs) {
        shim_set_reason(s, err.text);
        shim_fire(s, SHIM_EV_UNFIT);
        return;
    }
    if (s->prepared.master_fd >= 0)
        close(s->prepared.master_fd); /* held until now; rank 0 is about to bind it */
    s->prepared.master_fd = -1;
    if (ranks_start(s->ranks, (char **const *)envs, &err) != 0) {
        shim_set_reason(s, err.text);
        shim_fire(s, ranks_alive(s->ranks) ? SHIM_EV_KILL : SHIM_EV_UNFIT);
    }
    for (size_t i = 0; i < s->order.n_ranks; i++)
        envlist_free(envs[i]);
    free(envs);
}

/* The earliest end any stop order asked for; the grace counts from the first one. */
static void do_regrace(struct shim *s)
{
    int64_t ends_ms = s->stop_since_ms + s->order.grace_ms;
    if (ends_ms < s->grace_ends_ms)
        s->grace_ends_ms = ends_ms;
    int64_t left_ms = s->grace_ends_ms - clock_boot_ms();
    arm(s->grace, left_ms > 0 ? left_ms : 0);
}

static void do_stop(struct shim *s)
{
    s->stop_since_ms = clock_boot_ms();
    s->grace_ends_ms = INT64_MAX;
    ranks_set_stopping(s->ranks);
    ranks_signal(s->ranks, SIGTERM);
    do_regrace(s);
    report_phase(s);
}

static struct proctree attempt_tree(const struct shim *s)
{
    struct proctree tree = {.cgroup = s->prepared.cgroup, .root = getpid()};
    if (s->order.n_map >
        0) { /* before go, whoever carries the token belongs to another (pretend) node of this host */
        tree.token = s->order.token;
        tree.node = s->order.map[s->order.node_rank].node;
    }
    return tree;
}

/* Says once, in words, what cannot be killed (processes in uninterruptible sleep, as a rule on a dead file system). */
static void worry(struct shim *s, const pid_t *pids, size_t n)
{
    if (s->worried || clock_boot_ms() - s->sweep_since_ms < SWEEP_WORRY_MS)
        return;
    s->worried = true;
    char text[256];
    size_t at = (size_t)snprintf(
        text, sizeof text,
        "%zu processes do not die of SIGKILL (uninterruptible sleep, perhaps on a file system that is away):",
        n);
    for (size_t i = 0; i < n && i < NAMES_MAX; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, " %d", (int)pids[i]);
    log_error("%s", text);
    shim_set_reason(s, text);
}

/* How many processes were seen, the dying included; 0 = nobody is left (proctree.h says why these three). */
static size_t kill_round(struct shim *s)
{
    struct proctree tree = attempt_tree(s);
    pid_t *pids;
    size_t seen = proctree_signal(&tree, SIGKILL);
    seen += ranks_reap(s->ranks);
    size_t n = proctree_list(&tree, &pids);
    if (n > 0)
        worry(s, pids, n);
    free(pids);
    return seen + n;
}

void shim_sweep_once(struct shim *s)
{
    if (kill_round(s) == 0 && ranks_alive(s->ranks) == 0) {
        shim_fire(s, SHIM_EV_SWEPT);
        return;
    }
    arm(s->sweep, s->sweep_wait_ms);
    s->sweep_wait_ms = s->sweep_wait_ms * 2 < SWEEP_SLOWEST_MS ? s->sweep_wait_ms * 2 : SWEEP_SLOWEST_MS;
}

static void do_sweep(struct shim *s)
{
    evtimer_del(s->grace);
    s->sweep_since_ms = clock_boot_ms();
    s->sweep_wait_ms = SWEEP_FIRST_MS;
    if (s->order.phase == ORDER_STOP || s->exit_when_gone) {
        ranks_set_stopping(s->ranks);
        state_report(s->state)->phase = REPORT_STOPPING;
        state_changed(s->state);
    }
    ranks_signal(s->ranks, SIGKILL);
    shim_sweep_once(s);
}

static void do_bury(struct shim *s)
{
    give_back(s);
    report_phase(s);
    log_info("no process of this attempt is left");
}

void shim_act(struct shim *s, enum shim_action action)
{
    switch (action) {
    case SHIM_DO_NOTHING:
        break;
    case SHIM_DO_REPORT:
        report_phase(s);
        break;
    case SHIM_DO_REFUSE:
        do_refuse(s);
        break;
    case SHIM_DO_LAUNCH:
        do_launch(s);
        break;
    case SHIM_DO_STOP:
        do_stop(s);
        break;
    case SHIM_DO_REGRACE:
        do_regrace(s);
        break;
    case SHIM_DO_SWEEP:
        do_sweep(s);
        break;
    case SHIM_DO_BURY:
        do_bury(s);
        break;
    }
}
