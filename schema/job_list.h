/* job_list: the fields of the job file that are lists or mappings of values. Used only inside schema/. */
#ifndef BELAY_SCHEMA_JOB_LIST_H
#define BELAY_SCHEMA_JOB_LIST_H

#include "common/err.h"
#include "schema/job_fields.h"
#include "schema/tree.h"

/* Reads a field of type FIELD_BETAS, _EVENTS, _COMMAND, _ENV, _MIX or _STAGES into the spec. -1 with a sentence, and *at at the part that is
 * wrong; what was read until then stays with the spec. */
int job_list_read(struct job_spec *spec, const struct job_field *f, const struct tree_node *node,
                  struct mark *at, struct err *err);

#endif
