/* sweep: kills in rounds a few milliseconds apart, because a dying program may still fork and a killed process takes a moment.
 *
 * Three nets (less what names another node as its own): the attempt's cgroup, BELAY_TOKEN in the environment, and orphans: the agent is a subreaper, so what a shim's tree
 * leaves behind becomes the agent's child. The agent forks nothing but shims, so every other child is such an orphan; what an orphan
 * leaves behind is the next round's orphan. */
#include "agent/sweep.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fsutil.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/proctree.h"

#define ROUND_MS    5
#define COMPLAIN_MS 10000

struct sweep {
    struct sweep_target target;
    char *what, *token, *cgroup, *node;
    struct event *timer;
    int64_t complain_ms;
    size_t killed;
};

static size_t kill_orphans(struct sweep *s)
{
    char path[64];
    size_t n = 0;
    snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
    char *list = fs_read(path, 1u << 20, NULL, NULL);
    for (char *p = list, *end; p && *p; p = end) {
        long pid = strtol(p, &end, 10);
        if (end == p)
            break;
        if (s->target.is_shim(s->target.ctx, (pid_t)pid))
            continue;
        (void)kill((pid_t)pid, SIGKILL); /* a child that only this program reaps: the number is its own */
        n++;
    }
    free(list);
    return n;
}

static size_t kill_round(struct sweep *s)
{
    struct proctree tree = {.cgroup = s->cgroup, .token = s->token, .node = s->node};
    size_t found = s->token || s->cgroup ? proctree_signal(&tree, SIGKILL) : 0;
    return found + kill_orphans(s);
}

static void complain(struct sweep *s, size_t left)
{
    if (clock_boot_ms() < s->complain_ms)
        return;
    log_warn(
        "%s: %zu processes do not die although killed (waiting for the disk or a device?); going on trying",
        s->what, left);
    s->complain_ms = clock_boot_ms() + COMPLAIN_MS;
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct sweep *s = ctx;
    size_t left = kill_round(s);
    if (left == 0) {
        s->target.done(s->target.ctx, s->killed); /* may free s */
        return;
    }
    s->killed = left > s->killed ? left : s->killed;
    complain(s, left);
    struct timeval delay = {0, ROUND_MS * 1000};
    event_add(s->timer, &delay);
}

struct sweep *sweep_start(struct event_base *base, const struct sweep_target *target)
{
    struct sweep *s = mem_zero(1, sizeof *s);
    s->target = *target;
    s->what = str_dup(target->what);
    s->token = str_dup(target->token);
    s->cgroup = str_dup(target->cgroup);
    s->node = str_dup(target->node);
    s->complain_ms = clock_boot_ms() + COMPLAIN_MS;
    s->timer = event_new(base, -1, 0, on_timer, s);
    event_active(s->timer, EV_TIMEOUT, 0);
    return s;
}

void sweep_free(struct sweep *s)
{
    if (!s)
        return;
    event_free(s->timer);
    free(s->what);
    free(s->token);
    free(s->cgroup);
    free(s->node);
    free(s);
}
