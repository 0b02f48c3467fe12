/* scenario_read: each section of the file is a table of rows: a key, how its value is read, and where it goes. */
#include "schema/scenario_read.h"

#include <stdlib.h>
#include <string.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "schema/cluster_read.h"
#include "schema/job_read.h"
#include "schema/scalar.h"
#include "schema/suggest.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define DAY_MS   INT64_C(86400000)
#define YEARS_MS (SCENARIO_DAYS_MAX * DAY_MS)

/* ---- values ---- */

static int need_word(const struct tree_node *node, struct err *err)
{
    return node->kind == TREE_SCALAR ? 0 : err_set(err, "must be a single value");
}

int scenario_read_int(const struct scenario_field *f, const struct tree_node *node, void *at, struct err *err)
{
    return need_word(node, err) < 0 ? -1 : scalar_int(node->text, f->min, f->max, at, err);
}

int scenario_read_duration(const struct scenario_field *f, const struct tree_node *node, void *at,
                           struct err *err)
{
    return need_word(node, err) < 0 ? -1 : scalar_duration(node->text, f->min, f->max, at, err);
}

int scenario_read_bool(const struct scenario_field *f, const struct tree_node *node, void *at,
                       struct err *err)
{
    (void)f;
    return need_word(node, err) < 0 ? -1 : scalar_bool(node->text, at, err);
}

int scenario_read_real(const struct scenario_field *f, const struct tree_node *node, void *at,
                       struct err *err)
{
    return need_word(node, err) < 0 ? -1 : scalar_real(node->text, (double)f->min, (double)f->max, at, err);
}

int scenario_read_text(const struct scenario_field *f, const struct tree_node *node, void *at,
                       struct err *err)
{
    char **to = at;
    if (need_word(node, err) < 0)
        return -1;
    if (node->text[0] == '\0' || (int64_t)strlen(node->text) > f->max)
        return err_set(err, "must have 1 to %lld bytes", (long long)f->max);
    free(*to);
    *to = str_dup(node->text);
    return 0;
}

static const char *word_under(const struct tree_node *node, const char *key)
{
    size_t i = node->kind == TREE_MAPPING ? tree_find(node, key) : 0;
    return i && node->items[i]->kind == TREE_SCALAR ? node->items[i]->text : NULL;
}

int scenario_read_time(const struct scenario_field *f, const struct tree_node *node, void *at,
                       struct err *err)
{
    struct scenario_time *t = at;
    const char *mean = word_under(node, "exponential"), *median = word_under(node, "lognormal"),
               *sigma = word_under(node, "sigma");
    if (node->kind == TREE_SCALAR) {
        *t = (struct scenario_time){.shape = SHAPE_FIXED};
        return scalar_duration(node->text, f->min, f->max, &t->ms, err);
    }
    if (node->kind == TREE_MAPPING && mean && node->n_items == 2) {
        *t = (struct scenario_time){.shape = SHAPE_EXPONENTIAL};
        return scalar_duration(mean, f->min, f->max, &t->ms, err);
    }
    if (node->kind == TREE_MAPPING && median && sigma && node->n_items == 4) {
        *t = (struct scenario_time){.shape = SHAPE_LOGNORMAL};
        if (scalar_real(sigma, 0, 5, &t->sigma, err) < 0)
            return err_prefix(err, "sigma");
        return scalar_duration(median, f->min, f->max, &t->ms, err);
    }
    return err_set(err, "must be a duration such as 4h, {exponential: 4h} or {lognormal: 4h, sigma: 1}");
}

static int read_days(const struct scenario_field *f, const struct tree_node *node, void *at, struct err *err)
{
    (void)f;
    if (need_word(node, err) < 0)
        return -1;
    if (scalar_real(node->text, SCENARIO_DAYS_MIN, SCENARIO_DAYS_MAX, at, NULL) == 0)
        return 0;
    char quoted[DIAG_QUOTE_SIZE];
    return err_set(err, "must be a number of days from %g to %d, not %s", SCENARIO_DAYS_MIN,
                   SCENARIO_DAYS_MAX, diag_quote(quoted, node->text));
}

