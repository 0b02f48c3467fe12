/* job_read: walks the tree beside the table of fields. Each value is read by the reader of its type (job_value, job_list), into the spec at
 * the offset that its row has; the defaults of the table go through the same readers first, so that they are checked like a user's words. */
#include "schema/job_read.h"

#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "schema/job_list.h"
#include "schema/job_value.h"

/* at: set to the place of the part that is wrong. */
static int set_field(struct job_spec *spec, const struct job_field *f, const struct tree_node *node,
                     struct mark *at, struct err *err)
{
    *at = node->at;
    return f->type >= FIELD_LISTS ? job_list_read(spec, f, node, at, err)
                                  : job_value_scalar(spec, f, node, err);
}

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
                 job_value_kind(node));
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
    int rc = f->fallback[0] == '[' ? set_default_list(spec, f, d, &err)
                                   : job_value_word(spec, f, f->fallback, &err);
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
                 "a job file is a mapping of fields that begins with  name: my-job, not %s",
                 job_value_kind(root));
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
