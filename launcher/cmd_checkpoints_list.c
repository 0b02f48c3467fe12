/* belay checkpoints list: what stands in a directory of checkpoints. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/audit.h"
#include "checkpoint/shelf.h"
#include "common/clock.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "launcher/ckptfind.h"
#include "launcher/ckptview.h"
#include "launcher/output.h"
#include "launcher/table.h"

struct request {
    struct ckptfind place;
    struct retention_policy policy;
    int64_t latest; /* step, -1 = not known */
};

/* One line of the list. */
struct row {
    const struct request *request;
    const struct retention_item *item;
    char *path, *problem;
    struct audit *audit; /* NULL: its manifest cannot be read */
};

/* The first file that is not as the manifest says, and how many more there are; sizes only. */
static char *find_problem(const struct audit *audit)
{
    struct err first = {""}, err;
    size_t bad = 0;
    for (size_t i = 0; i < audit_manifest(audit)->n_files; i++)
        bad += audit_file(audit, i, false, NULL, bad > 0 ? &err : &first) != 0;
    if (bad <= 1)
        return bad ? str_dup(first.text) : NULL;
    return str_printf("%s; and %zu more", first.text, bad - 1);
}

static void open_row(const struct request *q, const struct retention_item *item, struct row *row)
{
    struct err err = {""};
    *row = (struct row){.request = q, .item = item, .path = shelf_path(q->place.directory, item->step)};
    row->audit = audit_open(row->path, &err);
    row->problem = row->audit ? find_problem(row->audit) : str_dup(err.text);
}

static void close_row(struct row *row)
{
    audit_close(row->audit);
    free(row->problem);
    free(row->path);
}

/* "newest, every 1000th" */
static void print_reasons(const struct row *row, char *out, size_t size)
{
    const struct retention_policy *p = &row->request->policy;
    unsigned stays = row->item->stays;
    char every[40] = "";
    if (stays & RETENTION_EVERY)
        snprintf(every, sizeof every, "%severy %" PRId64, stays & RETENTION_NEWEST ? ", " : "",
                 p->keep_every);
    snprintf(out, size, "%s%s%s%s", stays & RETENTION_NEWEST ? "newest" : "", every,
             stays & RETENTION_BEST && stays != RETENTION_BEST ? ", " : "",
             stays & RETENTION_BEST ? "best" : "");
    if (stays == 0)
        snprintf(out, size, "no");
}

static const struct table_column columns[] = {
    {"STEP", true, false},  {"TIME", false, false},  {"AGE", true, false},    {"SIZE", true, false},
    {"MESH", false, false}, {"JOB", true, true},     {"ATTEMPT", true, true}, {"FORMAT", true, true},
    {"LOSS", true, false},  {"STAYS", false, false}, {"STATE", false, false},
};

static double age_of(const struct manifest *m)
{
    int64_t then = format_parse_time(m->time);
    return then < 0 ? (double)NAN : (double)(clock_utc_ms() - then) / 1000;
}

static void add_facts(struct table *t, const struct audit *audit)
{
    const struct manifest *m = audit_manifest(audit);
    char text[FORMAT_SIZE];
    table_cell(t, COLOUR_NONE, "%s", format_time(m->time, text));
    table_cell(t, COLOUR_NONE, "%s", format_seconds(age_of(m), text));
    table_cell(t, COLOUR_NONE, "%s", format_bytes((int64_t)audit_bytes(audit), text));
    table_cell(t, COLOUR_NONE, "%s", ckptview_mesh(&m->state, text));
    table_cell(t, COLOUR_NONE, "%s", m->state.job);
    table_cell(t, COLOUR_NONE, "%" PRId64, m->state.attempt);
    table_cell(t, COLOUR_NONE, "%" PRId64, m->format);
    table_cell(t, COLOUR_NONE, "%s", format_loss(m->state.held_loss, text));
}

static void add_row(const struct row *row, void *to)
{
    struct table *t = to;
    char reasons[80];
    table_cell(t, COLOUR_NONE, "%" PRId64, row->item->step);
    if (row->audit)
        add_facts(t, row->audit);
    for (size_t i = 0; !row->audit && i < 8; i++)
        table_cell(t, COLOUR_NONE, "%s", "");
    print_reasons(row, reasons, sizeof reasons);
    table_cell(t, COLOUR_NONE, "%s", reasons);
    table_cell(t, row->problem ? COLOUR_RED : COLOUR_NONE, "%s%s", row->problem ? row->problem : "complete",
               row->item->step == row->request->latest ? ", latest" : "");
}

