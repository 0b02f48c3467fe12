/* log: lines "2026-01-31T12:00:00.123Z belayd[123] warn: text" on stderr (which daemons point at their log file). */
#ifndef BELAY_COMMON_LOG_H
#define BELAY_COMMON_LOG_H

/* Names the program in every line that follows. `program` must stay valid. */
void log_program(const char *program);
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
