/* command: what a subcommand is, and the exit codes that scripts rely on.
 *
 * Each launcher/cmd_NAME.c defines one `const struct command command_NAME`; main.c holds the list. A command function
 * gets the words after its name, prints results to stdout and one sentence per error to stderr, and returns an exit code. */
#ifndef BELAY_LAUNCHER_COMMAND_H
#define BELAY_LAUNCHER_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

enum cli_exit {
    CLI_DONE = 0,
    CLI_JOB_FAILED = 1,
    CLI_FOUND = 1,       /* checkpoints verify, diff: something is bad, or differs */
    CLI_USAGE = 2,       /* wrong words on the command line, or an invalid file */
    CLI_UNREACHABLE = 3, /* no belayd, or it does not answer */
    CLI_NO_SUCH = 4,
    CLI_REFUSED = 5,
    CLI_WOULD_WAIT = 6, /* plan: not now */
    CLI_NEVER = 7,      /* plan: not in this cluster */
};

struct command {
    const char *name;
    const char *args;            /* "FILE [--follow]", as shown in usage lines */
    const char *help;            /* one line */
    const char *examples;        /* lines, each ended by \n */
    size_t min_words, max_words; /* how many words that are not options */
    bool listing;                /* takes -o table|wide|json */
    int (*run)(const struct command *self, int argc, char **argv);
};

extern const struct command command_up, command_down, command_validate, command_submit, command_run,
    command_status, command_describe, command_logs, command_events, command_cancel, command_hold,
    command_release, command_requeue, command_nodes, command_drain, command_undrain, command_checkpoint,
    command_checkpoints, command_notify, command_sim, command_why, command_plan;
/* the words after `belay checkpoints` */
extern const struct command command_checkpoints_list, command_checkpoints_verify, command_checkpoints_diff,
    command_checkpoints_prune, command_checkpoints_copy;

/* Prints "belay: sentence" on stderr and returns code, so that `return cli_fail(CLI_USAGE, "…")` reads well. */
int cli_fail(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