/* spares: auto or a number of nodes for each job. */
static int read_spares(const struct scenario_field *f, const struct tree_node *node, void *at,
                       struct err *err)
{
    if (need_word(node, err) < 0)
        return -1;
    if (strcmp(node->text, "auto") == 0) {
        *(int64_t *)at = JOB_SPARES_AUTO;
        return 0;
    }
    if (scalar_int(node->text, f->min, f->max, at, NULL) == 0)
        return 0;
    char quoted[DIAG_QUOTE_SIZE];
    return err_set(err, "must be auto or a number of nodes from %lld to %lld, not %s", (long long)f->min,
                   (long long)f->max, diag_quote(quoted, node->text));
}

/* every: 30m, 500 (steps), auto or never. */
static int read_every(const struct scenario_field *f, const struct tree_node *node, void *at, struct err *err)
{
    struct scenario_checkpoint *c = at;
    if (need_word(node, err) < 0)
        return -1;
    c->every_ms = c->every_steps = 0;
    if (strcmp(node->text, "auto") == 0) {
        c->every_steps = JOB_EVERY_AUTO;
        return 0;
    }
    if (strcmp(node->text, "never") == 0 || scalar_int(node->text, 1, f->max, &c->every_steps, NULL) == 0)
        return 0;
    if (scalar_duration(node->text, f->min, f->max, &c->every_ms, NULL) == 0)
        return 0;
    char quoted[DIAG_QUOTE_SIZE];
    return err_set(err, "must be a duration such as 30m, a number of steps, auto or never, not %s",
                   diag_quote(quoted, node->text));
}

/* ---- sections ---- */

static void complain_unknown(struct scenario_reader *r, const struct tree_node *key, const char *section,
                             const struct scenario_field *fields, size_t n)
{
    const char *words[32];
    char quoted[DIAG_QUOTE_SIZE];
    for (size_t i = 0; i < n; i++)
        words[i] = fields[i].key;
    const char *near = suggest_nearest(key->text, words, n);
    diag_add(r->diag, key->at, "unknown field %s%s%s%s%s%s", diag_quote(quoted, key->text),
             section[0] ? " in " : "", section, near ? "; did you mean \"" : "", near ? near : "",
             near ? "\"?" : "; docs/simulation.md lists the fields");
}

static void read_row(struct scenario_reader *r, const struct tree_node *value, const char *section,
                     const struct scenario_field *f, void *base)
{
    struct err err;
    if (f->walk)
        f->walk(r, value);
    else if (f->read(f, value, (char *)base + f->offset, &err) < 0)
        diag_add(r->diag, value->at, "%s%s%s: %s", section, section[0] ? "." : "", f->key, err.text);
}

void scenario_read_section(struct scenario_reader *r, const struct tree_node *node, const char *section,
                           const struct scenario_field *fields, size_t n, void *base)
{
    if (node->kind != TREE_MAPPING) {
        if (!tree_is_empty(node))
            diag_add(r->diag, node->at, "%s must be a mapping of fields (key: value)",
                     section[0] ? section : "a scenario");
        return;
    }
    for (size_t i = 0; i + 1 < node->n_items; i += 2) {
        size_t k = 0;
        while (k < n && strcmp(fields[k].key, node->items[i]->text) != 0)
            k++;
        if (k == n)
            complain_unknown(r, node->items[i], section, fields, n);
        else
            read_row(r, node->items[i + 1], section, &fields[k], base);
    }
}

static const struct scenario_field checkpoint_fields[] = {
    {.key = "every", .read = read_every, .min = 1, .max = YEARS_MS},
    {"cost", scenario_read_duration, NULL, offsetof(struct scenario_checkpoint, cost_ms), 0, DAY_MS},
    {"stall", scenario_read_duration, NULL, offsetof(struct scenario_checkpoint, stall_ms), 0, DAY_MS},
    {"overlap", scenario_read_bool, NULL, offsetof(struct scenario_checkpoint, overlap), 0, 0},
};

