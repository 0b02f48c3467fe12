/* scenario: from bytes to a scenario: tree, overrides, fields. Everything that is wrong comes out together. */
#include "schema/scenario.h"

#include <stdlib.h>
#include <string.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "schema/scenario_read.h"

/* ---- overrides: "checkpoint.every=1h", "jobs.0.step=2s", "sweep.checkpoint.every=[1h, 2h]" ---- */

/* The value under the word in a mapping (made when it is not there) or the element of that number; NULL when there is none. */
static struct tree_node **enter(struct tree_node *node, const char *word, struct mark at)
{
    if (node->kind == TREE_SEQUENCE) {
        char *end = NULL;
        unsigned long i = strtoul(word, &end, 10);
        return end != word && *end == '\0' && i < node->n_items ? &node->items[i] : NULL;
    }
    if (tree_is_empty(node))
        node->kind = TREE_MAPPING;
    if (node->kind != TREE_MAPPING)
        return NULL;
    size_t found = tree_find(node, word);
    if (!found) {
        tree_append(node, tree_node_new(TREE_SCALAR, at, word));
        tree_append(node, tree_node_new(TREE_MAPPING, at, NULL));
        found = node->n_items - 1;
    }
    return &node->items[found];
}

static void apply_set(struct tree_node *root, const char *set, struct diag *d)
{
    struct mark at = {1, 1, set};
    const char *equals = strchr(set, '=');
    if (!equals || equals == set) {
        diag_add(d, at, "must be FIELD=VALUE, such as checkpoint.every=30m");
        return;
    }
    char *path = str_printf("%.*s", (int)(equals - set), set), *word = path;
    struct tree_node **to = &root;
    bool is_key = false;
    while (to && word) {
        char *dot = is_key ? NULL : strchr(word, '.');
        if (dot)
            *dot = '\0';
        to = enter(*to, word, at);
        word = dot ? dot + 1 : NULL;
        is_key = is_key || (dot && strcmp(path, "sweep") == 0); /* its fields have dots in their names */
    }
    struct tree_node *value = to ? tree_parse(equals + 1, strlen(equals + 1), set, d) : NULL;
    if (!to)
        diag_add(d, at, "there is no such place in the file");
    if (value) {
        tree_free(*to);
        *to = value;
    }
    free(path);
}

/* ---- reading ---- */

static bool is_blank(const char *text, size_t len)
{
    while (len > 0 && strchr(" \t\r\n", text[len - 1]) && text[len - 1] != '\0')
        len--;
    return len == 0;
}

static struct scenario *read_text(const char *text, size_t len, const char *file, const char *const *sets,
                                  size_t n_sets, struct diag *d)
{
    struct tree_node *root = is_blank(text, len) ? NULL : tree_parse(text, len, NULL, d);
    if (is_blank(text, len))
        diag_add(d, (struct mark){1, 1, NULL},
                 "the file is empty; docs/simulation.md says what a scenario has");
    if (!root)
        return NULL;
    for (size_t i = 0; i < n_sets && root->kind == TREE_MAPPING; i++)
        apply_set(root, sets[i], d);
    struct scenario_reader r = {.s = mem_zero(1, sizeof(*r.s)), .diag = d, .file = file};
    scenario_read_tree(&r, root);
    tree_free(root);
    return r.s;
}

static int finish(struct diag *d, struct scenario *s, struct scenario **out,
                  struct job_diagnostics *diagnostics)
{
    bool ok = diag_count(d) == 0;
    diag_finish(d, diagnostics);
    diag_free(d);
    *out = ok ? s : NULL;
    if (!ok)
        scenario_free(s);
    return ok ? 0 : -1;
}

int scenario_parse(const char *text, size_t len, const char *file, const char *const *sets, size_t n_sets,
                   struct scenario **out, struct job_diagnostics *diagnostics)
{
    struct diag *d = diag_new(file);
    struct scenario *s = read_text(text, len, file, sets, n_sets, d);
    return finish(d, s, out, diagnostics);
}

int scenario_load(const char *path, const char *const *sets, size_t n_sets, struct scenario **out,
                  struct job_diagnostics *diagnostics)
{
    struct err err;
    size_t len = 0;
    char *text = fs_read(path, JOB_FILE_MAX, &len, &err);
    if (text) {
        int rc = scenario_parse(text, len, path, sets, n_sets, out, diagnostics);
        free(text);
        return rc;
    }
    struct diag *d = diag_new(path);
    diag_add(d, (struct mark){1, 1, NULL}, "%s", err.text);
    return finish(d, NULL, out, diagnostics);
}

void scenario_free(struct scenario *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_jobs; i++)
        job_spec_free(s->jobs[i].spec);
    for (size_t i = 0; i < s->n_sweeps; i++) {
        free(s->sweeps[i].key);
        for (size_t k = 0; k < s->sweeps[i].n_values; k++)
            free(s->sweeps[i].values[k]);
    }
    if (s->cluster)
        cluster_spec_free(s->cluster);
    free(s->jobs);
    free(s->name);
    free(s);
}
