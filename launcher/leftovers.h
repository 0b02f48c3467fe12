/* leftovers: attempts on this host whose agent is gone, found by their attempt folders and ended.
 *
 * An agent that is told to go (SIGINT) ends its attempts itself; but one that was killed leaves its shims running, and one that
 * was killed together with them leaves their scratch folders. */
#ifndef BELAY_LAUNCHER_LEFTOVERS_H
#define BELAY_LAUNCHER_LEFTOVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Waits (a second at most) until an agent that was just killed is no longer in the middle of starting a shim: the new process
 * holds the agent's lock until its shim.pid is written. Holding the lock also keeps another agent away. An fd to close, or -1. */
int leftovers_lock(const char *agent_dir);

/* Ends every attempt below agent_dir: kindly = SIGTERM to living shims, which then end their ranks and remove their scratch; else SIGKILL to
 * every process (ranks first, then the shim). Returns how many it found alive; call until 0. *pid becomes the pid of one. */
size_t leftovers_end(const char *agent_dir, bool kindly, pid_t *pid);

/* Removes what dead shims left outside of agent_dir: scratch folders and cgroups. Only after leftovers_end found nothing. */
void leftovers_clean(const char *agent_dir);

#endif
