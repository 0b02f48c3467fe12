/* belay describe: everything about one job (with its attempts, placement and events) or one node (with its events). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/mem.h"
#include "launcher/args.h"
#include "launcher/client.h"
#include "launcher/eventview.h"
#include "launcher/find.h"
#include "launcher/format.h"
#include "launcher/jobview.h"
#include "launcher/nodeview.h"
#include "launcher/output.h"
#include "launcher/text.h"

#define EVENTS_SHOWN 200

static void title(const char *text)
{
    bool paint = terminal_colours(stdout);
    printf("\n%s%s%s\n", paint ? colour_start(COLOUR_BOLD) : "", text, paint ? COLOUR_END : "");
}

/* ---- attempts ---- */

static const struct table_column attempt_columns[] = {
    {"ATTEMPT", true, false},  {"STATE", false, false}, {"OUTCOME", false, false},
    {"NODES", false, false},   {"STEPS", false, false}, {"LOST", false, false},
    {"STARTED", false, false}, {"ENDED", false, false}, {"REASON", false, false},
};

/* "node0,node1" of an attempt's placement, each once; fresh string. */
static char *nodes_of(const json_t *placement)
{
    json_t *seen = json_object(), *rank;
    char *all = str_dup("");
    size_t i;
    json_array_foreach(placement, i, rank)
    {
        const char *node = jsonx_str_or(rank, "node", "?");
        if (json_object_get(seen, node))
            continue;
        char *more = str_printf("%s%s%s", all, *all ? "," : "", node);
        free(all);
        all = more;
        json_object_set_new(seen, node, json_true());
    }
    json_decref(seen);
    return all;
}

static void attempt_row(struct table *t, const json_t *a)
{
    char from[FORMAT_SIZE], to[FORMAT_SIZE], time[FORMAT_SIZE];
    char *lost = jobview_lost(json_object_get(a, "lost")), *nodes = nodes_of(json_object_get(a, "placement"));
    const char *outcome = jsonx_str_or(a, "outcome", "");
    format_step(jsonx_int_or(a, "from_step", -1), 0, from);
    format_step(jsonx_int_or(a, "to_step", -1), 0, to);
    table_cell(t, COLOUR_NONE, "%lld", (long long)jsonx_int_or(a, "attempt", 0));
    table_cell(t, COLOUR_NONE, "%s", jsonx_str_or(a, "state", "?"));
    table_cell(t, colour_of_state(outcome), "%s", strcmp(outcome, "none") == 0 ? "" : outcome);
    table_cell(t, COLOUR_NONE, "%s", nodes);
    table_cell(t, COLOUR_NONE, "%s%s%s", from, *from || *to ? " → " : "", to);
    table_cell(t, COLOUR_NONE, "%s", lost);
    table_cell(t, COLOUR_NONE, "%s", format_time(jsonx_str_or(a, "started", NULL), time));
    table_cell(t, COLOUR_NONE, "%s", format_time(jsonx_str_or(a, "ended", NULL), time));
    table_cell(t, COLOUR_NONE, "%s", jsonx_str_or(a, "reason", ""));
    free(nodes);
    free(lost);
}

static void show_attempts(const json_t *attempts)
{
    size_t i;
    json_t *a;
    if (json_array_size(attempts) == 0)
        return;
    struct table *t = table_new(attempt_columns, sizeof attempt_columns / sizeof *attempt_columns, false);
    json_array_foreach(attempts, i, a)
    {
        attempt_row(t, a);
    }
    title("attempts");
    table_show(t);
}

/* ---- placement of the newest attempt ---- */

static const struct table_column rank_columns[] = {
    {"RANK", true, false},   {"NODE", false, false}, {"SLOT", true, false}, {"TP", true, false},
    {"PP", true, false},     {"CP", true, false},    {"DP", true, false},   {"PID", true, false},
    {"STATE", false, false}, {"INFO", false, false},
};

static const json_t *newest(const json_t *attempts)
{
    const json_t *best = NULL;
    size_t i;
    json_t *a;
    json_array_foreach(attempts, i, a)
    {
        if (!best || jsonx_int_or(a, "attempt", 0) > jsonx_int_or(best, "attempt", 0))
            best = a;
    }
    return best;
}

/* The report of each rank by its number (caller frees the array), so that a thousand ranks are matched in one pass. */
static const json_t **reports_by_rank(const json_t *attempt, size_t world)
{
    const json_t **by_rank = mem_zero(world + 1, sizeof(const json_t *));
    size_t i;
    json_t *r;
    json_array_foreach(json_object_get(attempt, "ranks"), i, r)
    {
        int64_t rank = jsonx_int_or(r, "rank", -1);
        if (rank >= 0 && (size_t)rank < world)
            by_rank[rank] = r;
    }
    return by_rank;
}

static void number(struct table *t, const json_t *obj, const char *key)
{
    char text[FORMAT_SIZE];
    table_cell(t, COLOUR_NONE, "%s", format_step(jsonx_int_or(obj, key, -1), 0, text));
}

