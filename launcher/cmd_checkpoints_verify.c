/* belay checkpoints verify: reads checkpoints in full and names every file that is not what its manifest says.
 *
 * The files of all checkpoints that are asked for are one list; threads take one after the other from it. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "checkpoint/audit.h"
#include "checkpoint/shelf.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "launcher/ckptfind.h"
#include "launcher/ckptmeter.h"
#include "launcher/ckptview.h"
#include "launcher/output.h"

#define THREADS_MAX 16

struct subject {
    char *folder;
    struct audit *audit; /* NULL: see problem */
    char *problem;       /* of the manifest */
    size_t first;        /* its files' checks */
};

struct check {
    const struct audit *audit;
    size_t file;
    char *problem; /* NULL = as the manifest says */
};

struct survey {
    struct subject *subjects;
    size_t n_subjects;
    struct check *checks;
    size_t n_checks;
    atomic_size_t next;
    const struct digest_watch *watch;
};

/* ---- what is to be read ---- */

static void add_subject(struct survey *s, char *folder)
{
    struct err err = {""};
    s->subjects = mem_grow(s->subjects, s->n_subjects + 1, sizeof *s->subjects);
    struct subject *new = &s->subjects[s->n_subjects++];
    *new = (struct subject){.folder = folder, .audit = audit_open(folder, &err), .first = s->n_checks};
    if (!new->audit) {
        new->problem = str_dup(err.text);
        return;
    }
    size_t files = audit_manifest(new->audit)->n_files;
    s->checks = mem_grow(s->checks, s->n_checks + files, sizeof *s->checks);
    for (size_t i = 0; i < files; i++)
        s->checks[s->n_checks++] = (struct check){.audit = new->audit, .file = i};
}

static int add_all(struct survey *s, const char *directory)
{
    struct err err = {""};
    int64_t *steps, count = shelf_list(directory, &steps, &err);
    if (count < 0)
        return cli_fail(CLI_NO_SUCH, "%s", err.text);
    for (int64_t i = count; i-- > 0;)
        add_subject(s, shelf_path(directory, steps[i]));
    free(steps);
    return count > 0 ? CLI_DONE : cli_fail(CLI_NO_SUCH, "%s has no checkpoint", directory);
}

static void clear(struct survey *s)
{
    for (size_t i = 0; i < s->n_checks; i++)
        free(s->checks[i].problem);
    for (size_t i = 0; i < s->n_subjects; i++) {
        audit_close(s->subjects[i].audit);
        free(s->subjects[i].problem);
        free(s->subjects[i].folder);
    }
    free(s->checks);
    free(s->subjects);
}

/* ---- reading ---- */

static void *work(void *arg)
{
    struct survey *s = arg;
    for (size_t i; (i = atomic_fetch_add(&s->next, 1)) < s->n_checks;) {
        struct err err = {""};
        struct check *c = &s->checks[i];
        if (audit_file(c->audit, c->file, true, s->watch, &err) != 0)
            c->problem = str_dup(err.text);
    }
    return NULL;
}

/* This thread works, too: where no other can be started it does everything. */
static void run(struct survey *s)
{
    pthread_t threads[THREADS_MAX];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t n = 0, wanted = processors > 1 ? (size_t)processors - 1 : 0;
    while (n < wanted && n < THREADS_MAX && n + 1 < s->n_checks &&
           pthread_create(&threads[n], NULL, work, s) == 0)
        n++;
    work(s);
    for (size_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

static void read_all(struct survey *s)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < s->n_subjects; i++)
        bytes += s->subjects[i].audit ? audit_bytes(s->subjects[i].audit) : 0;
    struct ckptmeter *meter = ckptmeter_new("verifying", bytes);
    s->watch = ckptmeter_watch(meter);
    run(s);
    ckptmeter_end(meter);
}

/* ---- telling ---- */

static size_t files_of(const struct subject *subject)
{
    return subject->audit ? audit_manifest(subject->audit)->n_files : 0;
}

static size_t count_bad(const struct survey *s, const struct subject *subject)
{
    size_t bad = subject->problem != NULL;
    for (size_t i = 0; i < files_of(subject); i++)
        bad += s->checks[subject->first + i].problem != NULL;
    return bad;
}

/* Beside a run, whose retention took it away after it was listed. */
static bool is_gone(const struct survey *s, const struct subject *subject)
{
    return count_bad(s, subject) > 0 && access(subject->folder, F_OK) != 0 && errno == ENOENT;
}

