/* belay drain: takes nodes out of use; their jobs make a checkpoint and move. */
#include <stdio.h>
#include <string.h>

#include "common/jsonx.h"
#include "launcher/args.h"
#include "launcher/client.h"
#include "launcher/nodes_named.h"

#define LOOK_MS 200 /* how often a node is looked at while waiting */

struct drain {
    struct client *client;
    struct args args;
    const char *reason;
    int64_t deadline_ms;
    bool now, wait;
};

static json_t *request(const struct drain *d)
{
    json_t *body = json_object();
    jsonx_set_str(body, "reason", d->reason);
    jsonx_set(body, "now", json_boolean(d->now));
    if (d->deadline_ms > 0)
        jsonx_set(body, "deadline_s", json_integer((d->deadline_ms + 999) / 1000));
    return body;
}

static int drain_one(void *ctx, const char *name, const char *escaped)
{
    struct drain *d = ctx;
    json_t *node = NULL;
    int rc = client_call(d->client, "POST", request(d), &node, "/v1/nodes/%s/drain", escaped);
    if (rc == CLI_DONE)
        printf("%s is %s\n", name, jsonx_str_or(node, "state", "?"));
    fflush(stdout);
    json_decref(node);
    return rc;
}

/* CLI_DONE with *state, which belongs to *node. */
static int look(struct drain *d, const char *escaped, json_t **node, const char **state)
{
    int rc = client_call(d->client, "GET", NULL, node, "/v1/nodes/%s", escaped);
    *state = jsonx_str_or(*node, "state", "?");
    return rc;
}

static int wait_one(void *ctx, const char *name, const char *escaped)
{
    struct drain *d = ctx;
    for (;;) {
        json_t *node = NULL;
        const char *state;
        int rc = look(d, escaped, &node, &state);
        bool drained = strcmp(state, "drained") == 0, draining = strcmp(state, "draining") == 0;
        if (rc == CLI_DONE && !drained && !draining)
            rc = cli_fail(CLI_REFUSED, "%s is %s and no longer draining: %s", name, state,
                          jsonx_str_or(node, "reason", "somebody changed it"));
        json_decref(node);
        if (drained)
            printf("%s is drained\n", name);
        if (drained || rc != CLI_DONE)
            return rc;
        client_wait(d->client, -1, LOOK_MS);
    }
}

static int run(struct drain *d)
{
    if (!d->reason || !*d->reason)
        return cli_fail(CLI_USAGE, "drain: say why, for whoever finds the node drained: --reason TEXT");
    if (d->now && d->deadline_ms > 0)
        return cli_fail(CLI_USAGE, "drain: give --now or --deadline, not both");
    int rc = nodes_named_each(&d->args, d->client, "drained", drain_one, d);
    if (rc == CLI_DONE && d->wait)
        rc = nodes_named_each(&d->args, d->client, NULL, wait_one, d);
    return rc;
}

static int drain(const struct command *self, int argc, char **argv)
{
    struct drain d = {.client = NULL};
    const struct args_option options[] = {
        ARGS_OPTION_TEXT("reason", 'm', &d.reason, "TEXT", "why (required)"),
        ARGS_OPTION_DURATION("deadline", 0, &d.deadline_ms, "TIME",
                             "let jobs run on at most this long, e.g. 30m"),
        ARGS_OPTION_FLAG("now", 0, &d.now, "do not wait for a checkpoint"),
        ARGS_OPTION_FLAG("wait", 'w', &d.wait, "return only when nothing runs there any more"),
    };
    int rc = args_parse(self, options, sizeof options / sizeof *options, argc, argv, &d.args);
    if (rc != ARGS_GO)
        return rc;
    d.client = client_open(d.args.dir);
    rc = run(&d);
    client_close(d.client);
    args_clear(&d.args);
    return rc;
}

const struct command command_drain = {
    .name = "drain",
    .args = "NODE... --reason TEXT",
    .help = "Takes nodes out of use: nothing new starts there, and their jobs make a checkpoint and move",
    .examples = "  belay drain node2 --reason \"fan is loud\"\n"
                "  belay drain node2 node3 --reason upgrade --deadline 30m --wait\n"
                "  belay drain \"gpu[001-004,007]\" --reason \"new switch\"\n",
    .min_words = 1,
    .max_words = NODES_NAMED_MAX,
    .run = drain,
};