static json_t *reasons_json(unsigned stays)
{
    json_t *array = json_array();
    static const struct {
        unsigned bit;
        const char *name;
    } names[] = {{RETENTION_NEWEST, "newest"}, {RETENTION_EVERY, "every"}, {RETENTION_BEST, "best"}};
    for (size_t i = 0; i < 3; i++)
        if (stays & names[i].bit)
            json_array_append_new(array, json_string(names[i].name));
    return array;
}

static void add_json(const struct row *row, void *to)
{
    json_t *obj = json_object();
    jsonx_set(obj, "step", json_integer(row->item->step));
    if (row->audit) {
        ckptview_json(obj, audit_manifest(row->audit));
        jsonx_set_real(obj, "age_s", age_of(audit_manifest(row->audit)));
        jsonx_set(obj, "bytes", json_integer((json_int_t)audit_bytes(row->audit)));
    }
    jsonx_set(obj, "complete", json_boolean(!row->problem));
    jsonx_set_str(obj, "problem", row->problem);
    jsonx_set(obj, "latest", json_boolean(row->item->step == row->request->latest));
    jsonx_set(obj, "stays", reasons_json(row->item->stays));
    jsonx_set_str(obj, "path", row->path);
    json_array_append_new(to, obj);
}

/* Oldest first, as `belay checkpoints JOB`; of a word that names one checkpoint only that. */
static void each(const struct request *q, const struct retention_item *items, int64_t count,
                 void (*add)(const struct row *row, void *to), void *to)
{
    int64_t only = q->place.folder ? shelf_step_of(q->place.folder) : -1;
    for (int64_t i = count; i-- > 0;) {
        struct row row;
        if (only >= 0 && items[i].step != only)
            continue;
        open_row(q, &items[i], &row);
        add(&row, to);
        close_row(&row);
    }
}

static void show(const struct request *q, enum args_output output, const struct retention_item *items,
                 int64_t count)
{
    if (output == OUTPUT_JSON) {
        json_t *list = json_array();
        each(q, items, count, add_json, list);
        output_json(list);
        json_decref(list);
    } else if (count == 0) {
        printf("%s has no checkpoint.\n", q->place.directory);
    } else {
        struct table *t = table_new(columns, sizeof columns / sizeof *columns, output == OUTPUT_WIDE);
        each(q, items, count, add_row, t);
        table_show_whole(t);
    }
}

static int list(const struct command *self, int argc, char **argv)
{
    struct request q = {.policy = {.keep = CKPTVIEW_KEEP}};
    const struct args_option options[] = {CKPTVIEW_POLICY(&q.policy)};
    struct args args;
    int rc = args_parse(self, options, sizeof options / sizeof *options, argc, argv, &args);
    if (rc != ARGS_GO)
        return rc;
    rc = ckptfind(&args, args.words[0], &q.place);
    if (rc == CLI_DONE) {
        struct retention_item *items;
        struct err err = {""};
        int64_t count = shelf_survey(q.place.directory, &q.policy, &items, &err);
        q.latest = shelf_latest(q.place.directory);
        if (count < 0)
            rc = cli_fail(CLI_NO_SUCH, "%s", err.text);
        else
            show(&q, args.output, items, count);
        free(items);
    }
    ckptfind_clear(&q.place);
    args_clear(&args);
    return rc;
}

const struct command command_checkpoints_list = {
    .name = "checkpoints list",
    .args = "DIR|CHECKPOINT|JOB [--keep K] [--keep-every N] [--keep-best B]",
    .help = "Lists what stands in a directory of checkpoints: is it complete, by which rule would it stay",
    .examples = "  belay checkpoints list ckpt\n"
                "  belay checkpoints list ckpt --keep 2 --keep-every 1000 --keep-best 1 -o wide\n",
    .min_words = 1,
    .max_words = 1,
    .listing = true,
    .run = list,
};
