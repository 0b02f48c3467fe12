/* belay: the command line. Picks the subcommand; each lives in its own cmd_NAME.c. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "launcher/command.h"
#include "launcher/terminal.h"
#include "schema/suggest.h"

static const struct command *const commands[] = {
    &command_up,
    &command_down,
    &command_validate,
    &command_plan,
    &command_submit,
    &command_run,
    &command_status,
    &command_describe,
    &command_logs,
    &command_events,
    &command_checkpoints,
    &command_checkpoint,
    &command_notify,
    &command_cancel,
    &command_hold,
    &command_release,
    &command_requeue,
    &command_nodes,
    &command_drain,
    &command_undrain,
    &command_why,
    &command_sim,
    NULL,
};
#define COMMANDS_MAX 64

static const struct command *find(const char *name)
{
    for (size_t i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static int overview(FILE *out)
{
    fprintf(out,
            "Belay launches training on a cluster and keeps it alive.\n\nusage: belay COMMAND [options]\n\n");
    for (size_t i = 0; commands[i]; i++)
        fprintf(out, "  %-12s %s\n", commands[i]->name, commands[i]->help);
    fprintf(out, "\n`belay COMMAND --help` says more about one. The cluster is found by --dir, $BELAY_DIR or "
                 "the default "
                 "state folder.\n"
                 "Exit codes: 0 done, 1 the job failed, 2 usage or invalid file, 3 cannot reach belayd, 4 no "
                 "such thing, "
                 "5 refused; plan: 6 would wait, 7 can never run.\n");
    return CLI_DONE;
}

static int unknown(const char *word)
{
    const char *names[COMMANDS_MAX];
    size_t n = 0;
    if (word[0] == '-')
        return cli_fail(CLI_USAGE, "the command comes before its options: belay COMMAND %s …", word);
    for (; commands[n] && n + 1 < COMMANDS_MAX; n++)
        names[n] = commands[n]->name;
    names[n++] = "help";
    const char *near = suggest_nearest(word, names, n);
    if (near)
        return cli_fail(CLI_USAGE, "there is no command \"%s\": did you mean `belay %s`?", word, near);
    return cli_fail(CLI_USAGE, "there is no command \"%s\": `belay help` lists them", word);
}

static int help(int argc, char **argv)
{
    static char flag[] = "--help";
    char *args[] = {flag, NULL};
    if (argc < 1)
        return overview(stdout);
    const struct command *c = find(argv[0]);
    return c ? c->run(c, 1, args) : unknown(argv[0]);
}

static bool is(const char *word, const char *a, const char *b)
{
    return strcmp(word, a) == 0 || strcmp(word, b) == 0;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        overview(stderr);
        return CLI_USAGE;
    }
    if (is(argv[1], "--version", "-V")) {
        printf("belay %s\n", BELAY_VERSION);
        return CLI_DONE;
    }
    if (is(argv[1], "help", "--help") || strcmp(argv[1], "-h") == 0)
        return help(argc - 2, argv + 2);
    const struct command *c = find(argv[1]);
    return c ? c->run(c, argc - 2, argv + 2) : unknown(argv[1]);
}

int main(int argc, char **argv)
{
    terminal_setup();
    int rc = dispatch(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout))
        return cli_fail(rc ? rc : CLI_REFUSED, "the output could not be written: is the disk full?");
    return rc;
}
