/* ranks: the processes of this node's ranks, from fork to exit status. */
#ifndef BELAY_AGENT_SHIM_RANKS_H
#define BELAY_AGENT_SHIM_RANKS_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/shim/prepare.h"
#include "common/err.h"
#include "schema/link.h"

struct ranks;

struct ranks_events {
    void (*changed)(void *ctx);     /* something in the report's ranks */
    void (*before_exit)(void *ctx); /* a rank has ended: the last chance to hear what it said before */
};

/* Nothing runs yet. reports (n of them, one a rank of the order) are kept up to date. All arguments must outlive the result. */
struct ranks *ranks_new(struct event_base *base, const struct link_order *order,
                        const struct prepared *prepared, struct link_rank *reports,
                        const struct ranks_events *events, void *ctx);

/* Closes logs and events. Does not end processes. */
void ranks_free(struct ranks *r);

/* Opens the logs and forks every rank; envs[i] is the environment of the i-th. Whether they could be exec'd is seen later, in
 * the reports. 0, or -1 with a sentence when not all were forked (those that were are then still to be ended). */
int ranks_start(struct ranks *r, char **const *envs, struct err *err);

size_t ranks_waiting(const struct ranks *r); /* not yet known to be exec'd */
size_t ranks_alive(const struct ranks *r);   /* forked and not yet reaped */

/* Signals the process group of each living rank. */
void ranks_signal(struct ranks *r, int sig);
/* Words in a rank's `why` will say that it ended because it was told to. */
void ranks_set_stopping(struct ranks *r);

/* The rank called MPI_Abort(code): ends its processes; its report gets that code. */
void ranks_abort(struct ranks *r, int64_t rank, int code);

/* Signals one rank's own process. */
void ranks_signal_one(struct ranks *r, int64_t rank, int sig);

/* Collects every child that has ended: ranks, and orphans that were given to the shim. Returns how many. */
size_t ranks_reap(struct ranks *r);

/* Reads what is left in the pipes into the logs. */
void ranks_drain_logs(struct ranks *r);

/* The rank in whose process tree or session `pid` is, or -1. */
int64_t ranks_of_pid(const struct ranks *r, pid_t pid);
struct link_rank *ranks_report(struct ranks *r, int64_t rank); /* NULL when it is not local */

/* "killed by signal 11 (SIGSEGV)", "exited with code 1"; for waitid's si_code and si_status. */
void ranks_describe_exit(bool killed, bool dumped, int status, char *out, size_t size);

#endif
