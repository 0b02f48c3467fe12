/* belay checkpoint: asks a running job for a checkpoint now. */
#include <stdio.h>
#include <string.h>

#include "common/jsonx.h"
#include "launcher/args.h"
#include "launcher/client.h"
#include "launcher/find.h"
#include "launcher/longpoll.h"

struct asked {
    struct client *client;
    int64_t job, attempt, request;
    int64_t rev;
};

/* What became of the request, by the newest request of its attempt (NULL: nothing is known). -1 = it still waits, else an exit code. */
static int verdict(const struct asked *a, const json_t *request)
{
    int64_t step = jsonx_int_or(request, "step", -1);
    bool newest = jsonx_int_or(request, "number", 0) == a->request;
    if (newest && json_is_true(json_object_get(request, "waiting")))
        return -1;
    if (step >= 0) {
        printf("job %lld: checkpoint of step %lld is durable\n", (long long)a->job, (long long)step);
        return CLI_DONE;
    }
    return cli_fail(CLI_JOB_FAILED, "job %lld made no checkpoint: %s", (long long)a->job,
                    newest ? jsonx_str_or(request, "answer", "it gave no reason")
                           : "it was asked again meanwhile");
}

/* The attempt is not the newest any more. */
static int look_back(const struct asked *a)
{
    json_t *attempts = NULL, *item, *request = NULL;
    size_t i;
    int rc = client_call(a->client, "GET", NULL, &attempts, "/v1/jobs/%lld/attempts", (long long)a->job);
    json_array_foreach(attempts, i, item)
    {
        if (jsonx_int_or(item, "attempt", 0) == a->attempt)
            request = json_object_get(item, "checkpoint_request");
    }
    if (rc == CLI_DONE)
        rc = verdict(a, request);
    json_decref(attempts);
    return rc;
}

static int look(struct asked *a, const json_t *job)
{
    const json_t *request = json_object_get(job, "checkpoint_request");
    a->rev = jsonx_int_or(job, "rev", 0);
    return jsonx_int_or(request, "attempt", 0) == a->attempt ? verdict(a, request) : look_back(a);
}

static int wait_for_it(struct asked *a)
{
    struct longpoll *poll = longpoll_new(a->client);
    int rc = -1;
    a->rev = 0; /* no job has it: the first answer comes at once */
    while (rc == -1) {
        struct client_reply reply;
        enum longpoll_result result = LONGPOLL_NOTHING;
        longpoll_ask(poll, 0, "/v1/jobs/%lld?rev=%lld&wait=%d", (long long)a->job, (long long)a->rev,
                     CLIENT_POLL_S);
        while ((result = longpoll_step(poll, &reply)) == LONGPOLL_NOTHING)
            client_wait(a->client, -1, longpoll_pause(poll));
        rc =
            result == LONGPOLL_ANSWER ? look(a, reply.body) : cli_fail(reply.exit_code, "%s", reply.err.text);
        client_reply_clear(&reply);
    }
    longpoll_free(poll);
    return rc;
}

static int ask(struct asked *a, const char *word, bool wait)
{
    json_t *answer = NULL;
    int rc = find_job(a->client, word, false, &a->job);
    if (rc == CLI_DONE)
        rc = client_call(a->client, "POST", NULL, &answer, "/v1/jobs/%lld/checkpoint", (long long)a->job);
    a->attempt = jsonx_int_or(answer, "attempt", 0);
    a->request = jsonx_int_or(answer, "request", 0);
    json_decref(answer);
    if (rc == CLI_DONE && wait)
        return wait_for_it(a);
    if (rc == CLI_DONE)
        printf("job %lld is asked for a checkpoint\n", (long long)a->job);
    return rc;
}

static int checkpoint(const struct command *self, int argc, char **argv)
{
    bool wait = false;
    struct args args;
    const struct args_option options[] = {
        ARGS_OPTION_FLAG("wait", 'w', &wait, "return when it is durable, and say its step"),
    };
    int rc = args_parse(self, options, sizeof options / sizeof *options, argc, argv, &args);
    if (rc != ARGS_GO)
        return rc;
    struct asked a = {.client = client_open(args.dir)};
    rc = ask(&a, args.words[0], wait);
    client_close(a.client);
    args_clear(&args);
    return rc;
}

const struct command command_checkpoint = {
    .name = "checkpoint",
    .args = "JOB",
    .help = "Asks a running job for a checkpoint now, at the end of its step",
    .examples = "  belay checkpoint 7\n  belay checkpoint shakespeare --wait\n",
    .min_words = 1,
    .max_words = 1,
    .run = checkpoint,
};
