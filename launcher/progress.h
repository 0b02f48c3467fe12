/* progress: the one line that shows how far a training job is, redrawn in place on a terminal. */
#ifndef BELAY_LAUNCHER_PROGRESS_H
#define BELAY_LAUNCHER_PROGRESS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct progress;

struct progress *progress_new(FILE *out);
void progress_free(struct progress *p);

/* Takes the newest job object and shows it: redraws on a terminal; else a line when the step changed and some
 * seconds have passed or the job is over. now_ms: boot time. */
void progress_job(struct progress *p, const json_t *job, int64_t now_ms);

/* A line of its own above the progress line. */
void progress_note(struct progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Leaves the progress line where it is and ends it. */
void progress_end(struct progress *p);

/* The text of the line (fresh string): name, bar (on a terminal), step, loss, speed, time to go. step_rate: steps per second,
 * 0 = unknown. bar: its columns, 0 = none. */
char *progress_text(const json_t *job, double step_rate, size_t bar, bool utf8);

#endif
