/* find: from the word JOB on a command line to a job's id. */
#ifndef BELAY_LAUNCHER_FIND_H
#define BELAY_LAUNCHER_FIND_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/client.h"

/* All digits: an id. Else the name of the one live job called so, or (ended_too, for commands that only look) of the newest
 * job called so that has ended. CLI_DONE with *id; else prints a sentence and returns the exit code. */
int find_job(struct client *c, const char *word, bool ended_too, int64_t *id);

/* The choice alone: jobs is the server's array. Returns how many live jobs have that name; *id is the newest of them, else
 * (ended_too) the newest ended one, else 0. */
size_t find_in(const json_t *jobs, const char *name, bool ended_too, int64_t *id);

#endif
