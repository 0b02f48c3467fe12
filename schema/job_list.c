/* job_list: see job_list.h. Each reader walks the items of its node, and leaves the place of the one it is at in *at. */
#include "schema/job_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "schema/diag.h"
#include "schema/job_value.h"
#include "schema/scalar.h"

static void *member(struct job_spec *spec, const struct job_field *f)
{
    return (char *)spec + f->at;
}

static int set_betas(double *out, const struct tree_node *node, struct err *err)
{
    double values[2];
    if (node->kind != TREE_SEQUENCE || node->n_items != 2)
        return err_set(err, "must be a list of two numbers such as [0.9, 0.95]");
    for (size_t i = 0; i < 2; i++) {
        if (job_value_is_scalar(node->items[i], err) < 0 || job_value_is_number(node->items[i], err) < 0 ||
            scalar_real(node->items[i]->text, 0, 1, &values[i], err) < 0)
            return -1;
        if (values[i] >= 1)
            return err_set(err, "must be below 1, not %s", node->items[i]->text);
    }
    memcpy(out, values, sizeof values);
    return 0;
}

static int set_events(unsigned *out, const struct job_field *f, const struct tree_node *node, struct err *err)
{
    unsigned bits = 0;
    if (node->kind != TREE_SEQUENCE)
        return err_set(err, "must be a list such as [failed, completed], not %s", job_value_kind(node));
    for (size_t i = 0; i < node->n_items; i++) {
        int index =
            job_value_is_scalar(node->items[i], err) < 0 ? -1 : job_value_index(f, node->items[i]->text, err);
        if (index < 0)
            return -1;
        bits |= 1u << index;
    }
    *out = bits;
    return 0;
}

/* One word of a command or value of a variable: may be empty when quoted, may be a plain decimal number. */
static int check_argument(const struct tree_node *node, struct err *err)
{
    if (job_value_is_scalar(node, err) < 0 || job_value_is_text(node, true, err) < 0)
        return -1;
    size_t len = strlen(node->text);
    return len <= JOB_ARG_MAX ? 0
                              : err_set(err, "has %zu bytes, a program takes at most %u", len, JOB_ARG_MAX);
}

static int command_as_list(const struct tree_node *node, struct err *err)
{
    char list[256] = "";
    size_t used = 0;
    for (const char *c = node->text + strspn(node->text, " "); *c && used < 100;) {
        size_t len = strcspn(c, " ");
        int n = snprintf(list + used, sizeof list - used, "%s\"%.*s\"", used ? ", " : "",
                         len > 60 ? 60 : (int)len, c);
        used += n > 0 ? (size_t)n : 0;
        c += len;
        c += strspn(c, " ");
    }
    return err_set(err, "must be a list, one word each: command: [%s]", list);
}

static int set_command(struct job_spec *spec, const struct tree_node *node, struct mark *at, struct err *err)
{
    if (node->kind == TREE_SCALAR && node->text[0])
        return command_as_list(node, err);
    if (node->kind != TREE_SEQUENCE || node->n_items == 0)
        return err_set(
            err, "must be a list of the program and its arguments, such as [\"python3\", \"train.py\"]");
    if (node->n_items > JOB_ARGS_MAX)
        return err_set(err, "has %zu words; at most %d are allowed", node->n_items, JOB_ARGS_MAX);
    for (size_t i = 0; i < node->n_items; i++) {
        *at = node->items[i]->at;
        if (check_argument(node->items[i], err) < 0)
            return -1;
    }
    *at = node->items[0]->at;
    if (node->items[0]->text[0] == '\0')
        return err_set(err, "the program must not be empty");
    spec->argv = mem_zero(node->n_items + 1, sizeof *spec->argv);
    for (size_t i = 0; i < node->n_items; i++)
        spec->argv[i] = str_dup(node->items[i]->text);
    return 0;
}

