/* jobview: job objects as belayd sends them (docs/protocols.md, section 5), shown as rows or as a block. */
#ifndef BELAY_LAUNCHER_JOBVIEW_H
#define BELAY_LAUNCHER_JOBVIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "launcher/table.h"

/* Is the job completed, failed or cancelled? */
bool jobview_final(const json_t *job);

/* The exit code that goes with a final job. */
int jobview_exit_code(const json_t *job);

/* What INFO says: why it waits or ended, or what it is doing. Fresh string. */
char *jobview_info(const json_t *job);

/* A table with one row per job (table_show or table_print it). */
struct table *jobview_table(const json_t *jobs, bool wide);

/* Rows without titles, lining up from call to call. */
void jobview_row(FILE *out, const json_t *job);
void jobview_row_titles(FILE *out);

/* "key: value" lines; all: also those that only describe shows. */
void jobview_block(FILE *out, const json_t *job, bool all);

/* One "key: value" line; an empty value is left out. */
void jobview_line(FILE *out, const char *key, enum colour colour, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Time lost by cause, "detect 12ms, stop 1.2s, …"; fresh string, "" when none. */
char *jobview_lost(const json_t *lost);

#endif