static void print_subject(const struct survey *s, const struct subject *subject)
{
    char bytes[FORMAT_SIZE];
    size_t files = files_of(subject), bad = count_bad(s, subject);
    if (subject->problem) {
        printf("%s: bad\n  %s\n", subject->folder, subject->problem);
    } else if (bad == 0) {
        printf("%s: good, %zu file%s, %s\n", subject->folder, files, files == 1 ? "" : "s",
               format_bytes((int64_t)audit_bytes(subject->audit), bytes));
    } else {
        printf("%s: bad, %zu of %zu files\n", subject->folder, bad, files);
        for (size_t i = 0; i < files; i++)
            if (s->checks[subject->first + i].problem)
                printf("  %s\n", s->checks[subject->first + i].problem);
    }
}

static json_t *subject_json(const struct survey *s, const struct subject *subject)
{
    json_t *obj = json_object(), *files = json_array();
    const struct manifest *m = subject->audit ? audit_manifest(subject->audit) : NULL;
    for (size_t i = 0; m && i < m->n_files; i++) {
        json_t *file = json_object();
        jsonx_set_str(file, "name", m->files[i].name);
        jsonx_set(file, "bytes", json_integer((json_int_t)m->files[i].bytes));
        jsonx_set_str(file, "problem", s->checks[subject->first + i].problem);
        json_array_append_new(files, file);
    }
    jsonx_set_str(obj, "path", subject->folder);
    jsonx_set(obj, "step", m ? json_integer(m->state.step) : json_null());
    jsonx_set(obj, "good", json_boolean(count_bad(s, subject) == 0));
    jsonx_set_str(obj, "problem", subject->problem);
    jsonx_set(obj, "files", files);
    return obj;
}

static int tell(const struct survey *s, enum args_output output)
{
    size_t bad = 0;
    json_t *list = json_array();
    for (size_t i = 0; i < s->n_subjects; i++) {
        const struct subject *subject = &s->subjects[i];
        bool gone = is_gone(s, subject);
        bad += !gone && count_bad(s, subject) > 0;
        if (gone)
            fprintf(stderr, "%s was removed meanwhile\n", subject->folder);
        else if (output == OUTPUT_JSON)
            json_array_append_new(list, subject_json(s, subject));
        else
            print_subject(s, subject);
    }
    if (output == OUTPUT_JSON)
        output_json(list);
    json_decref(list);
    return bad > 0 ? CLI_FOUND : CLI_DONE;
}

/* ---- the command line ---- */

static int choose(struct survey *s, const struct ckptfind *place, int64_t step, bool all)
{
    char *folder;
    if (all && (step >= 0 || place->folder))
        return cli_fail(CLI_USAGE,
                        "checkpoints verify: --all is for a directory, and not together with --step");
    if (all)
        return add_all(s, place->directory);
    int rc = ckptfind_one(place, step, false, &folder);
    if (rc == CLI_DONE)
        add_subject(s, folder);
    return rc;
}

static int verify(const struct command *self, int argc, char **argv)
{
    int64_t step = -1;
    bool all = false;
    const struct args_option options[] = {
        ARGS_OPTION_COUNT("step", 0, &step, 0, INT64_MAX, "N",
                          "the checkpoint of this step (else the newest)"),
        ARGS_OPTION_FLAG("all", 0, &all, "every checkpoint of the directory"),
    };
    struct args args;
    struct ckptfind place;
    struct survey s = {.n_subjects = 0};
    int rc = args_parse(self, options, sizeof options / sizeof *options, argc, argv, &args);
    if (rc != ARGS_GO)
        return rc;
    rc = ckptfind(&args, args.words[0], &place);
    if (rc == CLI_DONE)
        rc = choose(&s, &place, step, all);
    if (rc == CLI_DONE) {
        read_all(&s);
        rc = tell(&s, args.output);
    }
    clear(&s);
    ckptfind_clear(&place);
    args_clear(&args);
    return rc;
}

const struct command command_checkpoints_verify = {
    .name = "checkpoints verify",
    .args = "DIR|CHECKPOINT|JOB [--step N | --all]",
    .help = "Reads a checkpoint in full and names every file that is not what its manifest says (then the "
            "exit code is 1)",
    .examples = "  belay checkpoints verify ckpt\n  belay checkpoints verify ckpt/step-00000100\n"
                "  belay checkpoints verify ckpt --all -o json\n",
    .min_words = 1,
    .max_words = 1,
    .listing = true,
    .run = verify,
};
