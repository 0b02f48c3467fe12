/* sweep: ends what a dead shim left behind, and says when it is gone. */
#ifndef BELAY_AGENT_SWEEP_H
#define BELAY_AGENT_SWEEP_H

#include <event2/event.h>
#include <stdbool.h>
#include <sys/types.h>

struct sweep;

struct sweep_target {
    const char *what;           /* for the log: "job 7 attempt 2" */
    const char *token, *cgroup; /* NULL = not known */
    const char *node;           /* this node: several agents of one host may hold parts of the same attempt */
    bool (*is_shim)(void *ctx,
                    pid_t pid); /* tells a living shim of this agent from an orphan of a dead one */
    void (*done)(void *ctx,
                 size_t killed); /* nothing is left; called once from the loop, sweep_free is allowed in it */
    void *ctx;
};

/* Starts at once: SIGKILL to every process of the attempt, again and again until none is found. Copies the target. */
struct sweep *sweep_start(struct event_base *base, const struct sweep_target *target);
void sweep_free(struct sweep *s);

#endif