static bool says(const struct tree_node *node, const char *key)
{
    return node->kind == TREE_MAPPING && tree_find(node, key);
}

/* What a checkpoint: section gives must fit together; where it says nothing of stall and overlap, they are what they were. */
static void read_checkpoint(struct scenario_reader *r, const struct tree_node *node,
                            struct scenario_checkpoint *c)
{
    size_t before = diag_count(r->diag);
    scenario_read_section(r, node, "checkpoint", checkpoint_fields, COUNT(checkpoint_fields), c);
    if (diag_count(r->diag) > before)
        return;
    struct mark at = says(node, "stall") ? node->items[tree_find(node, "stall")]->at : node->at;
    if (says(node, "stall") && c->stall_ms > 0 && !c->overlap)
        diag_add(r->diag, at,
                 "checkpoint.stall: only with overlap: true; without it training waits for the whole cost");
    else if (c->overlap && c->stall_ms > c->cost_ms)
        diag_add(r->diag, at,
                 "checkpoint.stall: training cannot wait longer than the cost of the checkpoint");
}

static void walk_checkpoint(struct scenario_reader *r, const struct tree_node *node)
{
    read_checkpoint(r, node, &r->common);
    r->says_every = says(node, "every");
}

#define TIMING(k, member, most)                                                                              \
    {                                                                                                        \
        k, scenario_read_duration, NULL, offsetof(struct scenario, timing.member), 0, most                   \
    }
static const struct scenario_field timing_fields[] = {
    TIMING("detect", detect_ms, DAY_MS),
    TIMING("prepare", prepare_ms, DAY_MS),
    TIMING("launch", launch_ms, DAY_MS),
    TIMING("stop", stop_ms, DAY_MS),
};

static void walk_timing(struct scenario_reader *r, const struct tree_node *node)
{
    scenario_read_section(r, node, "timing", timing_fields, COUNT(timing_fields), r->s);
}

/* ---- names of files ---- */

static char *beside(const char *file, const char *name)
{
    const char *slash = strrchr(file, '/');
    if (name[0] == '/' || !slash)
        return str_dup(name);
    return str_printf("%.*s/%s", (int)(slash - file), file, name);
}

static void complain_file(struct scenario_reader *r, struct mark at, const struct job_diagnostics *d)
{
    diag_add(r->diag, at, "%s%s", d->text[0], d->count > 1 ? " (and more)" : "");
}

/* ---- jobs ---- */

struct job_entry {
    struct scenario_reader *r;
    struct scenario_job job;
    int64_t spares;
    bool says_every;     /* its own checkpoint: has an interval */
    bool job_says_every; /* its job file has one */
};

/* Has a job file an interval of its own, or would that be the default? */
static bool job_says_every(const struct tree_node *job)
{
    size_t i = job && job->kind == TREE_MAPPING ? tree_find(job, "checkpoint") : 0;
    return i && says(job->items[i], "every");
}

static bool text_says_every(const char *text, size_t len)
{
    struct diag *d = diag_new("");
    struct tree_node *root = tree_parse(text, len, NULL, d);
    bool is_said = job_says_every(root);
    tree_free(root);
    diag_free(d);
    return is_said;
}

static int read_job_file(const struct scenario_field *f, const struct tree_node *node, void *at,
                         struct err *err)
{
    (void)f;
    struct job_entry *e = at;
    if (need_word(node, err) < 0)
        return -1;
    char *path = beside(e->r->file, node->text);
    size_t len = 0;
    char *text = fs_read(path, JOB_FILE_MAX, &len, err);
    struct job_diagnostics *d = mem_zero(1, sizeof(*d));
    job_spec_free(e->job.spec);
    e->job.spec = NULL;
    int rc = text ? job_spec_parse_plan(text, len, path, NULL, 0, &e->job.spec, d) : -1;
    if (text && rc < 0)
        err_set(err, "%s", d->text[0]);
    e->job_says_every = rc == 0 && text_says_every(text, len);
    free(d);
    free(text);
    free(path);
    return rc;
}

