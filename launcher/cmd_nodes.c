/* belay nodes: the nodes, what they hold and how they are. */
#include <stdio.h>
#include <stdlib.h>

#include "common/jsonx.h"
#include "launcher/args.h"
#include "launcher/client.h"
#include "launcher/nodeview.h"
#include "launcher/output.h"

static int show(const struct args *args, struct client *c)
{
    json_t *nodes = NULL;
    int rc = client_call(c, "GET", NULL, &nodes, "/v1/nodes");
    if (rc != CLI_DONE)
        return rc;
    if (args->output == OUTPUT_JSON)
        output_json(nodes);
    else if (json_array_size(nodes) == 0)
        printf("No node has joined yet: `belay up` starts some on this host.\n");
    else
        nodeview_table(nodes, args->output == OUTPUT_WIDE);
    json_decref(nodes);
    return CLI_DONE;
}

static int nodes(const struct command *self, int argc, char **argv)
{
    struct args args;
    int rc = args_parse(self, NULL, 0, argc, argv, &args);
    if (rc != ARGS_GO)
        return rc;
    struct client *c = client_open(args.dir);
    rc = show(&args, c);
    client_close(c);
    args_clear(&args);
    return rc;
}

const struct command command_nodes = {
    .name = "nodes",
    .args = "",
    .help = "Shows the nodes: state, slots, free slots, where they stand and the jobs on them",
    .examples = "  belay nodes\n  belay nodes -o wide\n",
    .listing = true,
    .run = nodes,
};
