/* belay undrain: puts drained nodes back into use. */
#include <stdio.h>

#include "common/jsonx.h"
#include "launcher/args.h"
#include "launcher/client.h"
#include "launcher/nodes_named.h"

static int undrain_one(void *ctx, const char *name, const char *escaped)
{
    json_t *node = NULL;
    int rc = client_call(ctx, "POST", NULL, &node, "/v1/nodes/%s/undrain", escaped);
    if (rc == CLI_DONE)
        printf("%s is %s\n", name, jsonx_str_or(node, "state", "?"));
    json_decref(node);
    return rc;
}

static int undrain(const struct command *self, int argc, char **argv)
{
    struct args args;
    int rc = args_parse(self, NULL, 0, argc, argv, &args);
    if (rc != ARGS_GO)
        return rc;
    struct client *c = client_open(args.dir);
    rc = nodes_named_each(&args, c, "undrained", undrain_one, c);
    client_close(c);
    args_clear(&args);
    return rc;
}

const struct command command_undrain = {
    .name = "undrain",
    .args = "NODE...",
    .help = "Puts drained nodes back into use",
    .examples = "  belay undrain node2\n  belay undrain \"gpu[001-004]\"\n",
    .min_words = 1,
    .max_words = NODES_NAMED_MAX,
    .run = undrain,
};
