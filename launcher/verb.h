/* verb: what cancel, hold, release and requeue have in common: one POST per job named. */
#ifndef BELAY_LAUNCHER_VERB_H
#define BELAY_LAUNCHER_VERB_H

#include <jansson.h>

#include "launcher/args.h"

#define VERB_JOBS_MAX 100000

/* Runs `belay VERB JOB...`, the verb being the command's name. All jobs are tried; the first failure is the exit code. */
int verb_run(const struct command *self, int argc, char **argv);

/* The same with words that were read already; body (may be NULL) goes with each POST and is stolen. */
int verb_each(const struct args *args, const char *verb, json_t *body);

#endif
