/* belay events: the event log, newest last; -f goes on. */
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/mem.h"
#include "launcher/args.h"
#include "launcher/client.h"
#include "launcher/eventview.h"
#include "launcher/find.h"
#include "launcher/longpoll.h"
#include "launcher/output.h"

#define SHOWN_MAX      100000
#define EMPTY_PAUSE_MS 100 /* a server with too many who wait answers at once */

struct events {
    struct client *client;
    struct args args;
    const char *job, *node;
    bool follow;
    int64_t tail;
    char *filter; /* "&job=7&node=node0" */
};

static int make_filter(struct events *e)
{
    int64_t id = 0;
    char *node = e->node ? client_escape(e->node) : NULL;
    int rc = e->job ? find_job(e->client, e->job, true, &id) : CLI_DONE;
    char *job = id ? str_printf("&job=%lld", (long long)id) : str_dup("");
    e->filter = str_printf("%s%s%s", job, node ? "&node=" : "", node ? node : "");
    free(job);
    free(node);
    return rc;
}

static void show_rows(const struct events *e, const json_t *list)
{
    size_t i;
    json_t *event;
    json_array_foreach(list, i, event)
    {
        if (e->args.output == OUTPUT_JSON)
            output_json_line(event);
        else
            eventview_row(stdout, event);
    }
}

static void show(const struct events *e, const json_t *list)
{
    if (e->follow)
        show_rows(e, list);
    else if (e->args.output == OUTPUT_JSON)
        output_json(list);
    else if (json_array_size(list) == 0)
        printf("No events.\n");
    else
        eventview_table(list, e->args.output == OUTPUT_WIDE);
}

/* Until Ctrl-C, or belayd stays away. */
static int follow(const struct events *e, int64_t last)
{
    struct longpoll *poll = longpoll_new(e->client);
    int64_t not_before = 0;
    int rc = CLI_DONE;
    while (rc == CLI_DONE) {
        struct client_reply reply;
        longpoll_ask(poll, not_before, "/v1/events?after=%lld&wait=%d%s", (long long)last, CLIENT_POLL_S,
                     e->filter);
        enum longpoll_result result;
        while ((result = longpoll_step(poll, &reply)) == LONGPOLL_NOTHING) {
            int pause = longpoll_pause(poll);
            client_wait(e->client, -1, pause < 1000 ? pause : 1000);
        }
        if (result == LONGPOLL_FAILED)
            rc = cli_fail(reply.exit_code, "%s", reply.err.text);
        else
            show_rows(e, reply.body);
        last = eventview_last(reply.body, last);
        not_before = json_array_size(reply.body) ? 0 : clock_boot_ms() + EMPTY_PAUSE_MS;
        client_reply_clear(&reply);
    }
    longpoll_free(poll);
    return rc;
}

static int run(struct events *e)
{
    json_t *list = NULL;
    int rc = make_filter(e);
    if (rc == CLI_DONE)
        rc = client_call(e->client, "GET", NULL, &list, "/v1/events?limit=%lld%s", (long long)e->tail,
                         e->filter);
    if (rc == CLI_DONE) {
        show(e, list);
        fflush(stdout);
        if (e->follow)
            rc = follow(e, eventview_last(list, 0));
    }
    json_decref(list);
    free(e->filter);
    return rc;
}

static int events(const struct command *self, int argc, char **argv)
{
    struct events e = {.tail = 200};
    const struct args_option options[] = {
        ARGS_OPTION_FLAG("follow", 'f', &e.follow, "go on as events happen"),
        ARGS_OPTION_TEXT("job", 'j', &e.job, "JOB", "only those of this job"),
        ARGS_OPTION_TEXT("node", 0, &e.node, "NODE", "only those of this node"),
        ARGS_OPTION_COUNT("tail", 'n', &e.tail, 1, SHOWN_MAX, "N", "the newest N (200)"),
    };
    int rc = args_parse(self, options, sizeof options / sizeof *options, argc, argv, &e.args);
    if (rc != ARGS_GO)
        return rc;
    e.client = client_open(e.args.dir);
    rc = run(&e);
    client_close(e.client);
    args_clear(&e.args);
    return rc;
}

const struct command command_events = {
    .name = "events",
    .args = "",
    .help = "Shows what has happened: every change of a job, an attempt or a node, newest last",
    .examples = "  belay events -f\n  belay events --job 7 -o json\n  belay events --node node2 --tail 20\n",
    .listing = true,
    .run = events,
};
