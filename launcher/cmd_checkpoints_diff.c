/* belay checkpoints diff: in what two checkpoints differ. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/audit.h"
#include "checkpoint/compare.h"
#include "common/jsonx.h"
#include "common/mem.h"
#include "launcher/ckptfind.h"
#include "launcher/ckptmeter.h"
#include "launcher/ckptview.h"
#include "launcher/output.h"
#include "launcher/table.h"

struct diff {
    struct audit *audits[2];
    double relative,
        absolute; /* what counts as no difference: of the largest number of a tensor; by itself */
    struct compare_tensor *tensors;
    size_t count, room, unequal; /* unequal: beyond the tolerance */
    char *model;                 /* in what the models differ, NULL = in nothing */
};

static const struct manifest *side(const struct diff *d, int i)
{
    return audit_manifest(d->audits[i]);
}

/* Magnitudes of fp8 are each rank's own: on another mesh there are others, which is no difference of the model. */
static bool no_parameter(const struct compare_tensor *t)
{
    return strcmp(t->name, "fp8.largest") == 0;
}

/* The largest difference against the largest number of the tensor: against each number itself it would be 1 wherever one is 0. */
static double relative(const struct compare_tensor *t)
{
    return t->magnitude > 0 ? t->largest / t->magnitude : t->largest;
}

static bool differs(const struct diff *d, const struct compare_tensor *t)
{
    if (t->kind != COMPARE_BOTH)
        return !no_parameter(t);
    bool bitwise = d->absolute == 0 && d->relative == 0; /* 0 and -0 differ then */
    return t->unequal > 0 && (bitwise || !(t->largest <= d->absolute || relative(t) <= d->relative));
}

static void keep(void *arg, const struct compare_tensor *t)
{
    struct diff *d = arg;
    if (d->count == d->room)
        d->tensors = mem_one_more(d->tensors, d->count, &d->room, sizeof *d->tensors);
    d->tensors[d->count++] = *t;
    d->unequal += differs(d, t);
}

/* ---- as a table ------------------------------------------------------------------------------------------------------- */

static const struct table_column columns[] = {
    {"TENSOR", false, false},  {"SHAPE", false, false}, {"UNEQUAL", true, false}, {"LARGEST", true, false},
    {"RELATIVE", true, false}, {"NORM", true, false},   {"NORM 2", true, false},  {"WHAT", false, false},
};

static const char *what(const struct diff *d, const struct compare_tensor *t)
{
    static const char *const kinds[] = {[COMPARE_ONLY_FIRST] = "only in the first",
                                        [COMPARE_ONLY_SECOND] = "only in the second",
                                        [COMPARE_SHAPES] = "other shapes"};
    if (t->kind != COMPARE_BOTH)
        return kinds[t->kind];
    if (t->unequal == 0)
        return "equal bitwise";
    return differs(d, t) ? "differs" : "within the tolerance";
}

static char *shape(const size_t s[2], char out[FORMAT_SIZE])
{
    snprintf(out, FORMAT_SIZE, s[1] > 0 ? "%zu x %zu" : "%zu", s[0], s[1]);
    return out;
}

static void add_shape(struct table *t, const struct compare_tensor *x)
{
    char first[FORMAT_SIZE], second[FORMAT_SIZE];
    if (x->kind == COMPARE_SHAPES)
        table_cell(t, COLOUR_NONE, "%s, %s", shape(x->shape[0], first), shape(x->shape[1], second));
    else
        table_cell(t, COLOUR_NONE, "%s", shape(x->shape[x->kind == COMPARE_ONLY_SECOND], first));
}

static void add_row(struct table *table, const struct diff *d, const struct compare_tensor *t)
{
    table_cell(table, COLOUR_NONE, "%s", t->name);
    add_shape(table, t);
    for (size_t i = 0; t->kind != COMPARE_BOTH && i < 5; i++)
        table_cell(table, COLOUR_NONE, "%s", "");
    if (t->kind == COMPARE_BOTH) {
        table_cell(table, COLOUR_NONE, "%" PRIu64, t->unequal);
        table_cell(table, COLOUR_NONE, "%.3g", t->largest);
        table_cell(table, COLOUR_NONE, "%.3g", relative(t));
        table_cell(table, COLOUR_NONE, "%.9g", t->norm[0]);
        table_cell(table, COLOUR_NONE, "%.9g", t->norm[1]);
    }
    table_cell(table, differs(d, t) ? COLOUR_RED : COLOUR_NONE, "%s", what(d, t));
}