static void rank_row(struct table *t, const json_t *place, const json_t *report)
{
    static const char *const mesh[] = {"slot", "tp", "pp", "cp", "dp"};
    int64_t pid = jsonx_int_or(report, "pid", 0);
    number(t, place, "rank");
    table_cell(t, COLOUR_NONE, "%s", jsonx_str_or(place, "node", ""));
    for (size_t i = 0; i < sizeof mesh / sizeof *mesh; i++)
        number(t, place, mesh[i]);
    if (pid > 0)
        number(t, report, "pid");
    else
        table_cell(t, COLOUR_NONE, "%s", "");
    table_cell(t, colour_of_state(jsonx_str_or(report, "state", "")), "%s",
               jsonx_str_or(report, "state", ""));
    table_cell(t, COLOUR_NONE, "%s", jsonx_str_or(report, "why", ""));
}

static void show_spares(const json_t *spares)
{
    size_t i;
    json_t *node;
    json_array_foreach(spares, i, node)
    {
        char *name = text_clean(json_is_string(node) ? json_string_value(node) : "?");
        printf("%s%s", i == 0 ? "spares: " : ", ", name);
        free(name);
    }
    if (json_array_size(spares) > 0)
        printf("\n");
}

static void show_placement(const json_t *attempt)
{
    const json_t *placement = json_object_get(attempt, "placement");
    size_t world = json_array_size(placement), i;
    json_t *place;
    if (world == 0)
        return;
    const json_t **reports = reports_by_rank(attempt, world);
    struct table *t = table_new(rank_columns, sizeof rank_columns / sizeof *rank_columns, false);
    json_array_foreach(placement, i, place)
    {
        int64_t rank = jsonx_int_or(place, "rank", -1);
        rank_row(t, place, rank >= 0 && (size_t)rank < world ? reports[rank] : NULL);
    }
    title("placement");
    table_show(t);
    show_spares(json_object_get(attempt, "spares"));
    free(reports);
}

static void show_events(const json_t *events)
{
    if (json_array_size(events) == 0)
        return;
    title("events");
    eventview_table(events, false);
}

/* ---- a job ---- */

static void print_job(const struct args *args, json_t *job, json_t *attempts, json_t *events)
{
    if (args->output == OUTPUT_JSON) {
        json_t *all = json_pack("{s:O,s:O,s:O}", "job", job, "attempts", attempts, "events", events);
        output_json(all);
        json_decref(all);
        return;
    }
    jobview_block(stdout, job, true);
    show_attempts(attempts);
    show_placement(newest(attempts));
    show_events(events);
}

static int describe_job(struct client *c, const struct args *args, int64_t id)
{
    json_t *job = NULL, *attempts = NULL, *events = NULL;
    int rc = client_call(c, "GET", NULL, &job, "/v1/jobs/%lld", (long long)id);
    if (rc == CLI_DONE)
        rc = client_call(c, "GET", NULL, &attempts, "/v1/jobs/%lld/attempts", (long long)id);
    if (rc == CLI_DONE)
        rc =
            client_call(c, "GET", NULL, &events, "/v1/events?job=%lld&limit=%d", (long long)id, EVENTS_SHOWN);
    if (rc == CLI_DONE)
        print_job(args, job, attempts, events);
    json_decref(job);
    json_decref(attempts);
    json_decref(events);
    return rc;
}

/* ---- a node ---- */

static void print_node(const struct args *args, json_t *node, json_t *events)
{
    if (args->output == OUTPUT_JSON) {
        json_t *all = json_pack("{s:O,s:O}", "node", node, "events", events);
        output_json(all);
        json_decref(all);
        return;
    }
    nodeview_block(node);
    show_events(events);
}

static int describe_node(struct client *c, const struct args *args, json_t *node, const char *name)
{
    json_t *events = NULL;
    int rc = client_call(c, "GET", NULL, &events, "/v1/events?node=%s&limit=%d", name, EVENTS_SHOWN);
    if (rc == CLI_DONE)
        print_node(args, node, events);
    json_decref(events);
    return rc;
}

/* A word that is no number names a node first (a job of that name still has its id). */
static int describe_word(struct client *c, const struct args *args)
{
    const char *word = args->words[0];
    int64_t id = 0;
    struct client_reply reply = {.exit_code = CLI_NO_SUCH};
    char *name = client_escape(word);
    if (word[strspn(word, "0123456789")] != '\0')
        client_try(c, "GET", NULL, &reply, "/v1/nodes/%s", name);
    int rc = reply.exit_code;
    if (rc == CLI_DONE)
        rc = describe_node(c, args, reply.body, name);
    else if (rc != CLI_NO_SUCH)
        cli_fail(rc, "%s", reply.err.text);
    else if ((rc = find_job(c, word, true, &id)) == CLI_DONE)
        rc = describe_job(c, args, id);
    client_reply_clear(&reply);
    free(name);
    return rc;
}

static int describe(const struct command *self, int argc, char **argv)
{
    struct args args;
    int rc = args_parse(self, NULL, 0, argc, argv, &args);
    if (rc != ARGS_GO)
        return rc;
    struct client *c = client_open(args.dir);
    rc = describe_word(c, &args);
    client_close(c);
    args_clear(&args);
    return rc;
}

const struct command command_describe = {
    .name = "describe",
    .args = "JOB|NODE",
    .help = "Shows everything about a job (attempts, placement, events) or a node",
    .examples = "  belay describe 7\n  belay describe node2\n",
    .min_words = 1,
    .max_words = 1,
    .listing = true,
    .run = describe,
};
