/* scenario_read: from the tree of a scenario file to struct scenario. Used only inside schema/. */
#ifndef BELAY_SCHEMA_SCENARIO_READ_H
#define BELAY_SCHEMA_SCENARIO_READ_H

#include "schema/diag.h"
#include "schema/scenario.h"
#include "schema/tree.h"

struct scenario_reader {
    struct scenario *s;
    struct diag *diag;
    const char *file;                  /* names in it are relative to its folder */
    struct scenario_checkpoint common; /* what top-level checkpoint:, load: and spares: say for every job */
    bool says_every;                   /* common.every_ms and every_steps are from the file, not a default */
    int64_t load_ms, spares;           /* spares SCENARIO_SPARES_JOB = what the job file says */
    double node_days, device_days;     /* of one day of the cluster, for rates */
    double rack_days;
};
#define SCENARIO_SPARES_JOB (-2)

/* Fills r->s (zeroed) with defaults and what the tree says. */
void scenario_read_tree(struct scenario_reader *r, const struct tree_node *root);

/* ---- scenario_rates.c: how often things fail ---- */
/* Reads failures: (a mapping); the cluster must be known. */
void scenario_read_failures(struct scenario_reader *r, const struct tree_node *node);

/* ---- the rows of a section ---- */
struct scenario_field {
    const char *key;
    /* Reads node into *at; -1 with the second half of a sentence. NULL: says what is wrong itself, by `walk`. */
    int (*read)(const struct scenario_field *f, const struct tree_node *node, void *at, struct err *err);
    void (*walk)(struct scenario_reader *r, const struct tree_node *node);
    size_t offset;
    int64_t min, max;
};
/* Reads a mapping by its rows into base; complains about what is unknown or wrong, under the name of the section ("" = the file). */
void scenario_read_section(struct scenario_reader *r, const struct tree_node *node, const char *section,
                           const struct scenario_field *fields, size_t n, void *base);
int scenario_read_int(const struct scenario_field *f, const struct tree_node *node, void *at,
                      struct err *err);
int scenario_read_duration(const struct scenario_field *f, const struct tree_node *node, void *at,
                           struct err *err);
int scenario_read_bool(const struct scenario_field *f, const struct tree_node *node, void *at,
                       struct err *err);
int scenario_read_real(const struct scenario_field *f, const struct tree_node *node, void *at,
                       struct err *err);
int scenario_read_text(const struct scenario_field *f, const struct tree_node *node, void *at,
                       struct err *err);
/* A duration, or {exponential: 4h}, or {lognormal: 4h, sigma: 1} (4h is the median). */
int scenario_read_time(const struct scenario_field *f, const struct tree_node *node, void *at,
                       struct err *err);

#endif
