/* proctree: finds and ends every process of one attempt on this host.
 *
 * A process belongs to an attempt when it is in the attempt's cgroup (v2, where usable), is a descendant of `root`, or
 * carries BELAY_TOKEN=<token> in its environment (which setsid and double forks do not shed) and is not older than `root`. */
#ifndef BELAY_COMMON_PROCTREE_H
#define BELAY_COMMON_PROCTREE_H

#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"

struct proctree {
    const char *cgroup; /* folder of a cgroup v2 made for the attempt, or NULL */
    const char *token;  /* the attempt's token */
    const char *node; /* or NULL; a token beside another BELAY_NODE does not count: nodes may share a host */
    pid_t root;       /* the shim, itself never signalled; 0 = none */
};

/* Makes a cgroup v2 named `name` below the caller's own (or the first writable) v2 hierarchy. Returns its folder (caller frees)
 * or NULL with the reason: no v2, not writable, no cgroup.kill. */
char *proctree_cgroup_make(const char *name, struct err *err);
/* Moves the calling process into it (async-signal-safe: for use between fork and exec, with an fd opened before). */
int proctree_cgroup_open(const char *cgroup); /* fd of cgroup.procs or -1 */
int proctree_cgroup_enter(int procs_fd);
void proctree_cgroup_remove(const char *cgroup);

/* Living (not zombie) processes of the attempt; *pids is fresh (caller frees). Returns how many. */
size_t proctree_list(const struct proctree *t, pid_t **pids);

/* Sends sig to each of them; SIGKILL also goes through cgroup.kill and, when root is the caller, to the process groups of its
 * children (call it before reaping them: the dead lead to the living). Returns how many were found. Nobody is left when this
 * finds none, no child had to be reaped after it, and proctree_list is empty. */
size_t proctree_signal(const struct proctree *t, int sig);

#endif