static int read_job_inline(const struct scenario_field *f, const struct tree_node *node, void *at,
                           struct err *err)
{
    (void)f;
    (void)err;
    struct job_entry *e = at;
    job_spec_free(e->job.spec);
    e->job.spec = job_spec_from_tree(node, true, e->r->diag);
    e->job_says_every = job_says_every(node);
    return 0; /* what is wrong in it has its own places */
}

static const struct scenario_field arrive_fields[] = {
    {"first", scenario_read_duration, NULL, offsetof(struct scenario_job, first_ms), 0, YEARS_MS},
    {"every", scenario_read_duration, NULL, offsetof(struct scenario_job, every_ms), 1, YEARS_MS},
    {"random", scenario_read_bool, NULL, offsetof(struct scenario_job, random_gaps), 0, 0},
};

static int read_arrive(const struct scenario_field *f, const struct tree_node *node, void *at,
                       struct err *err)
{
    (void)f;
    (void)err;
    struct job_entry *e = at;
    scenario_read_section(e->r, node, "arrive", arrive_fields, COUNT(arrive_fields), &e->job);
    return 0;
}

static int read_job_checkpoint(const struct scenario_field *f, const struct tree_node *node, void *at,
                               struct err *err)
{
    (void)f;
    (void)err;
    struct job_entry *e = at;
    read_checkpoint(e->r, node, &e->job.checkpoint);
    e->says_every = says(node, "every");
    return 0;
}

#define ENTRY(k, reader, member, lo, hi)                                                                     \
    {                                                                                                        \
        k, reader, NULL, offsetof(struct job_entry, member), lo, hi                                          \
    }
static const struct scenario_field job_fields_of_entry[] = {
    {.key = "file", .read = read_job_file},
    {.key = "spec", .read = read_job_inline},
    {.key = "arrive", .read = read_arrive},
    {.key = "checkpoint", .read = read_job_checkpoint},
    ENTRY("step", scenario_read_duration, job.step_ms, 1, DAY_MS),
    ENTRY("work", scenario_read_time, job.work, 1, YEARS_MS),
    ENTRY("load", scenario_read_duration, job.load_ms, 0, DAY_MS),
    ENTRY("count", scenario_read_int, job.count, 1, SCENARIO_COUNT_MAX),
    ENTRY("spares", read_spares, spares, 0, CLUSTER_NODES_MAX),
};

static void check_job(struct scenario_reader *r, const struct job_entry *e, const struct tree_node *node)
{
    const struct job_spec *spec = e->job.spec;
    struct mark at = node->at;
    if (!spec)
        return;
    if (!spec->is_train && !says(node, "step"))
        diag_add(r->diag, at, "job %s: step is missing: how long one training step of its program takes",
                 spec->name);
    if (!spec->is_train && !says(node, "work"))
        diag_add(r->diag, at, "job %s: work is missing: how long it trains when nothing goes wrong",
                 spec->name);
}

/* Each of the arriving jobs gets its own folder, so the one in the file only says that it saves checkpoints. */
static void finish_job(struct job_entry *e)
{
    struct scenario_checkpoint *c = &e->job.checkpoint;
    if (!c->overlap)
        c->stall_ms = c->cost_ms;
    if (e->job_says_every && !e->says_every && !e->r->says_every) { /* what the scenario says goes before */
        c->every_ms = 0;
        c->every_steps = e->job.spec ? e->job.spec->checkpoint.every : 0;
    }
    if (e->job.spec && e->spares != SCENARIO_SPARES_JOB)
        e->job.spec->placement.spares = e->spares;
    if (e->job.count == 0)
        e->job.count = e->job.every_ms > 0 ? SCENARIO_COUNT_MAX : 1;
}

