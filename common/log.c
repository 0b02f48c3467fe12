/* log: one write(2) a line, so that lines of several processes in one file do not mix. */
#include "common/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fsutil.h"

#define LOG_LINE_MAX 4096 /* PIPE_BUF: larger writes to a pipe may be split */

static const char *program_name = "belay";

void log_program(const char *program)
{
    program_name = program;
}

static void line(const char *level, const char *fmt, va_list args)
{
    int saved = errno;
    char text[LOG_LINE_MAX], when[CLOCK_UTC_SIZE];
    int n = snprintf(text, sizeof text, "%s %s[%ld] %s", clock_format_utc(clock_utc_ms(), when), program_name,
                     (long)getpid(), level);
    int m = vsnprintf(text + n, sizeof text - (size_t)n, fmt, args);
    size_t used = (size_t)n + (m > 0 ? (size_t)m : 0);
    if (used > sizeof text - 2)
        used = sizeof text - 2;
    for (char *p = text + n; p < text + used; p++)
        if (*p == '\n' || *p == '\r')
            *p = ' ';
    text[used] = '\n';
    if (fs_write_all(STDERR_FILENO, text, used + 1) < 0)
        errno = saved; /* nowhere left to complain to */
    errno = saved;
}

#define LOG_AT(level)                                                                                        \
    va_list args;                                                                                            \
    va_start(args, fmt);                                                                                     \
    line(level, fmt, args);                                                                                  \
    va_end(args)

void log_info(const char *fmt, ...)
{
    LOG_AT("");
}

void log_warn(const char *fmt, ...)
{
    LOG_AT("warn: ");
}

void log_error(const char *fmt, ...)
{
    LOG_AT("error: ");
}
