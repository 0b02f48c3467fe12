/* verb: see verb.h. Goes on after a failure, unless nobody answers; the first one decides the exit code. */
#include "launcher/verb.h"

#include <stdio.h>

#include "common/jsonx.h"
#include "launcher/client.h"
#include "launcher/find.h"

static int do_one(struct client *c, const char *verb, json_t *body, const char *word)
{
    int64_t id = 0;
    json_t *answer = NULL;
    int rc = find_job(c, word, false, &id);
    if (rc == CLI_DONE)
        rc = client_call(c, "POST", json_incref(body), &answer, "/v1/jobs/%lld/%s", (long long)id, verb);
    if (rc == CLI_DONE)
        printf("job %lld: %s asked, now %s\n", (long long)id, verb, jsonx_str_or(answer, "state", "?"));
    json_decref(answer);
    return rc;
}

int verb_each(const struct args *args, const char *verb, json_t *body)
{
    struct client *c = client_open(args->dir);
    int rc = CLI_DONE;
    for (size_t i = 0; i < args->n_words; i++) {
        int one = do_one(c, verb, body, args->words[i]);
        rc = rc ? rc : one;
        if (one == CLI_UNREACHABLE)
            break; /* the others would only repeat it */
    }
    client_close(c);
    json_decref(body);
    return rc;
}

int verb_run(const struct command *self, int argc, char **argv)
{
    struct args args;
    int rc = args_parse(self, NULL, 0, argc, argv, &args);
    if (rc != ARGS_GO)
        return rc;
    rc = verb_each(&args, self->name, NULL);
    args_clear(&args);
    return rc;
}
