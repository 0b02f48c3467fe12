/* belay run: submits a job, stays with it and exits as it does: 0 completed, 1 failed or cancelled. */
#include <stdio.h>
#include <stdlib.h>

#include "launcher/args.h"
#include "launcher/client.h"
#include "launcher/follow.h"
#include "launcher/jobfile.h"
#include "launcher/terminal.h"

static int send_and_follow(const struct args *args, const struct args_list *sets, bool all_ranks)
{
    const struct follow_options options = {
        .cancel_on_interrupt = true, .output = true, .all_ranks = all_ranks};
    struct client *c = client_open(args->dir);
    int64_t id = 0;
    int rc = jobfile_send(c, args->words[0], sets, &id);
    if (rc == CLI_DONE) {
        if (terminal_is(stderr))
            fprintf(stderr, "belay: job %lld\n", (long long)id);
        rc = follow_job(c, id, stdout, &options);
    }
    client_close(c);
    return rc;
}

static int run(const struct command *self, int argc, char **argv)
{
    struct args_list sets = {.items = NULL};
    bool all_ranks = false;
    const struct args_option options[] = {
        ARGS_OPTION_LIST("set", 0, &sets, "KEY=VALUE",
                         "put this in place of what the file says, e.g. train.steps=40"),
        ARGS_OPTION_FLAG("all-ranks", 'a', &all_ranks, "show the output of every rank, not only of rank 0"),
    };
    struct args args;
    int rc = args_parse(self, options, sizeof options / sizeof *options, argc, argv, &args);
    if (rc == ARGS_GO) {
        rc = send_and_follow(&args, &sets, all_ranks);
        args_clear(&args);
    }
    free(sets.items);
    return rc;
}

const struct command command_run = {
    .name = "run",
    .args = "FILE [--set KEY=VALUE]... [--all-ranks]",
    .help = "Submits a job, stays to its end and exits as it does; Ctrl-C cancels it, a second one leaves",
    .examples = "  belay run examples/quickstart.yaml\n  belay run hello.yaml --all-ranks\n",
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
