/* tree: a YAML document as nodes that know their place. Only the plain part of YAML that a job file needs: no anchors,
 * aliases, tags, merge keys or further documents, so that what is read is what is written and its size is its cost. */
#ifndef BELAY_SCHEMA_TREE_H
#define BELAY_SCHEMA_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "schema/diag.h"

enum tree_kind { TREE_SCALAR, TREE_SEQUENCE, TREE_MAPPING };

struct tree_node {
    enum tree_kind kind;
    bool plain; /* a scalar without quotes */
    struct mark at;
    char *text;               /* scalar: no NUL bytes within */
    struct tree_node **items; /* sequence: the elements; mapping: key, value, key, value … */
    size_t n_items;
};

/* Reads one document of at most JOB_FILE_MAX bytes. set: NULL, or the --set argument whose value this is. Returns the root, or
 * NULL with something added to d. A tree may come back although something was added (keys that are there twice). */
struct tree_node *tree_parse(const char *text, size_t len, const char *set, struct diag *d);
void tree_free(struct tree_node *node);

/* A fresh, empty node; text is copied and may be NULL. */
struct tree_node *tree_node_new(enum tree_kind kind, struct mark at, const char *text);
void tree_append(struct tree_node *node, struct tree_node *item);

/* The index in items of the value under key, or 0 when there is none (a value is never at 0). */
size_t tree_find(const struct tree_node *mapping, const char *key);

/* A plain scalar of no characters: what YAML calls null when nothing is written. */
bool tree_is_empty(const struct tree_node *node);

#endif
