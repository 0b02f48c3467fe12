/* belay-train: the bundled transformer runtime, one process per rank. Runs alone, under mpirun, and as a belay job. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/mem.h"
#include "runtime/backend.h"
#include "runtime/cmd_eval.h"
#include "runtime/cmd_export.h"
#include "runtime/cmd_generate.h"
#include "runtime/cmd_import.h"
#include "runtime/cmd_prepare.h"
#include "runtime/comm/comm.h"
#include "runtime/exits.h"
#include "runtime/host.h"
#include "runtime/options.h"
#include "runtime/signals.h"
#include "runtime/train.h"
#include "schema/job.h"
#include "schema/suggest.h"

static const char usage[] =
    "usage: belay-train [--job FILE | FILE] [--set KEY=VALUE]...\n"
    "       belay-train COMMAND [ARGUMENT]...\n"
    "\n"
    "Trains what the job file says (its train: section), alone or as one of the ranks that mpirun or belay "
    "started.\n"
    "Without a file it takes $BELAY_JOB_FILE.\n"
    "\n"
    "  --job FILE         the job file (YAML, docs/job-file.md); - reads standard input\n"
    "  --set KEY=VALUE    replaces one field of it, e.g. --set train.steps=40\n"
    "  --help, --version\n"
    "\n"
    "Exit codes: 0 finished, or stopped by SIGTERM after a checkpoint (75 within a job); 1 error; 2 bad "
    "usage or job file; 93 "
    "the job can never\n"
    "work like this; 94 ended by the guard, or loss or gradient not finite; 95 superseded by a newer "
    "attempt.\n"
    "SIGUSR1 saves a checkpoint now.\n"
    "\n"
    "Commands (belay-train COMMAND --help):\n";

static const struct {
    const char *name, *help;
    int (*run)(int argc, char **argv); /* argv[0] is the name; returns the exit code */
} commands[] = {
    {"prepare", "makes token files from text", cmd_prepare},
    {"generate", "goes on from a prompt", cmd_generate},
    {"eval", "measures how well a model predicts", cmd_eval},
    {"export", "writes a checkpoint in another program's format", cmd_export},
    {"import", "makes a checkpoint of another program's model", cmd_import},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static int help(void)
{
    bool failed = fputs(usage, stdout) < 0;
    for (size_t i = 0; i < COMMANDS; i++)
        failed = printf("  %-10s %s\n", commands[i].name, commands[i].help) < 0 || failed;
    return failed ? EXIT_ERROR : EXIT_DONE;
}

struct options {
    const char *job;
    const char **sets;
    size_t n_sets;
};

enum { OPT_JOB = 256, OPT_SET, OPT_HELP, OPT_VERSION };

static const struct option long_options[] = {{"job", required_argument, NULL, OPT_JOB},
                                             {"set", required_argument, NULL, OPT_SET},
                                             {"help", no_argument, NULL, OPT_HELP},
                                             {"version", no_argument, NULL, OPT_VERSION},
                                             {NULL, 0, NULL, 0}};

/* -1 = go on, else the exit code to end with. */
static int apply_option(int option, void *arg)
{
    struct options *o = arg;
    switch (option) {
    case OPT_JOB:
        o->job = optarg;
        return -1;
    case OPT_SET:
        o->sets[o->n_sets++] = optarg;
        return -1;
    case OPT_HELP:
        return help();
    default: /* OPT_VERSION */
        return puts("belay-train " BELAY_VERSION) < 0 ? EXIT_ERROR : EXIT_DONE;
    }
}

static int parse_options(int argc, char **argv, struct options *o)
{
    o->sets = mem_zero((size_t)argc, sizeof *o->sets);
    int code = options_read(NULL, long_options, argc, argv, apply_option, o);
    if (code >= 0)
        return code;
    if (!o->job && optind < argc)
        o->job = argv[optind++];
    if (optind < argc) {
        log_error("one job file is enough; \"%s\" is one too many", argv[optind]);
        return EXIT_BAD_CONFIG;
    }
    return -1;
}

/* An exit code; what is wrong is in diagnostics, or said when there is no file at all. */
static int read_job(const struct options *o, struct job_spec **spec, struct job_diagnostics *diagnostics)
{
    const char *path = o->job ? o->job : getenv("BELAY_JOB_FILE");
    if (path)
        return job_spec_load(path, o->sets, o->n_sets, spec, diagnostics) != 0 ? EXIT_BAD_CONFIG : 0;
    if (comm_env_rank() == 0)
        log_error("no job file given; write belay-train FILE, or see belay-train --help");
    return EXIT_BAD_CONFIG;
}

/* Every rank has read the job file; when one of them could not, all end alike. */
static int agree_on_job(struct comm *comm, int code, const struct job_diagnostics *diagnostics)
{
    int all = comm_max_int(comm_world(comm), code);
    size_t shown = diagnostics->count < JOB_DIAGNOSTICS_MAX ? diagnostics->count : JOB_DIAGNOSTICS_MAX;
    for (size_t i = 0; i < shown && comm_rank(comm_world(comm)) == 0; i++)
        (void)fprintf(stderr, "%s\n", diagnostics->text[i]);
    if (code != 0 && comm_rank(comm_world(comm)) != 0 && shown > 0)
        log_error("rank %d: %s", comm_rank(comm_world(comm)), diagnostics->text[0]);
    return all;
}

/* With the device, if it is one, taken. */
static int run_on(const struct backend *backend, const struct job_spec *spec, int code,
                  const struct job_diagnostics *diagnostics)
{
    struct err err;
    struct comm *comm = comm_open(backend_comm(backend), &err);
    if (!comm) {
        if (diagnostics->count > 0)
            log_error("%s", diagnostics->text[0]);
        log_error("%s", err.text);
        return EXIT_BAD_CONFIG;
    }
    code = agree_on_job(comm, code, diagnostics);
    if (code == 0)
        code = train(spec, backend, comm);
    comm_close(comm);
    return code;
}

static int run(const struct options *o)
{
    struct err err;
    struct job_spec *spec = NULL;
    struct backend backend = {.cuda = NULL};
    struct job_diagnostics *diagnostics = mem_zero(1, sizeof *diagnostics);
    int code = read_job(o, &spec, diagnostics);
    if (code == 0 && backend_open(spec->device, &backend, &err) != 0) {
        log_error("rank %d: %s", comm_env_rank(), err.text); /* the launcher ends the others */
        code = EXIT_ERROR;
    } else {
        code = run_on(&backend, spec, code, diagnostics);
    }
    backend_close(&backend);
    job_spec_free(spec);
    free(diagnostics);
    return code;
}

/* Says so when what should be a job file is no file, but nearly a command. */
static bool mistyped_command(const char *word)
{
    const char *names[COMMANDS];
    for (size_t i = 0; i < COMMANDS; i++)
        names[i] = commands[i].name;
    const char *near = access(word, F_OK) != 0 ? suggest_nearest(word, names, COMMANDS) : NULL;
    if (near)
        log_error("there is neither a command nor a job file \"%s\": did you mean belay-train %s?", word,
                  near);
    return near != NULL;
}

int main(int argc, char **argv)
{
    struct options o = {.job = NULL};
    host_bound_spinning(argv);
    log_program("belay-train");
    (void)signal(SIGXFSZ, SIG_IGN); /* a file at its size limit is an error of that write, in commands, too */
    if (setvbuf(stdout, NULL, _IOLBF, 0) != 0)
        log_warn("standard output cannot be line-buffered; lines may come late");
    for (size_t i = 0; argc > 1 && i < COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    if (argc > 1 && mistyped_command(argv[1])) /* before its options are taken for those of a training */
        return EXIT_BAD_CONFIG;
    signals_install(); /* a trainer saves before it ends; commands have nothing to save */
    int code = parse_options(argc, argv, &o);
    if (code < 0)
        code = run(&o);
    free(o.sets);
    return code;
}
