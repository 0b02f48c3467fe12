/* cmd_import: see cmd_import.h. */
#include "runtime/cmd_import.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/log.h"
#include "runtime/convert/import.h"
#include "runtime/convert/outfolder.h"
#include "runtime/exits.h"
#include "runtime/options.h"
#include "runtime/signals.h"

static const char usage[] =
    "usage: belay-train import FOLDER --out CHECKPOINT\n"
    "\n"
    "Writes the weights of a folder in Hugging Face's layout (config.json, model*.safetensors, "
    "tokenizer.json; GPT-2, Llama\n"
    "and Mixtral) as a checkpoint of step 0, and prints the train.model that a job file needs for it. A job "
    "starts with them by\n"
    "train.from: CHECKPOINT (or FOLDER itself). FOLDER may also be a checkpoint of any mesh, or a checkpoint "
    "directory (then its\n"
    "newest): what is written then is one file, without moments, with the tokenizer beside it.\n"
    "\n"
    "  --out CHECKPOINT   the folder to make; must not be there, or be empty\n";

static int run(const char *from, const char *out)
{
    struct err err = {""};
    uint64_t bytes = 0;
    struct weights *w = weights_open(from, &err);
    if (w)
        weights_stop_when(w, signals_stop);
    bool good = w && weights_verify(w, 0, 1, &err) == 0; /* what is written gets a hash of its own */
    signals_install();                                   /* from here on there is something to remove */
    char *folder = good ? outfolder_begin(out, &err) : NULL;
    int rc = folder && import_write(w, folder, &bytes, &err) == 0 ? outfolder_commit(folder, out, &err) : -1;
    if (rc == 0) {
        char *model = import_job_model(weights_model(w));
        printf("%s: %.1f MiB of parameters\n%s\n", out, (double)bytes / 1048576, model);
        free(model);
    } else {
        log_error("%s", err.text);
        if (folder)
            outfolder_drop(folder);
    }
    free(folder);
    weights_close(w);
    return rc == 0 ? EXIT_DONE : EXIT_ERROR;
}

struct options {
    const char *out;
};

enum { OPT_OUT = 256, OPT_HELP };

static const struct option long_options[] = {
    {"out", required_argument, NULL, OPT_OUT}, {"help", no_argument, NULL, OPT_HELP}, {NULL, 0, NULL, 0}};

/* -1 = go on, else the exit code to end with. */
static int apply_option(int option, void *arg)
{
    struct options *o = arg;
    if (option == OPT_HELP)
        return fputs(usage, stdout) < 0 ? EXIT_ERROR : EXIT_DONE;
    o->out = optarg;
    return -1;
}

int cmd_import(int argc, char **argv)
{
    struct options o = {NULL};
    int code = options_read("import", long_options, argc, argv, apply_option, &o);
    if (code >= 0)
        return code;
    if (argc - optind != 1 || !o.out) {
        (void)fputs(usage, stderr);
        return EXIT_BAD_CONFIG;
    }
    return run(argv[optind], o.out);
}
