/* belay checkpoints copy: one checkpoint into another directory, to object storage, or from there. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "checkpoint/audit.h"
#include "checkpoint/copy.h"
#include "checkpoint/shelf.h"
#include "checkpoint/upload_copy.h"
#include "common/mem.h"
#include "common/s3url.h"
#include "launcher/ckptfind.h"
#include "launcher/ckptmeter.h"
#include "launcher/format.h"

#define PART_BYTES ((uint64_t)64 << 20) /* as checkpoint.upload.part of a job file, when it says nothing */

struct request {
    const char *from, *to;
    const char *endpoint, *region; /* of object storage */
    int64_t step;
    bool force;
};

/* Each byte is copied and read back. */
static uint64_t bytes_to_go(const char *folder)
{
    struct audit *a = audit_open(folder, NULL);
    uint64_t bytes = a ? 2 * audit_bytes(a) : 0;
    audit_close(a);
    return bytes;
}

static int tell(enum copy_result rc, const char *what, const char *to, const struct err *err)
{
    if (rc == COPY_ERROR || rc == COPY_OTHER)
        return cli_fail(CLI_REFUSED, "%s", err->text);
    if (rc == COPY_THERE)
        printf("%s has it already\n", to);
    else
        printf("%s copied to %s\n", what, to);
    return CLI_DONE;
}

/* ---- between directories ---- */

static int copy_folder(const char *folder, const char *directory)
{
    struct err err = {""};
    char size[FORMAT_SIZE];
    uint64_t bytes = bytes_to_go(folder);
    struct ckptmeter *meter = ckptmeter_new("copying", bytes);
    enum copy_result result = copy_checkpoint(folder, directory, ckptmeter_watch(meter), &err);
    ckptmeter_end(meter);
    char *what = str_printf("%s (%s)", folder, format_bytes((int64_t)(bytes / 2), size));
    int rc = tell(result, what, directory, &err);
    free(what);
    return rc;
}

/* ---- object storage ---- */

/* The url and its options in the words of the command line, not of a job file. */
static int check_remote(const struct request *q, const char *url, struct err *err)
{
    struct s3url parsed;
    if (s3url_parse(url, &parsed, err) != 0)
        return err_prefix(err, "%s", url);
    if (q->endpoint && s3url_check_endpoint(q->endpoint, err) != 0)
        return err_prefix(err, "checkpoints copy: --endpoint");
    return s3url_check_region(q->region, err) == 0 ? 0 : err_prefix(err, "checkpoints copy: --region");
}

static struct upload *open_remote(const struct request *q, const char *url, struct err *err)
{
    if (check_remote(q, url, err) != 0)
        return NULL;
    const struct upload_spec spec = {
        .url = url, .endpoint = q->endpoint, .region = q->region, .part = PART_BYTES};
    (void)signal(SIGPIPE, SIG_IGN); /* objects.h asks for it */
    return upload_open(&spec, NULL, NULL, err);
}

static int send(const struct request *q, const char *folder)
{
    struct err err = {""};
    struct upload *u = open_remote(q, q->to, &err);
    if (!u)
        return cli_fail(CLI_USAGE, "%s", err.text);
    int rc = tell(upload_copy_to(u, folder, &err), folder, q->to, &err);
    upload_close(u);
    return rc;
}

static int fetch(const struct request *q)
{
    struct err err = {""};
    int64_t step;
    struct upload *u = open_remote(q, q->from, &err);
    if (!u)
        return cli_fail(CLI_USAGE, "%s", err.text);
    enum copy_result result = upload_copy_from(u, q->step, q->to, &step, &err);
    if (result == COPY_ERROR)
        err_prefix(&err, "%s", q->from);
    char *what = str_printf("step %lld of %s", (long long)step, q->from);
    int rc = tell(result, what, q->to, &err);
    free(what);
    upload_close(u);
    return rc;
}

/* ---- the command line ---- */

static int from_directory(const struct args *args, const struct request *q)
{
    struct ckptfind place;
    char *folder = NULL;
    int rc = ckptfind(args, q->from, &place);
    if (rc == CLI_DONE)
        rc = ckptfind_one(&place, q->step, true, &folder);
    if (rc == CLI_DONE)
        rc = ckptfind_is_remote(q->to) ? send(q, folder) : copy_folder(folder, q->to);
    free(folder);
    ckptfind_clear(&place);
    return rc;
}

static int act(const struct args *args, const struct request *q)
{
    bool from = ckptfind_is_remote(q->from), to = ckptfind_is_remote(q->to);
    if (from && to)
        return cli_fail(CLI_USAGE, "checkpoints copy: one of the two must be a directory of this host");
    int rc = to ? CLI_DONE : ckptfind_unclaimed(q->to, q->force);
    if (rc != CLI_DONE)
        return rc;
    return from ? fetch(q) : from_directory(args, q);
}

static int copy(const struct command *self, int argc, char **argv)
{
    struct request q = {.step = -1, .region = "us-east-1"};
    const struct args_option options[] = {
        ARGS_OPTION_COUNT("step", 0, &q.step, 0, INT64_MAX, "N",
                          "of several the checkpoint of this step (else the newest complete one)"),
        ARGS_OPTION_TEXT("endpoint", 0, &q.endpoint, "URL",
                         "of object storage: https://HOST:PORT (else AWS)"),
        ARGS_OPTION_TEXT("region", 0, &q.region, "NAME", "of object storage (us-east-1)"),
        ARGS_OPTION_FLAG("force", 0, &q.force, "although a job that has not ended owns DEST"),
    };
    struct args args;
    int rc = args_parse(self, options, sizeof options / sizeof *options, argc, argv, &args);
    if (rc != ARGS_GO)
        return rc;
    q.from = args.words[0];
    q.to = args.words[1];
    rc = act(&args, &q);
    args_clear(&args);
    return rc;
}

const struct command command_checkpoints_copy = {
    .name = "checkpoints copy",
    .args = "CHECKPOINT|DIR|JOB|s3://BUCKET/PREFIX DEST [--step N] [--force]",
    .help = "Copies a checkpoint to the directory or s3:// place DEST, checks it there, and replaces nothing",
    .examples = "  belay checkpoints copy ckpt/step-00000100 /archive/gpt2\n"
                "  belay checkpoints copy ckpt s3://runs/gpt2 --step 80\n"
                "  belay checkpoints copy s3://runs/gpt2 ckpt\n",
    .min_words = 2,
    .max_words = 2,
    .run = copy,
};
