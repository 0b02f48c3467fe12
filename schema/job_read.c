/* job_read: walks the tree beside the table of fields. Each value is read by the reader of its type, into the spec at the offset
 * that its row has; the defaults of the table go through the same readers first, so that they are checked like a user's words. */
#include "schema/job_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/mem.h"
#include "schema/scalar.h"
#include "schema/suggest.h"

static void *member(struct job_spec *spec, const struct job_field *f)
{
    return (char *)spec + f->at;
}

/* ---- one word ---- */

static int set_name(char *out, const char *text, struct err *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    static const char rule[] =
        "must be 1 to 63 letters, digits, \".\", \"_\" and \"-\", the first a letter or digit";
    char quoted[DIAG_QUOTE_SIZE], culprit[DIAG_QUOTE_SIZE];
    size_t len = strlen(text), fine = strspn(text, allowed);
    (void)diag_quote(quoted, text);
    if (len > JOB_NAME_MAX)
        return err_set(err, "%s, not %s (%zu bytes)", rule, quoted, len);
    if (fine < len) {
        char bad[5] = {0};
        (void)snprintf(bad, sizeof bad, "%.*s", ((unsigned char)text[fine] & 0x80) ? 4 : 1, text + fine);
        return err_set(err, "%s, not %s (%s is not allowed)", rule, quoted,
                       text[fine] == ' ' ? "a space" : diag_quote(culprit, bad));
    }
    if (len == 0 || strchr("._-", text[0]))
        return err_set(err, "%s, not %s", rule, quoted);
    memcpy(out, text, len + 1);
    return 0;
}

static int set_text(char **out, const char *text, struct err *err)
{
    size_t len = strlen(text);
    if (len == 0)
        return err_set(err, "must not be empty");
    if (len > JOB_TEXT_MAX)
        return err_set(err, "must have at most %d bytes, this has %zu", JOB_TEXT_MAX, len);
    free(*out);
    *out = str_dup(text);
    return 0;
}

static void list_words(const struct job_field *f, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < f->n_words && used < size; i++) {
        const char *between = i == 0 ? "" : i + 1 == f->n_words ? " or " : ", ";
        int n = snprintf(out + used, size - used, "%s%s", between, f->words[i]);
        used += n > 0 ? (size_t)n : 0;
    }
}

