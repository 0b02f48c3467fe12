/* cluster_fields: every field of the cluster file, one row each. What is unknown, what is missing and docs/cluster-file.md follow this
 * table. Used only inside schema/ and its tests. */
#ifndef BELAY_SCHEMA_CLUSTER_FIELDS_H
#define BELAY_SCHEMA_CLUSTER_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

struct cluster_field {
    const char *path;     /* "pods.racks.nodes"; a list's fields are named like a section's */
    const char *type;     /* in words */
    const char *fallback; /* the default in words; "required" when it must be there once its section is */
    const char *help;
};

extern const struct cluster_field cluster_fields[];
extern const size_t cluster_fields_count;

#define CLUSTER_FIELD_NONE ((size_t)-1)

/* The row of "section.key" (section "" = top level), or CLUSTER_FIELD_NONE. */
size_t cluster_field_find(const char *section, const char *key);
/* Is the row directly in the section? */
bool cluster_field_is_in(size_t field, const char *section);
/* The last word of a row's path. */
const char *cluster_field_key(size_t field);
bool cluster_field_required(size_t field);

/* What may be meant by an unknown key, as the end of a sentence: the nearest one known in the section, else what is allowed there. */
void cluster_field_explain(const char *section, const char *key, char *out, size_t size);

/* A row as one line of the reference in docs/cluster-file.md. */
void cluster_field_document(size_t field, char *out, size_t size);

#endif
