/* nodes_named: does something with each node named on the command line. */
#ifndef BELAY_LAUNCHER_NODES_NAMED_H
#define BELAY_LAUNCHER_NODES_NAMED_H

#include "launcher/args.h"

#define NODES_NAMED_MAX 100000

/* Calls fn for each node of the words of args, which may be host lists such as gpu[001-004] (escaped: fit for a path). A list that cannot be
 * read is CLI_USAGE, before anything is done. All nodes are tried unless belayd cannot be reached; returns the first exit code that is not
 * CLI_DONE. */
int nodes_named_each(const struct args *args, int (*fn)(void *ctx, const char *name, const char *escaped),
                     void *ctx);

#endif
