/* ckptfind: see ckptfind.h. What is a folder here is taken for one; else a word without a slash is a job. */
#include "launcher/ckptfind.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/claim.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shelf.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "launcher/client.h"
#include "launcher/find.h"

bool ckptfind_is_remote(const char *word)
{
    return strstr(word, "://") != NULL;
}

static int refuse_remote(const char *word)
{
    if (!ckptfind_is_remote(word))
        return CLI_DONE;
    return cli_fail(CLI_USAGE,
                    "%s is object storage, and a directory is wanted: `belay checkpoints copy` brings a "
                    "checkpoint here",
                    word);
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int ckptfind_unclaimed(const char *directory, bool force)
{
    struct claim_view claim;
    struct err err = {""};
    if (access(directory, F_OK) == 0 && !is_folder(directory))
        return cli_fail(CLI_REFUSED, "%s is no directory: name another one", directory);
    if (force)
        return CLI_DONE;
    if (claim_look(directory, &claim, &err) != 0)
        return cli_fail(CLI_REFUSED, "%s: --force goes ahead all the same", err.text);
    if (!claim.live)
        return CLI_DONE;
    if (!claim.job[0])
        return cli_fail(CLI_REFUSED,
                        "%s is in use by a run that was started by hand: --force goes ahead all the same",
                        directory);
    return cli_fail(CLI_REFUSED,
                    "%s belongs to job %s (attempt %" PRId64
                    "), which has not ended in order: when that job is gone, --force goes ahead",
                    directory, claim.job, claim.attempt);
}

static char *parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == path ? str_dup("/") : str_printf("%.*s", (int)(slash - path), path);
}

/* A folder of this host: one checkpoint by its name or by what is in it, or else a directory of them. */
static int take_folder(const char *word, struct ckptfind *out)
{
    char *path = realpath(word, NULL);
    if (!path)
        return cli_fail(CLI_NO_SUCH, "%s cannot be read", word);
    char *manifest = str_printf("%s/" MANIFEST_FILE_NAME, path);
    struct stat st;
    if (shelf_step_of(path) >= 0 || stat(manifest, &st) == 0)
        *out = (struct ckptfind){.directory = parent_of(path), .folder = path};
    else
        *out = (struct ckptfind){.directory = path};
    free(manifest);
    return CLI_DONE;
}

/* The directory of the job's newest checkpoint. */
static int take_job(const struct args *args, const char *word, struct ckptfind *out)
{
    struct client *c = client_open(args->dir);
    json_t *list = NULL;
    int64_t id = 0;
    int rc = find_job(c, word, true, &id);
    if (rc == CLI_DONE)
        rc = client_call(c, "GET", NULL, &list, "/v1/jobs/%lld/checkpoints", (long long)id);
    size_t n = json_array_size(list);
    const char *path = n > 0 ? jsonx_str_or(json_array_get(list, n - 1), "path", "") : "";
    if (rc == CLI_DONE && !strchr(path, '/'))
        rc = cli_fail(CLI_NO_SUCH,
                      "job %s has told of no checkpoint that lies in a directory: name the directory", word);
    if (rc == CLI_DONE) {
        out->directory = parent_of(path);
        if (!is_folder(out->directory))
            rc = cli_fail(
                CLI_NO_SUCH,
                "job %s keeps its checkpoints in %s, which is not there on this host: ask where it is", word,
                out->directory);
    }
    json_decref(list);
    client_close(c);
    return rc;
}

int ckptfind(const struct args *args, const char *word, struct ckptfind *out)
{
    *out = (struct ckptfind){.directory = NULL};
    int rc = refuse_remote(word);
    if (rc == CLI_DONE && is_folder(word))
        rc = take_folder(word, out);
    else if (rc == CLI_DONE && access(word, F_OK) == 0)
        rc = cli_fail(CLI_NO_SUCH, "%s is no directory: name that of a checkpoint, or one of checkpoints",
                      word);
    else if (rc == CLI_DONE && strchr(word, '/'))
        rc = cli_fail(CLI_NO_SUCH, "there is no directory %s", word);
    else if (rc == CLI_DONE)
        rc = take_job(args, word, out);
    if (rc != CLI_DONE)
        ckptfind_clear(out);
    return rc;
}

int ckptfind_directory(const struct args *args, const char *word, struct ckptfind *out)
{
    int rc = ckptfind(args, word, out);
    if (rc != CLI_DONE || !out->folder)
        return rc;
    rc = cli_fail(CLI_USAGE, "%s is one checkpoint: name the directory that it is in, %s", word,
                  out->directory);
    ckptfind_clear(out);
    return rc;
}

void ckptfind_clear(struct ckptfind *found)
{
    free(found->directory);
    free(found->folder);
    *found = (struct ckptfind){.directory = NULL};
}

static int choose_step(const char *directory, int64_t step, char **folder)
{
    *folder = shelf_path(directory, step);
    if (is_folder(*folder))
        return CLI_DONE;
    free(*folder);
    *folder = NULL;
    return cli_fail(CLI_NO_SUCH,
                    "%s has no checkpoint of step %" PRId64
                    ": `belay checkpoints list` shows those that it has",
                    directory, step);
}

static int choose_newest(const char *directory, bool complete, char **folder)
{
    const struct retention_policy newest = {.keep = 1};
    struct retention_item *items;
    struct err err = {""};
    int64_t count = shelf_survey(directory, &newest, &items, &err), at = 0;
    while (complete && at < count && !items[at].complete)
        at++;
    int rc = CLI_DONE;
    if (count < 0)
        rc = cli_fail(CLI_NO_SUCH, "%s", err.text);
    else if (at == count)
        rc = cli_fail(CLI_NO_SUCH, "%s has no %scheckpoint", directory, count > 0 ? "complete " : "");
    else
        *folder = shelf_path(directory, items[at].step);
    free(items);
    return rc;
}

int ckptfind_one(const struct ckptfind *found, int64_t step, bool complete, char **folder)
{
    *folder = NULL;
    if (found->folder && step >= 0)
        return cli_fail(CLI_USAGE, "%s is one checkpoint already: leave --step out", found->folder);
    if (found->folder)
        *folder = str_dup(found->folder);
    if (found->folder)
        return CLI_DONE;
    return step >= 0 ? choose_step(found->directory, step, folder)
                     : choose_newest(found->directory, complete, folder);
}