/* The index of a word, or -1 with a sentence that names the nearest one. */
static int find_word(const struct job_field *f, const char *text, struct err *err)
{
    for (size_t i = 0; i < f->n_words; i++)
        if (strcmp(f->words[i], text) == 0)
            return (int)i;
    char quoted[DIAG_QUOTE_SIZE], list[256];
    const char *nearest = suggest_nearest(text, f->words, f->n_words);
    list_words(f, list, sizeof list);
    return err_set(err, "must be %s, not %s%s%s%s", list, diag_quote(quoted, text),
                   nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
}

static int set_enum(void *out, const struct job_field *f, const char *text, struct err *err)
{
    int index = find_word(f, text, err);
    if (index >= 0)
        memcpy(out, &index, sizeof index); /* every enum of the spec has the size of an int */
    return index < 0 ? -1 : 0;
}

static int set_preset(char *out, const struct job_field *f, const char *text, struct err *err)
{
    int index = find_word(f, text, err);
    if (index >= 0)
        (void)snprintf(out, sizeof((struct job_model *)0)->preset, "%s", f->words[index]);
    return index < 0 ? -1 : 0;
}

static int set_resume(int64_t *out, const struct job_field *f, const char *text, struct err *err)
{
    if (strcmp(text, "auto") == 0)
        *out = JOB_RESUME_AUTO;
    else if (strcmp(text, "never") == 0)
        *out = JOB_RESUME_NEVER;
    else if (scalar_int(text, f->min, f->max, out, NULL) < 0) {
        char quoted[DIAG_QUOTE_SIZE];
        return err_set(err, "must be auto, never or a step from %" PRId64 " to %" PRId64 ", not %s", f->min,
                       f->max, diag_quote(quoted, text));
    }
    return 0;
}

static int set_spares(int64_t *out, const struct job_field *f, const char *text, struct err *err)
{
    char quoted[DIAG_QUOTE_SIZE];
    *out = JOB_SPARES_AUTO;
    if (strcmp(text, "auto") == 0 || scalar_int(text, f->min, f->max, out, NULL) == 0)
        return 0;
    return err_set(err, "must be auto or a number of nodes from %" PRId64 " to %" PRId64 ", not %s", f->min,
                   f->max, diag_quote(quoted, text));
}

static int set_word(struct job_spec *spec, const struct job_field *f, const char *text, struct err *err)
{
    void *out = member(spec, f);
    switch (f->type) {
    case FIELD_NAME:
        return set_name(out, text, err);
    case FIELD_TEXT:
        return set_text(out, text, err);
    case FIELD_INT:
        return scalar_int(text, f->min, f->max, out, err);
    case FIELD_REAL:
        return scalar_real(text, f->low, f->high, out, err);
    case FIELD_BOOL:
        return scalar_bool(text, out, err);
    case FIELD_SIZE:
        return scalar_size(text, f->min, f->max, out, err);
    case FIELD_DURATION:
        return scalar_duration(text, f->min, f->max, out, err);
    case FIELD_ENUM:
        return set_enum(out, f, text, err);
    case FIELD_PRESET:
        return set_preset(out, f, text, err);
    case FIELD_RESUME:
        return set_resume(out, f, text, err);
    case FIELD_SPARES:
        return set_spares(out, f, text, err);
    default:
        return err_set(err, "must not be a single word");
    }
}

/* ---- quotes: where they are needed, and where they are wrong ---- */

static int check_is_text(const struct tree_node *node, bool numbers, struct err *err)
{
    enum scalar_class class = node->plain ? scalar_classify(node->text) : SCALAR_TEXT;
    static const char *const names[] = {[SCALAR_NULL] = "nothing",
                                        [SCALAR_BOOL] = "a boolean",
                                        [SCALAR_NUMBER] = "a number",
                                        [SCALAR_ODD_NUMBER] = "a number"};
    if (class == SCALAR_TEXT || (class == SCALAR_NUMBER && numbers))
        return 0;
    if (node->text[0] == '\0')
        return err_set(err, "must not be empty");
    char quoted[DIAG_QUOTE_SIZE];
    (void)diag_quote(quoted, node->text);
    return err_set(err, "%s without quotes is read as %s by many YAML tools; write %s with the quotes",
                   node->text, names[class], quoted);
}

static int check_is_number(const struct tree_node *node, struct err *err)
{
    char quoted[DIAG_QUOTE_SIZE];
    if (node->plain)
        return 0;
    return err_set(err, "must not be in quotes; write %s without them", diag_quote(quoted, node->text));
}

static int check_quotes(const struct job_field *f, const struct tree_node *node, struct err *err)
{
    switch (f->type) {
    case FIELD_NAME:
    case FIELD_TEXT:
        return check_is_text(node, false, err);
    case FIELD_INT:
    case FIELD_REAL:
    case FIELD_BOOL:
        return check_is_number(node, err);
    default:
        return 0;
    }
}

/* ---- lists and mappings ---- */

static const char *kind_name(const struct tree_node *node)
{
    if (tree_is_empty(node))
        return "empty";
    return node->kind == TREE_SCALAR ? "a single word" : node->kind == TREE_SEQUENCE ? "a list" : "a mapping";
}

static int need_scalar(const struct tree_node *node, struct err *err)
{
    return node->kind == TREE_SCALAR ? 0 : err_set(err, "must be a single value, not %s", kind_name(node));
}

static int set_betas(double *out, const struct tree_node *node, struct err *err)
{
    double values[2];
    if (node->kind != TREE_SEQUENCE || node->n_items != 2)
        return err_set(err, "must be a list of two numbers such as [0.9, 0.95]");
    for (size_t i = 0; i < 2; i++) {
        if (need_scalar(node->items[i], err) < 0 || check_is_number(node->items[i], err) < 0 ||
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
        return err_set(err, "must be a list such as [failed, completed], not %s", kind_name(node));
    for (size_t i = 0; i < node->n_items; i++) {
        int index = need_scalar(node->items[i], err) < 0 ? -1 : find_word(f, node->items[i]->text, err);
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
    if (need_scalar(node, err) < 0 || check_is_text(node, true, err) < 0)
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
        return err_set(err, "must be a mapping such as {KEY: value}, not %s", kind_name(node));
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

/* at: set to the place of the part that is wrong. */
static int set_field(struct job_spec *spec, const struct job_field *f, const struct tree_node *node,
                     struct mark *at, struct err *err)
{
    *at = node->at;
    switch (f->type) {
    case FIELD_BETAS:
        return set_betas(member(spec, f), node, err);
    case FIELD_EVENTS:
        return set_events(member(spec, f), f, node, err);
    case FIELD_COMMAND:
        return set_command(spec, node, at, err);
    case FIELD_ENV:
        return set_env(spec, node, at, err);
    default:
        if (need_scalar(node, err) < 0 || check_quotes(f, node, err) < 0)
            return -1;
        return set_word(spec, f, node->text, err);
    }
}

/* ---- the walk ---- */

static void read_section(struct job_reader *r, const char *section, const struct tree_node *node);

static void complain_unknown(struct job_reader *r, const char *section, const struct tree_node *key)
{
    char quoted[DIAG_QUOTE_SIZE], hint[400] = "";
    if (!diag_full(r->diag)) /* the search is the costly part */
        job_field_explain(section, key->text, hint, sizeof hint);
    diag_add(r->diag, key->at, "unknown field %s%s%s%s", diag_quote(quoted, key->text),
             section[0] ? " in " : "", section, hint);
}

static void read_subsection(struct job_reader *r, size_t field, const struct tree_node *node)
{
    const char *path = job_fields[field].path;
    if (node->kind == TREE_MAPPING)
        read_section(r, path, node);
    else if (!tree_is_empty(node)) { /* nothing after the colon: a section whose fields are commented out */
        r->fields[field].bad = true;
        diag_add(r->diag, node->at, "%s: must be a mapping of fields (key: value), not %s", path,
                 kind_name(node));
    }
}

static void read_field(struct job_reader *r, size_t field, const struct tree_node *key,
                       const struct tree_node *value)
{
    const struct job_field *f = &job_fields[field];
    struct err err;
    r->fields[field].given = true;
    r->fields[field].at = f->type == FIELD_SECTION ? key->at : value->at;
    if (f->type == FIELD_SECTION) {
        read_subsection(r, field, value);
        return;
    }
    struct mark at = value->at;
    if (set_field(r->spec, f, value, &at, &err) < 0) {
        r->fields[field].bad = true;
        diag_add(r->diag, at, "%s: %s", f->path, err.text);
    }
}

static void read_section(struct job_reader *r, const char *section,
                         const struct tree_node *node) /* NOLINT(misc-no-recursion) */
{
    for (size_t i = 0; i + 1 < node->n_items; i += 2) {
        size_t field = job_field_find(section, node->items[i]->text);
        if (field == JOB_FIELD_NONE)
            complain_unknown(r, section, node->items[i]);
        else
            read_field(r, field, node->items[i], node->items[i + 1]);
    }
}

static void complain_missing(struct job_reader *r)
{
    for (size_t i = 0; i < job_fields_count; i++) {
        if (!job_fields[i].required || r->fields[i].given)
            continue;
        size_t parent = job_field_parent(i);
        if (parent != JOB_FIELD_NONE && (!r->fields[parent].given || r->fields[parent].bad))
            continue;
        r->fields[i].bad = true;
        diag_add(r->diag, job_place(r, job_fields[i].path), "%s is missing: %s", job_fields[i].path,
                 job_fields[i].help);
    }
}

/* A default that is a list goes through the tree like one in a file. */
static int set_default_list(struct job_spec *spec, const struct job_field *f, struct diag *d, struct err *err)
{
    struct mark at;
    struct tree_node *node = tree_parse(f->fallback, strlen(f->fallback), f->path, d);
    int rc = node ? set_field(spec, f, node, &at, err) : -1;
    tree_free(node);
    return rc;
}

/* A default that its own reader refuses is a bug that no test run survives. */
static void set_default(struct job_spec *spec, const struct job_field *f, struct diag *d)
{
    struct err err;
    int rc =
        f->fallback[0] == '[' ? set_default_list(spec, f, d, &err) : set_word(spec, f, f->fallback, &err);
    if (rc < 0)
        abort();
}

void job_read_tree(struct job_reader *r, const struct tree_node *root)
{
    for (size_t i = 0; i < job_fields_count; i++)
        if (job_fields[i].fallback)
            set_default(r->spec, &job_fields[i], r->diag);
    if (root->kind != TREE_MAPPING) {
        diag_add(r->diag, root->at,
                 "a job file is a mapping of fields that begins with  name: my-job, not %s", kind_name(root));
        return;
    }
    read_section(r, "", root);
    complain_missing(r);
}

bool job_given(const struct job_reader *r, const char *path)
{
    return r->fields[job_field_index(path)].given;
}

bool job_sound(const struct job_reader *r, const char *path)
{
    return !r->fields[job_field_index(path)].bad;
}

struct mark job_place(const struct job_reader *r, const char *path)
{
    struct mark top = {1, 1, NULL};
    size_t field = job_field_index(path);
    while (field != JOB_FIELD_NONE && !r->fields[field].given)
        field = job_field_parent(field);
    return field == JOB_FIELD_NONE ? top : r->fields[field].at;
}