static void print_side(const struct diff *d, int i)
{
    const struct manifest *m = side(d, i);
    char mesh[FORMAT_SIZE];
    printf("%s  step %" PRId64 ", %" PRIu64 " samples, %" PRIu64 " tokens; mesh %s, attempt %" PRId64
           "%s%s, format %" PRId64 "\n        %s\n",
           i == 0 ? "first " : "second", m->state.step, m->state.samples, m->state.tokens,
           ckptview_mesh(&m->state, mesh), m->state.attempt, m->state.job[0] ? " of job " : "", m->state.job,
           m->format, audit_folder(d->audits[i]));
}

static void print_facts(const struct diff *d)
{
    const struct manifest_state *a = &side(d, 0)->state, *b = &side(d, 1)->state;
    print_side(d, 0);
    print_side(d, 1);
    printf("model   %s\n", d->model ? d->model : "the same");
    if (a->seed != b->seed || a->data_fingerprint != b->data_fingerprint)
        printf("data    another %s\n", a->seed != b->seed ? "seed" : "corpus");
}

static void print_diff(const struct diff *d, bool wide)
{
    size_t shown = 0, equal = 0;
    struct table *t = table_new(columns, sizeof columns / sizeof *columns, wide);
    for (size_t i = 0; i < d->count; i++) {
        bool same = d->tensors[i].kind == COMPARE_BOTH && d->tensors[i].unequal == 0;
        equal += same;
        if (same && !wide)
            continue;
        add_row(t, d, &d->tensors[i]);
        shown++;
    }
    print_facts(d);
    printf("tensors %zu of %zu are equal bitwise", equal, d->count);
    if (d->count - equal > d->unequal)
        printf(", %zu more within the tolerance", d->count - equal - d->unequal);
    printf("\n%s", shown > 0 ? "\n" : "");
    if (shown > 0)
        table_show_whole(t);
    else
        table_free(t);
}

/* ---- as JSON ---------------------------------------------------------------------------------------------------------- */

static json_t *shape_json(const size_t s[2])
{
    json_t *array = json_array();
    for (size_t i = 0; i < 2 && s[i] > 0; i++)
        json_array_append_new(array, json_integer((json_int_t)s[i]));
    return array;
}

static json_t *tensor_json(const struct diff *d, const struct compare_tensor *t)
{
    json_t *obj = json_object();
    jsonx_set_str(obj, "name", t->name);
    jsonx_set_str(obj, "what", what(d, t));
    jsonx_set(obj, "shape", shape_json(t->shape[t->kind == COMPARE_ONLY_SECOND]));
    if (t->kind == COMPARE_SHAPES)
        jsonx_set(obj, "shape_2", shape_json(t->shape[1]));
    if (t->kind != COMPARE_BOTH)
        return obj;
    jsonx_set(obj, "numbers", json_integer((json_int_t)t->numbers));
    jsonx_set(obj, "unequal", json_integer((json_int_t)t->unequal));
    jsonx_set_real(obj, "largest", t->largest);
    jsonx_set_real(obj, "relative", relative(t));
    jsonx_set_real(obj, "norm", t->norm[0]);
    jsonx_set_real(obj, "norm_2", t->norm[1]);
    return obj;
}

static void print_json(const struct diff *d)
{
    json_t *obj = json_object(), *tensors = json_array();
    static const char *const keys[] = {"first", "second"};
    for (int i = 0; i < 2; i++) {
        json_t *one = json_object();
        ckptview_json(one, side(d, i));
        jsonx_set_str(one, "path", audit_folder(d->audits[i]));
        jsonx_set(obj, keys[i], one);
    }
    for (size_t i = 0; i < d->count; i++)
        json_array_append_new(tensors, tensor_json(d, &d->tensors[i]));
    jsonx_set_str(obj, "model", d->model);
    jsonx_set(obj, "different", json_integer((json_int_t)d->unequal));
    jsonx_set(obj, "tensors", tensors);
    output_json(obj);
    json_decref(obj);
}