static void walk_job(struct scenario_reader *r, const struct tree_node *node)
{
    struct job_entry e = {.r = r, .spares = r->spares};
    e.job.load_ms = r->load_ms;
    e.job.checkpoint = r->common;
    size_t before = diag_count(r->diag);
    scenario_read_section(r, node, "jobs[]", job_fields_of_entry, COUNT(job_fields_of_entry), &e);
    if (!e.job.spec && diag_count(r->diag) == before)
        diag_add(r->diag, node->at, "a job needs file: (a job file) or spec: (what a job file says)");
    check_job(r, &e, node);
    finish_job(&e);
    r->s->jobs[r->s->n_jobs++] = e.job;
}

static void walk_jobs(struct scenario_reader *r, const struct tree_node *node)
{
    if (node->kind != TREE_SEQUENCE || node->n_items == 0 || node->n_items > SCENARIO_JOBS_MAX) {
        diag_add(r->diag, node->at, "jobs must be a list of 1 to %d entries", SCENARIO_JOBS_MAX);
        return;
    }
    r->s->jobs = mem_zero(node->n_items, sizeof(*r->s->jobs));
    for (size_t i = 0; i < node->n_items; i++)
        walk_job(r, node->items[i]);
}

/* ---- the cluster ---- */

static void walk_cluster(struct scenario_reader *r, const struct tree_node *node)
{
    if (node->kind == TREE_MAPPING) {
        r->s->cluster = cluster_read_tree(node, r->diag);
        return;
    }
    if (node->kind != TREE_SCALAR || node->text[0] == '\0') {
        diag_add(r->diag, node->at, "cluster must be the name of a cluster file, or what is in one");
        return;
    }
    char *path = beside(r->file, node->text);
    struct job_diagnostics *d = mem_zero(1, sizeof(*d));
    if (cluster_spec_load(path, &r->s->cluster, d) < 0)
        complain_file(r, node->at, d);
    free(d);
    free(path);
}

static int by_rack(const void *x, const void *y)
{
    const struct cluster_node *a = *(const struct cluster_node *const *)x,
                              *b = *(const struct cluster_node *const *)y;
    int c = strcmp(a->pod, b->pod);
    return c != 0 ? c : strcmp(a->rack, b->rack);
}

/* How many nodes, devices and racks rates are counted over. */
static void measure_cluster(struct scenario_reader *r)
{
    const struct cluster_spec *c = r->s->cluster;
    const struct cluster_node **nodes = mem_zero(c->n_nodes + 1, sizeof(void *));
    for (size_t i = 0; i < c->n_nodes; i++) {
        nodes[i] = &c->nodes[i];
        r->device_days += (double)c->nodes[i].slots;
    }
    qsort(nodes, c->n_nodes, sizeof(void *), by_rack);
    for (size_t i = 0; i < c->n_nodes; i++)
        r->rack_days += i == 0 || by_rack(&nodes[i - 1], &nodes[i]) != 0;
    r->node_days = (double)c->n_nodes;
    free(nodes);
}

/* ---- sweeps ---- */

static void read_sweep(struct scenario_reader *r, const struct tree_node *key, const struct tree_node *list)
{
    struct scenario *s = r->s;
    if (s->n_sweeps == SCENARIO_SWEEPS_MAX || list->kind != TREE_SEQUENCE || list->n_items == 0 ||
        list->n_items > SCENARIO_VALUES_MAX) {
        diag_add(r->diag, list->at,
                 "sweep.%s: a sweep has at most %d fields, each with a list of 1 to %d values", key->text,
                 SCENARIO_SWEEPS_MAX, SCENARIO_VALUES_MAX);
        return;
    }
    struct scenario_sweep *sweep = &s->sweeps[s->n_sweeps++];
    sweep->key = str_dup(key->text);
    for (size_t i = 0; i < list->n_items; i++) {
        if (list->items[i]->kind != TREE_SCALAR)
            diag_add(r->diag, list->items[i]->at, "sweep.%s: values must be single words", key->text);
        else
            sweep->values[sweep->n_values++] = str_dup(list->items[i]->text);
    }
}

