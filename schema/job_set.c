/* job_set: --set a.b=value. The value is read as YAML and put into the tree before the tree is read, so that it is checked like
 * any other; its nodes carry the argument as their place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "schema/job_read.h"
#include "schema/suggest.h"

struct setting {
    const char *text; /* the whole argument */
    char *path;       /* what is before the = */
    struct mark at;
    struct diag *diag;
};

static void complain_path(const struct setting *s)
{
    const char *paths[JOB_FIELDS_MAX];
    char quoted[DIAG_QUOTE_SIZE], hint[300] = "";
    for (size_t i = 0; i < job_fields_count; i++)
        paths[i] = job_fields[i].path;
    const char *nearest = suggest_nearest(s->path, paths, job_fields_count);
    const char *last = strrchr(s->path, '.');
    if (nearest)
        (void)snprintf(hint, sizeof hint, "; did you mean \"%s\"?", nearest);
    else
        job_field_explain("", last ? last + 1 : s->path, hint, sizeof hint);
    diag_add(s->diag, s->at, "unknown field %s%s", diag_quote(quoted, s->path), hint);
}

/* The value under key in a mapping that is being set, made when it is not there. NULL when what is there is no mapping. */
static struct tree_node *enter(struct tree_node *mapping, const char *key, struct mark at)
{
    size_t found = tree_find(mapping, key);
    if (!found) {
        tree_append(mapping, tree_node_new(TREE_SCALAR, at, key));
        tree_append(mapping, tree_node_new(TREE_MAPPING, at, NULL));
        return mapping->items[mapping->n_items - 1];
    }
    struct tree_node *value = mapping->items[found];
    if (tree_is_empty(value))
        value->kind = TREE_MAPPING;
    return value->kind == TREE_MAPPING ? value : NULL;
}

/* Takes value. */
static void replace(struct tree_node *mapping, const char *key, struct tree_node *value)
{
    size_t found = tree_find(mapping, key);
    if (found) {
        tree_free(mapping->items[found]);
        mapping->items[found] = value;
        return;
    }
    tree_append(mapping, tree_node_new(TREE_SCALAR, value->at, key));
    tree_append(mapping, value);
}

/* Splits the path into section, last key; follows it through the tree. NULL when that cannot be, which has been said. */
static struct tree_node *find_home(struct setting *s, struct tree_node *root, const char **key)
{
    char *word = s->path;
    size_t field = JOB_FIELD_NONE;
    struct tree_node *at = root;
    for (char *dot = strchr(word, '.'); at && dot; dot = strchr(word, '.')) {
        *dot = '\0';
        field = job_field_find(field == JOB_FIELD_NONE ? "" : job_fields[field].path, word);
        bool section = field != JOB_FIELD_NONE && job_fields[field].type == FIELD_SECTION;
        bool env = field != JOB_FIELD_NONE && job_fields[field].type == FIELD_ENV;
        at = section || env ? enter(at, word, s->at) : NULL;
        *dot = '.';
        word = dot + 1;
        if (env)
            break;
    }
    *key = word;
    return at;
}

static bool is_known(const char *path)
{
    if (strncmp(path, "env.", 4) == 0)
        return true;
    for (size_t i = 0; i < job_fields_count; i++)
        if (strcmp(job_fields[i].path, path) == 0)
            return true;
    return false;
}

static void apply(struct setting *s, struct tree_node *root, const char *value)
{
    const char *key = NULL;
    if (!is_known(s->path)) {
        complain_path(s);
        return;
    }
    struct tree_node *home = find_home(s, root, &key);
    if (!home) {
        diag_add(s->diag, s->at, "what the file has there is not a mapping of fields");
        return;
    }
    struct tree_node *node = tree_parse(value, strlen(value), s->text, s->diag);
    if (node)
        replace(home, key, node);
    else if (*value == '*' || *value == '&') /* the shell takes quotes for its own */
        diag_add(s->diag, s->at, "put the value in quotes within those of the shell: --set '%s=\"%s\"'",
                 s->path, value);
}

static void apply_argument(struct tree_node *root, const char *text, struct diag *d)
{
    const char *equals = strchr(text, '=');
    struct setting s = {.text = text, .at = {1, 1, text}, .diag = d};
    if (!equals || equals == text) {
        diag_add(d, s.at, "must be FIELD=VALUE, such as train.steps=40");
        return;
    }
    s.path = str_printf("%.*s", (int)(equals - text), text);
    apply(&s, root, equals + 1);
    free(s.path);
}

void job_read_sets(struct tree_node *root, const char *const *sets, size_t n_sets, struct diag *d)
{
    if (root->kind != TREE_MAPPING)
        return; /* said when the tree is read */
    for (size_t i = 0; i < n_sets; i++)
        apply_argument(root, sets[i], d);
}
