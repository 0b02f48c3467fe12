/* belay checkpoints copy: one checkpoint into another directory. */
#include <stdio.h>
#include <stdlib.h>

#include "checkpoint/audit.h"
#include "checkpoint/copy.h"
#include "checkpoint/shelf.h"
#include "common/mem.h"
#include "launcher/ckptfind.h"
#include "launcher/ckptmeter.h"
#include "launcher/format.h"

/* Each byte is copied and read back. */
static uint64_t bytes_to_go(const char *folder)
{
    struct audit *a = audit_open(folder, NULL);
    uint64_t bytes = a ? 2 * audit_bytes(a) : 0;
    audit_close(a);
    return bytes;
}

static int copy_folder(const char *folder, const char *directory)
{
    struct err err = {""};
    char size[FORMAT_SIZE];
    uint64_t bytes = bytes_to_go(folder);
    struct ckptmeter *meter = ckptmeter_new("copying", bytes);
    enum copy_result rc = copy_checkpoint(folder, directory, ckptmeter_watch(meter), &err);
    ckptmeter_end(meter);
    if (rc == COPY_ERROR || rc == COPY_OTHER)
        return cli_fail(CLI_REFUSED, "%s", err.text);
    if (rc == COPY_THERE)
        printf("%s has it already, whole\n", directory);
    else
        printf("%s copied to %s (%s) and read back\n", folder, directory,
               format_bytes((int64_t)(bytes / 2), size));
    return CLI_DONE;
}

static int copy(const struct command *self, int argc, char **argv)
{
    int64_t step = -1;
    bool force = false;
    const struct args_option options[] = {
        ARGS_OPTION_COUNT("step", 0, &step, 0, INT64_MAX, "N",
                          "of a directory the checkpoint of this step (else the newest complete one)"),
        ARGS_OPTION_FLAG("force", 0, &force, "although a job that has not ended owns DEST"),
    };
    struct args args;
    struct ckptfind place = {.directory = NULL};
    char *folder = NULL;
    int rc = args_parse(self, options, sizeof options / sizeof *options, argc, argv, &args);
    if (rc != ARGS_GO)
        return rc;
    rc = ckptfind_refuse_remote(args.words[1]);
    if (rc == CLI_DONE)
        rc = ckptfind(&args, args.words[0], &place);
    if (rc == CLI_DONE)
        rc = ckptfind_one(&place, step, true, &folder);
    if (rc == CLI_DONE)
        rc = ckptfind_unclaimed(args.words[1], force);
    if (rc == CLI_DONE)
        rc = copy_folder(folder, args.words[1]);
    free(folder);
    ckptfind_clear(&place);
    args_clear(&args);
    return rc;
}

const struct command command_checkpoints_copy = {
    .name = "checkpoints copy",
    .args = "CHECKPOINT|DIR|JOB DEST [--step N] [--force]",
    .help = "Copies a checkpoint to the directory DEST, reads it back, and only then gives it its name; "
            "replaces nothing",
    .examples = "  belay checkpoints copy ckpt/step-00000100 /archive/gpt2\n  belay checkpoints copy ckpt "
                "/archive/gpt2 --step 80\n",
    .min_words = 2,
    .max_words = 2,
    .run = copy,
};