static int check_variable(const struct tree_node *key, struct err *err)
{
    static const char rest[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    const char *c = key->text;
    if (*c && !(*c >= '0' && *c <= '9') && c[strspn(c, rest)] == '\0' && strlen(c) <= 255)
        return 0;
    char quoted[DIAG_QUOTE_SIZE];
    return err_set(err,
                   "the name of a variable must be 1 to 255 letters, digits and \"_\", not beginning with a "
                   "digit, not %s",
                   diag_quote(quoted, c));
}

static int set_env(struct job_spec *spec, const struct tree_node *node, struct mark *at, struct err *err)
{
    if (tree_is_empty(node))
        return 0;
    if (node->kind != TREE_MAPPING)
        return err_set(err, "must be a mapping such as {KEY: value}, not %s", job_value_kind(node));
    spec->env = mem_zero(node->n_items / 2 + 1, sizeof *spec->env);
    for (size_t i = 0; i + 1 < node->n_items; i += 2) {
        *at = node->items[i]->at;
        if (check_variable(node->items[i], err) < 0)
            return -1;
        *at = node->items[i + 1]->at;
        if (check_argument(node->items[i + 1], err) < 0)
            return err_prefix(err, "%s", node->items[i]->text);
        spec->env[spec->n_env].key = str_dup(node->items[i]->text);
        spec->env[spec->n_env++].value = str_dup(node->items[i + 1]->text);
    }
    return 0;
}

/* ---- corpora ---- */

/* One field of a corpus. */
static int set_corpus_field(struct job_corpus *out, const char *key, const struct tree_node *value,
                            struct err *err)
{
    char quoted[DIAG_QUOTE_SIZE];
    int rc = 0;
    if (strcmp(key, "path") == 0)
        rc = job_value_is_scalar(value, err) < 0 || job_value_is_text(value, false, err) < 0
                 ? -1
                 : job_value_text(&out->path, value->text, err);
    else if (strcmp(key, "weight") == 0)
        rc = job_value_is_scalar(value, err) < 0 || job_value_is_number(value, err) < 0
                 ? -1
                 : scalar_real(value->text, JOB_WEIGHT_MIN, JOB_WEIGHT_MAX, &out->weight, err);
    else
        return err_set(err, "unknown field %s in a corpus; it has path and weight", diag_quote(quoted, key));
    return rc < 0 ? err_prefix(err, "%s", key) : 0;
}

static int set_corpus(struct job_corpus *out, const struct tree_node *node, struct mark *at, struct err *err)
{
    if (node->kind != TREE_MAPPING)
        return err_set(err, "a corpus is {path: …, weight: …}, not %s", job_value_kind(node));
    for (size_t i = 0; i + 1 < node->n_items; i += 2) {
        *at = node->items[i + 1]->at;
        if (set_corpus_field(out, node->items[i]->text, node->items[i + 1], err) < 0)
            return -1;
    }
    *at = node->at;
    return out->path ? 0 : err_set(err, "a corpus needs a path");
}

static int set_mix(struct job_train *train, const struct tree_node *node, struct mark *at, struct err *err)
{
    if (node->kind != TREE_SEQUENCE || node->n_items == 0)
        return err_set(err,
                       "must be a list such as [{path: a.bin, weight: 0.7}, {path: b.bin, weight: 0.3}]");
    if (node->n_items > JOB_CORPORA_MAX)
        return err_set(err, "has %zu corpora; at most %d are allowed", node->n_items, JOB_CORPORA_MAX);
    train->corpora = mem_zero(node->n_items, sizeof *train->corpora);
    for (size_t i = 0; i < node->n_items; i++) {
        struct job_corpus *corpus = &train->corpora[train->n_corpora++];
        *at = node->items[i]->at;
        corpus->weight = 1;
        if (set_corpus(corpus, node->items[i], at, err) < 0)
            return -1;
    }
    return 0;
}

/* ---- stages ---- */

static int set_stages(struct job_spec *spec, const struct job_field *f, const struct tree_node *node,
                      struct mark *at, struct err *err)
{
    if (node->kind != TREE_SEQUENCE || node->n_items == 0)
        return err_set(err, "must be a list such as [7, 8, 8, 7]: the layers of each piece of the pipeline");
    spec->stages = mem_zero(node->n_items, sizeof *spec->stages);
    for (size_t i = 0; i < node->n_items; i++) {
        const struct tree_node *item = node->items[i];
        *at = item->at;
        if (job_value_is_scalar(item, err) < 0 || job_value_is_number(item, err) < 0 ||
            scalar_int(item->text, f->min, f->max, &spec->stages[i], err) < 0)
            return -1;
    }
    spec->n_stages = node->n_items;
    return 0;
}

int job_list_read(struct job_spec *spec, const struct job_field *f, const struct tree_node *node,
                  struct mark *at, struct err *err)
{
    switch (f->type) {
    case FIELD_BETAS:
        return set_betas(member(spec, f), node, err);
    case FIELD_EVENTS:
        return set_events(member(spec, f), f, node, err);
    case FIELD_COMMAND:
        return set_command(spec, node, at, err);
    case FIELD_ENV:
        return set_env(spec, node, at, err);
    case FIELD_MIX:
        return set_mix(&spec->train, node, at, err);
    default:
        return set_stages(spec, f, node, at, err);
    }
}
