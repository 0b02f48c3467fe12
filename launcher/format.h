/* format: numbers as people read them. Each writes into the caller's buffer and returns it. */
#ifndef BELAY_LAUNCHER_FORMAT_H
#define BELAY_LAUNCHER_FORMAT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define FORMAT_SIZE 40

char *format_bytes(int64_t bytes, char out[FORMAT_SIZE]); /* "512 B", "1.5 GiB"; negative: "" */
char *format_count(double n, char out[FORMAT_SIZE]);   /* "950", "12.3k", "1.24M", "3.1T"; not finite: "" */
char *format_loss(double loss, char out[FORMAT_SIZE]); /* "2.3145"; not finite: "" */
char *format_percent(double ratio, char out[FORMAT_SIZE]);   /* 0.987 → "98.7%"; not finite: "" */
char *format_seconds(double seconds, char out[FORMAT_SIZE]); /* "4m05s"; not finite or negative: "" */
char *format_step(int64_t step, int64_t steps,
                  char out[FORMAT_SIZE]); /* "120/200", "120", "" when step < 0 */

/* The server's UTC time ("2026-01-31T12:00:00.123Z") as local "01-31 13:00:00"; "" for NULL, the text itself if odd. */
char *format_time(const char *iso, char out[FORMAT_SIZE]);

/* Milliseconds since 1970 of such a time, or -1. */
int64_t format_parse_time(const char *iso);

#endif
