/* belay checkpoints: the checkpoints of a job, by what belayd knows; and the way to the commands for those on storage. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/jsonx.h"
#include "launcher/args.h"
#include "launcher/client.h"
#include "launcher/find.h"
#include "launcher/format.h"
#include "launcher/output.h"
#include "launcher/table.h"

static const struct table_column columns[] = {
    {"STEP", true, false},    {"TIME", false, false},   {"SIZE", true, false}, {"STAGED", true, false},
    {"DURABLE", true, false}, {"ATTEMPT", true, false}, {"LOSS", true, true},  {"PATH", false, false},
};

/* "" when the program did not say: then it is 0, which no checkpoint has. */
static void size(struct table *t, const json_t *checkpoint)
{
    char text[FORMAT_SIZE] = "";
    int64_t bytes = jsonx_int_or(checkpoint, "bytes", 0);
    table_cell(t, COLOUR_NONE, "%s", bytes > 0 ? format_bytes(bytes, text) : "");
}

/* How long it took; "" when the program did not say. */
static void duration(struct table *t, const json_t *checkpoint, const char *key)
{
    char text[FORMAT_SIZE] = "";
    int64_t ms = jsonx_int_or(checkpoint, key, -1);
    if (ms >= 0)
        clock_format_duration(ms, text, sizeof text);
    table_cell(t, COLOUR_NONE, "%s", text);
}

static void add_row(struct table *t, const json_t *checkpoint)
{
    char text[FORMAT_SIZE];
    table_cell(t, COLOUR_NONE, "%s", format_step(jsonx_int_or(checkpoint, "step", -1), 0, text));
    table_cell(t, COLOUR_NONE, "%s", format_time(jsonx_str_or(checkpoint, "time", NULL), text));
    size(t, checkpoint);
    duration(t, checkpoint, "staged_ms");
    duration(t, checkpoint, "durable_ms");
    table_cell(t, COLOUR_NONE, "%s", format_step(jsonx_int_or(checkpoint, "attempt", -1), 0, text));
    table_cell(t, COLOUR_NONE, "%s", format_loss(jsonx_real_or(checkpoint, "held_loss", NAN), text));
    table_cell(t, COLOUR_NONE, "%s", jsonx_str_or(checkpoint, "path", ""));
}

static void show(const struct args *args, const json_t *list)
{
    size_t i;
    json_t *checkpoint;
    if (args->output == OUTPUT_JSON) {
        output_json(list);
    } else if (json_array_size(list) == 0) {
        printf("Job %s has made no checkpoint yet.\n", args->words[0]);
    } else {
        struct table *t = table_new(columns, sizeof columns / sizeof *columns, args->output == OUTPUT_WIDE);
        json_array_foreach(list, i, checkpoint)
        {
            add_row(t, checkpoint);
        }
        table_show_whole(t);
    }
}

static int of_job(const struct command *self, int argc, char **argv)
{
    struct args args;
    json_t *list = NULL;
    int64_t id = 0;
    int rc = args_parse(self, NULL, 0, argc, argv, &args);
    if (rc != ARGS_GO)
        return rc;
    struct client *c = client_open(args.dir);
    rc = find_job(c, args.words[0], true, &id);
    if (rc == CLI_DONE)
        rc = client_call(c, "GET", NULL, &list, "/v1/jobs/%lld/checkpoints", (long long)id);
    if (rc == CLI_DONE)
        show(&args, list);
    json_decref(list);
    client_close(c);
    args_clear(&args);
    return rc;
}

/* A job that is called like one of these has its id. */
static int checkpoints(const struct command *self, int argc, char **argv)
{
    static const struct command *const parts[] = {&command_checkpoints_list, &command_checkpoints_verify,
                                                  &command_checkpoints_diff, &command_checkpoints_prune,
                                                  &command_checkpoints_copy, NULL};
    for (size_t i = 0; argc > 0 && parts[i]; i++)
        if (strcmp(parts[i]->name + strlen("checkpoints "), argv[0]) == 0)
            return parts[i]->run(parts[i], argc - 1, argv + 1);
    return of_job(self, argc, argv);
}

const struct command command_checkpoints = {
    .name = "checkpoints",
    .args = "JOB|list|verify|diff|prune|copy",
    .help =
        "Lists the checkpoints of a job; or looks after a directory of them: list, verify, diff, prune, copy",
    .examples = "  belay checkpoints 7\n  belay checkpoints shakespeare -o json\n"
                "  belay checkpoints list ckpt\n  belay checkpoints verify --help\n",
    .min_words = 1,
    .max_words = 1,
    .listing = true,
    .run = checkpoints,
};
