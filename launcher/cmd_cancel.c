/* belay cancel: ends jobs for good. */
#include "common/jsonx.h"
#include "launcher/verb.h"

static int cancel(const struct command *self, int argc, char **argv)
{
    bool save = false;
    struct args args;
    const struct args_option options[] = {
        ARGS_OPTION_FLAG("checkpoint", 0, &save,
                         "ask for a checkpoint first, and wait for it at most the job's grace"),
    };
    int rc = args_parse(self, options, sizeof options / sizeof *options, argc, argv, &args);
    if (rc != ARGS_GO)
        return rc;
    json_t *body = json_object();
    jsonx_set(body, "checkpoint", json_boolean(save));
    rc = verb_each(&args, self->name, body);
    args_clear(&args);
    return rc;
}

const struct command command_cancel = {
    .name = "cancel",
    .args = "JOB...",
    .help = "Ends jobs for good: their ranks get SIGTERM, then SIGKILL after the job's grace",
    .examples = "  belay cancel 7\n  belay cancel shakespeare 9\n  belay cancel 7 --checkpoint\n",
    .min_words = 1,
    .max_words = VERB_JOBS_MAX,
    .run = cancel,
};
