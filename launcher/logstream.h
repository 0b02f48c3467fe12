/* logstream: prints the output of ranks as it grows, through the log reads of the REST API.
 *
 * Each rank added is read from its first byte (or its tail) to the end of its newest attempt. The caller tells what it learns
 * of the job (logstream_job) and calls logstream_step whenever client_wait returns. A read begun before the job was known to
 * be over never counts as the last one, so no line is missed. */
#ifndef BELAY_LAUNCHER_LOGSTREAM_H
#define BELAY_LAUNCHER_LOGSTREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "launcher/client.h"

struct logstream;

/* prefix: begin each line with "[rank] ". */
struct logstream *logstream_new(struct client *c, int64_t job, FILE *out, bool prefix);
void logstream_free(struct logstream *ls);

/* Adds a rank, beginning with this attempt. tail: only its last lines; -1 = all. */
void logstream_add(struct logstream *ls, int64_t rank, int64_t attempt, int64_t tail);

/* newest: number of the job's newest attempt. over: nothing will be written any more. */
void logstream_job(struct logstream *ls, int64_t newest, bool over);

/* Prints what has come and asks for more. Returns the milliseconds until it wants to be called again, although nothing comes
 * (INT_MAX: never). */
int logstream_step(struct logstream *ls);

/* Has everything been printed? Only after `over`, or when a rank's log cannot be read. */
bool logstream_drained(const struct logstream *ls);

/* Reads all to the end (as if over) and prints it. Returns CLI_DONE, or the exit code of the first read that failed for good (its
 * sentence is printed already). */
int logstream_finish(struct logstream *ls);

#endif