/* ---- the command line ------------------------------------------------------------------------------------------------- */

static int open_side(const struct args *args, int i, struct diff *d)
{
    struct ckptfind place;
    struct err err = {""};
    char *folder = NULL;
    int rc = ckptfind(args, args->words[i], &place);
    if (rc == CLI_DONE)
        rc = ckptfind_one(&place, -1, true, &folder);
    if (rc == CLI_DONE && !(d->audits[i] = audit_open(folder, &err)))
        rc = cli_fail(CLI_REFUSED, "%s", err.text);
    free(folder);
    ckptfind_clear(&place);
    return rc;
}

static int compare(struct diff *d)
{
    const struct compare_side sides[] = {{audit_folder(d->audits[0]), side(d, 0)},
                                         {audit_folder(d->audits[1]), side(d, 1)}};
    struct err err = {""};
    struct ckptmeter *meter =
        ckptmeter_new("comparing", audit_bytes(d->audits[0]) + audit_bytes(d->audits[1]));
    d->model = manifest_model_differences(&sides[0].manifest->state.model, &sides[1].manifest->state.model);
    int rc = compare_checkpoints(sides, keep, d, ckptmeter_watch(meter), &err);
    ckptmeter_end(meter);
    return rc == 0 ? CLI_DONE : cli_fail(CLI_REFUSED, "%s", err.text);
}

static int read_tolerance(const char *name, const char *text, double *out)
{
    char *end = NULL;
    errno = 0;
    *out = text ? strtod(text, &end) : 0;
    if (!text || (end != text && !*end && errno == 0 && *out >= 0 && isfinite(*out)))
        return CLI_DONE;
    return cli_fail(CLI_USAGE, "checkpoints diff: --%s \"%s\" is not a number such as 1e-6", name, text);
}

static int diff(const struct command *self, int argc, char **argv)
{
    const char *relative = NULL, *absolute = NULL;
    const struct args_option options[] = {
        ARGS_OPTION_TEXT("tolerance", 0, &relative, "T",
                         "no number of a tensor may differ by more than T of its largest (0: bitwise)"),
        ARGS_OPTION_TEXT("absolute", 0, &absolute, "A",
                         "or by more than A: for tensors that hold nothing but rounding (0)"),
    };
    struct args args;
    struct diff d = {.count = 0};
    int rc = args_parse(self, options, sizeof options / sizeof *options, argc, argv, &args);
    if (rc != ARGS_GO)
        return rc;
    rc = read_tolerance("tolerance", relative, &d.relative);
    if (rc == CLI_DONE)
        rc = read_tolerance("absolute", absolute, &d.absolute);
    for (int i = 0; i < 2 && rc == CLI_DONE; i++)
        rc = open_side(&args, i, &d);
    if (rc == CLI_DONE)
        rc = compare(&d);
    if (rc == CLI_DONE && args.output == OUTPUT_JSON)
        print_json(&d);
    else if (rc == CLI_DONE)
        print_diff(&d, args.output == OUTPUT_WIDE);
    if (rc == CLI_DONE && (d.unequal > 0 || d.model))
        rc = CLI_FOUND;
    free(d.tensors);
    free(d.model);
    audit_close(d.audits[0]);
    audit_close(d.audits[1]);
    args_clear(&args);
    return rc;
}

const struct command command_checkpoints_diff = {
    .name = "checkpoints diff",
    .args = "CHECKPOINT CHECKPOINT [--tolerance T] [--absolute A]",
    .help = "Compares two checkpoints tensor by tensor, whatever meshes wrote them; exits with 1 when they "
            "differ",
    .examples = "  belay checkpoints diff a/step-00000100 b/step-00000100\n"
                "  belay checkpoints diff a b --tolerance 1e-6 -o wide\n",
    .min_words = 2,
    .max_words = 2,
    .listing = true,
    .run = diff,
};
