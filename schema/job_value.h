/* job_value: one value of the job file: from a word to a member of the spec, and what a word may look like. Used only inside schema/. */
#ifndef BELAY_SCHEMA_JOB_VALUE_H
#define BELAY_SCHEMA_JOB_VALUE_H

#include "common/err.h"
#include "schema/job_fields.h"
#include "schema/tree.h"

/* Reads a field that is a single value from its node, or from a word as it would be written: into the spec at the offset of the row. -1 with a
 * sentence that begins with "must". */
int job_value_scalar(struct job_spec *spec, const struct job_field *f, const struct tree_node *node,
                     struct err *err);
int job_value_word(struct job_spec *spec, const struct job_field *f, const char *text, struct err *err);

/* A text that is not empty and has at most JOB_TEXT_MAX bytes, in place of *out, which is freed. */
int job_value_text(char **out, const char *text, struct err *err);
/* The index of a word among those of the row, or -1 with a sentence that names the nearest one. */
int job_value_index(const struct job_field *f, const char *text, struct err *err);

/* -1 with a sentence when the node is no single value; when other readers of YAML would not take its word for a text (numbers: but plain
 * decimal ones are fine); when it is a number in quotes. */
int job_value_is_scalar(const struct tree_node *node, struct err *err);
int job_value_is_text(const struct tree_node *node, bool numbers, struct err *err);
int job_value_is_number(const struct tree_node *node, struct err *err);

/* "a list", "empty", … for sentences. */
const char *job_value_kind(const struct tree_node *node);

#endif
