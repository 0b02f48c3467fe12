/* diag: collects what is wrong with a file, each with its place, and hands it out in the order of the file. */
#ifndef BELAY_SCHEMA_DIAG_H
#define BELAY_SCHEMA_DIAG_H

#include <stddef.h>

#include "schema/job.h"

/* A place: line and column count from 1, columns in characters. set: the --set argument it came from, else NULL. */
struct mark {
    size_t line, column;
    const char *set;
};

struct diag;

/* file: its name for messages; must outlive the collector. */
struct diag *diag_new(const char *file);
void diag_free(struct diag *d);
/* What kind of file it is, for messages ("a cluster file", "name: my-cluster"): one word, not copied. "job" unless set. */
void diag_set_kind(struct diag *d, const char *kind);
const char *diag_kind(const struct diag *d);

/* Notes a sentence without its place (which diag puts in front). */
void diag_add(struct diag *d, struct mark at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
size_t diag_count(const struct diag *d);
/* True once so many were found that more would not be shown: callers may then skip work for a better sentence. */
int diag_full(const struct diag *d);

/* Writes what was found into out: the first JOB_DIAGNOSTICS_MAX in the order of the file, those of --set last. */
void diag_finish(struct diag *d, struct job_diagnostics *out);

#define DIAG_QUOTE_SIZE 80
/* The text in double quotes, cut when long, control characters as \xNN, so that it cannot disturb a terminal. Returns out. */
const char *diag_quote(char out[DIAG_QUOTE_SIZE], const char *text);

#endif
