/* belay why: why a job waits. */
#include <stdio.h>
#include <stdlib.h>

#include "common/jsonx.h"
#include "common/mem.h"
#include "launcher/args.h"
#include "launcher/client.h"
#include "launcher/find.h"
#include "launcher/output.h"
#include "launcher/text.h"
#include "launcher/verdictview.h"

static void print(const json_t *job, const struct verdict *verdict)
{
    char *name = text_clean(jsonx_str_or(job, "name", "?"));
    char *subject =
        str_printf("Job %lld (%s)", (long long)json_integer_value(json_object_get(job, "id")), name);
    verdictview_print(verdict, subject);
    free(subject);
    free(name);
}

static int show(struct client *c, const struct args *args, int64_t id)
{
    json_t *job = NULL, *answer = NULL;
    struct verdict verdict = {.sentence = NULL};
    struct err err = {""};
    int rc = client_call(c, "GET", NULL, &job, "/v1/jobs/%lld", (long long)id);
    if (rc == CLI_DONE)
        rc = client_call(c, "GET", NULL, &answer, "/v1/jobs/%lld/why", (long long)id);
    if (rc == CLI_DONE && args->output == OUTPUT_JSON)
        output_json(answer);
    else if (rc == CLI_DONE && verdict_decode(answer, &verdict, &err) != 0)
        rc = cli_fail(CLI_UNREACHABLE, "%s", err.text);
    else if (rc == CLI_DONE)
        print(job, &verdict);
    verdict_clear(&verdict);
    json_decref(answer);
    json_decref(job);
    return rc;
}

static int why(const struct command *self, int argc, char **argv)
{
    struct args args;
    int64_t id = 0;
    int rc = args_parse(self, NULL, 0, argc, argv, &args);
    if (rc != ARGS_GO)
        return rc;
    struct client *c = client_open(args.dir);
    rc = find_job(c, args.words[0], true, &id);
    if (rc == CLI_DONE)
        rc = show(c, &args, id);
    client_close(c);
    args_clear(&args);
    return rc;
}

const struct command command_why = {
    .name = "why",
    .args = "JOB",
    .help = "Why a job waits: what it needs, who blocks it until when, and what would change that",
    .examples = "  belay why 3\n  belay why big -o json\n",
    .min_words = 1,
    .max_words = 1,
    .listing = true,
    .run = why,
};
