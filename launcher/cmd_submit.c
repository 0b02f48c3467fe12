/* belay submit: checks a job file and hands it to belayd. Prints the id alone on stdout, so that scripts can keep it. */
#include <stdio.h>
#include <stdlib.h>

#include "launcher/args.h"
#include "launcher/client.h"
#include "launcher/follow.h"
#include "launcher/jobfile.h"

static int send(const struct args *args, const struct args_list *sets, bool follow)
{
    const struct follow_options options = {.cancel_on_interrupt = false, .output = true};
    struct client *c = client_open(args->dir);
    int64_t id = 0;
    int rc = jobfile_send(c, args->words[0], sets, &id);
    if (rc == CLI_DONE) {
        printf("%lld\n", (long long)id);
        fflush(stdout);
        if (follow)
            rc = follow_job(c, id, stderr, &options);
    }
    client_close(c);
    return rc;
}

static int submit(const struct command *self, int argc, char **argv)
{
    struct args_list sets = {.items = NULL};
    bool follow = false;
    const struct args_option options[] = {
        ARGS_OPTION_LIST("set", 0, &sets, "KEY=VALUE",
                         "put this in place of what the file says, e.g. train.steps=40"),
        ARGS_OPTION_FLAG("follow", 'f', &follow, "stay and show how it goes; Ctrl-C leaves, the job goes on"),
    };
    struct args args;
    int rc = args_parse(self, options, sizeof options / sizeof *options, argc, argv, &args);
    if (rc == ARGS_GO) {
        rc = send(&args, &sets, follow);
        args_clear(&args);
    }
    free(sets.items);
    return rc;
}

const struct command command_submit = {
    .name = "submit",
    .args = "FILE [--set KEY=VALUE]... [--follow]",
    .help = "Checks a job file (- = standard input), hands it to the cluster and prints the job's id",
    .examples = "  belay submit examples/quickstart.yaml\n"
                "  belay submit job.yaml --set train.steps=40 --set name=trial --follow\n",
    .min_words = 1,
    .max_words = 1,
    .run = submit,
};
