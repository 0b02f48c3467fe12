/* job_read: from the tree to the spec, field by field, and what the checks across fields need to know about it. Used only inside
 * schema/. */
#ifndef BELAY_SCHEMA_JOB_READ_H
#define BELAY_SCHEMA_JOB_READ_H

#include <stdbool.h>

#include "schema/diag.h"
#include "schema/job.h"
#include "schema/job_fields.h"
#include "schema/tree.h"

struct job_reader {
    struct job_spec *spec;
    struct diag *diag;
    bool plan_only; /* what the bundled runtime cannot do yet is no error */
    struct {
        bool given;     /* it is in the file */
        bool bad;       /* and wrong, which has been said: what depends on it is not checked */
        struct mark at; /* of the value; of the key for a section */
    } fields[JOB_FIELDS_MAX];
};

/* Fills r->spec (zeroed) with the defaults of the table, then with what the tree says; complains about each field that is
 * unknown, wrong or missing. */
void job_read_tree(struct job_reader *r, const struct tree_node *root);

/* Puts the --set arguments ("a.b=value") into the tree, making sections where needed; complains about those that cannot be. */
void job_read_sets(struct tree_node *root, const char *const *sets, size_t n_sets, struct diag *d);

/* For checks; the paths must be in the table. */
bool job_given(const struct job_reader *r, const char *path);
bool job_sound(const struct job_reader *r, const char *path); /* absent or right */
/* The place of the field, or when it is absent of the nearest section around it that is there. */
struct mark job_place(const struct job_reader *r, const char *path);

/* Completes what depends on other fields, and checks across fields (job_check.c). */
void job_check(struct job_reader *r);

/* A job out of a part of another file (job.c): as job_spec_parse_plan when plan_only. What is wrong goes into d with its place; then, and
 * only then, NULL. */
struct job_spec *job_spec_from_tree(const struct tree_node *node, bool plan_only, struct diag *d);

#endif
