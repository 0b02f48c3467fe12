/* jobnotes: see jobnotes.h. Paths are looked for as ranks do (docs/data.md), from the current folder, which is that of the submit. */
#include "launcher/jobnotes.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "launcher/memorynote.h"

/* Nobody should wait for what does not come: docs/job-file.md lists what is read and checked but not acted on yet. */
static void tell_without_effect(const char *file, const struct job_spec *spec)
{
    if (spec->notify_url)
        fprintf(stderr, "%s: note: notify has no effect yet; `belay events -f` tells the same\n", file);
}

/* ---- what is read ---- */

/* What only others may look at may be there. */
static bool missing(const char *path)
{
    return access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

static bool pattern_finds_nothing(const char *path)
{
    glob_t found;
    int rc = glob(path, GLOB_NOSORT, NULL, &found);
    if (rc == 0)
        globfree(&found);
    return rc == GLOB_NOMATCH;
}

/* A file, a folder, a pattern, or FILE of Megatron-LM's FILE.bin and FILE.idx. */
static bool corpus_missing(const char *path)
{
    if (!missing(path))
        return false;
    if (strpbrk(path, "*?["))
        return pattern_finds_nothing(path);
    char *bin = str_printf("%s.bin", path), *idx = str_printf("%s.idx", path);
    bool none = missing(bin) || missing(idx);
    free(bin);
    free(idx);
    return none;
}

static void tell_missing(const char *file, const char *field, const char *path)
{
    char *cwd = path[0] == '/' ? NULL : realpath(".", NULL);
    fprintf(stderr,
            "%s: note: %s %s: nothing is there on this host; ranks look for it on their nodes%s%s%s\n", file,
            field, path, cwd ? ", relative to the folder of the submit (here " : "", cwd ? cwd : "",
            cwd ? ")" : "");
    free(cwd);
}

/* Files may be on the nodes alone, so this is all that can be said; else it would come out only there, after the wait for slots. */
static void tell_of_paths(const char *file, const struct job_train *t)
{
    const char *field = t->n_corpora > 1 ? "train.data.mix:" : "train.data.path";
    for (size_t i = 0; i < t->n_corpora; i++)
        if (corpus_missing(t->corpora[i].path))
            tell_missing(file, field, t->corpora[i].path);
    if (t->eval_path && corpus_missing(t->eval_path))
        tell_missing(file, "train.eval.path", t->eval_path);
    if (strcmp(t->tokenizer, "bytes") != 0 && missing(t->tokenizer))
        tell_missing(file, "train.data.tokenizer", t->tokenizer);
    if (t->from && missing(t->from))
        tell_missing(file, "train.from", t->from);
}

/* ---- what is set aside ---- */

/* A job that is for GPUs alone does not compute in host memory. */
static void tell_of_memory(const char *file, const struct job_spec *spec)
{
    struct memory m;
    bool gpu = spec->device == DEVICE_GPU;
    memory_of(spec, gpu, &m);
    char *note = gpu ? memorynote_images(spec, &m) : memorynote_host(spec, &m);
    if (note)
        fprintf(stderr, "%s: note: %s\n", file, note);
    free(note);
}

/* ---- what is kept ---- */

/* Both speak of steps, and auto knows beforehand of none. */
static void tell_of_auto(const char *file, const struct job_spec *spec)
{
    bool best = spec->checkpoint.keep_best > 0;
    if (spec->checkpoint.every != JOB_EVERY_AUTO || (!best && spec->checkpoint.keep_every == 0))
        return;
    fprintf(stderr,
            "%s: note: checkpoint.%s is for saves of steps that %s, which with every: auto is left to "
            "chance; write a "
            "number of steps\n",
            file, best ? "keep_best" : "keep_every",
            best ? "were evaluated (train.eval.every)" : "it divides");
}

void jobnotes_print(const char *file, const struct job_spec *spec)
{
    tell_without_effect(file, spec);
    if (!spec->is_train)
        return;
    tell_of_paths(file, &spec->train);
    tell_of_memory(file, spec);
    tell_of_auto(file, spec);
}
