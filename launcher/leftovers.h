/* leftovers: attempts on this host whose agent is gone, found by their attempt directories and ended.
 *
 * An agent that is told to go (SIGINT) ends its attempts itself; but one that was killed leaves its shims running. */
#ifndef BELAY_LAUNCHER_LEFTOVERS_H
#define BELAY_LAUNCHER_LEFTOVERS_H

#include <stddef.h>
#include <sys/types.h>

/* Sends SIGKILL to every process of every attempt below agent_dir (ranks first, then the shim). Returns how many it found
 * alive; call until 0. When pids is not NULL it gets the pid of one of them. */
size_t leftovers_kill(const char *agent_dir, pid_t *pid);

#endif