static void walk_sweep(struct scenario_reader *r, const struct tree_node *node)
{
    if (node->kind != TREE_MAPPING) {
        diag_add(r->diag, node->at, "sweep must be a mapping such as {checkpoint.every: [10m, 1h]}");
        return;
    }
    for (size_t i = 0; i + 1 < node->n_items; i += 2)
        read_sweep(r, node->items[i], node->items[i + 1]);
}

/* ---- the file ---- */

static void walk_load(struct scenario_reader *r, const struct tree_node *node)
{
    const struct scenario_field f = {.key = "load", .read = scenario_read_duration, .max = DAY_MS};
    read_row(r, node, "", &f, &r->load_ms);
}

static void walk_spares(struct scenario_reader *r, const struct tree_node *node)
{
    const struct scenario_field f = {.key = "spares", .read = read_spares, .max = CLUSTER_NODES_MAX};
    read_row(r, node, "", &f, &r->spares);
}

#define TOP(k, reader, member, lo, hi)                                                                       \
    {                                                                                                        \
        k, reader, NULL, offsetof(struct scenario, member), lo, hi                                           \
    }
/* In the order in which they are read: jobs and failures need what stands before. */
static const struct scenario_field top_fields[] = {
    TOP("name", scenario_read_text, name, 1, 200),
    TOP("days", read_days, days, 0, 0),
    TOP("seed", scenario_read_int, seed, 0, INT64_MAX),
    {.key = "cluster", .walk = walk_cluster},
    {.key = "timing", .walk = walk_timing},
    {.key = "checkpoint", .walk = walk_checkpoint},
    {.key = "load", .walk = walk_load},
    {.key = "spares", .walk = walk_spares},
    {.key = "jobs", .walk = walk_jobs},
    {.key = "failures", .walk = scenario_read_failures},
    {.key = "sweep", .walk = walk_sweep},
};

static void set_defaults(struct scenario_reader *r)
{
    struct scenario *s = r->s;
    s->days = 7;
    s->seed = 1;
    s->slow_factor = 1.5;
    s->timing.detect_ms = 5000;
    s->timing.prepare_ms = 1000;
    s->timing.launch_ms = 1000;
    s->timing.stop_ms = 2000;
    r->common = (struct scenario_checkpoint){.every_ms = 30 * 60000, .cost_ms = 30000};
    r->load_ms = 60000;
    r->spares = SCENARIO_SPARES_JOB;
}

static void read_known(struct scenario_reader *r, const struct tree_node *root, size_t field)
{
    size_t i = tree_find(root, top_fields[field].key);
    if (i == 0)
        return;
    read_row(r, root->items[i], "", &top_fields[field], r->s);
    if (top_fields[field].walk == walk_cluster && r->s->cluster)
        measure_cluster(r);
}

static void complain_missing(struct scenario_reader *r, const struct tree_node *root)
{
    struct mark top = {1, 1, NULL};
    if (!tree_find(root, "cluster"))
        diag_add(r->diag, top, "cluster is missing: the name of a cluster file, or what is in one");
    if (!tree_find(root, "jobs"))
        diag_add(r->diag, top, "jobs is missing: a list of what runs on the cluster");
}

void scenario_read_tree(struct scenario_reader *r, const struct tree_node *root)
{
    set_defaults(r);
    if (root->kind != TREE_MAPPING) {
        diag_add(r->diag, root->at, "a scenario must be a mapping of fields (key: value)");
        return;
    }
    for (size_t i = 0; i + 1 < root->n_items; i += 2) {
        size_t k = 0;
        while (k < COUNT(top_fields) && strcmp(top_fields[k].key, root->items[i]->text) != 0)
            k++;
        if (k == COUNT(top_fields))
            complain_unknown(r, root->items[i], "", top_fields, COUNT(top_fields));
    }
    for (size_t k = 0; k < COUNT(top_fields); k++)
        read_known(r, root, k);
    complain_missing(r, root);
}
