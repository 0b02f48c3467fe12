/* nodes_named: does something with each node named on the command line. */
#ifndef BELAY_LAUNCHER_NODES_NAMED_H
#define BELAY_LAUNCHER_NODES_NAMED_H

#include "launcher/args.h"
#include "launcher/client.h"

#define NODES_NAMED_MAX 100000

/* Calls fn for each node of the words of args, which may be host lists such as gpu[001-004] (escaped: fit for a path). Before anything is
 * done, a list that cannot be read is CLI_USAGE, and where `done` is given ("drained") several of which the cluster does not have all are
 * CLI_NO_SUCH, with one sentence that ends with "nothing was " and done. All nodes are tried unless belayd cannot be reached; returns the
 * first exit code that is not CLI_DONE. */
int nodes_named_each(const struct args *args, struct client *client, const char *done,
                     int (*fn)(void *ctx, const char *name, const char *escaped), void *ctx);

#endif
