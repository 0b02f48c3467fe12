/* clock: see clock.h. */
#include "common/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

static struct timespec read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t); /* cannot fail for these clocks */
    return t;
}

static int64_t to_ms(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t clock_boot_ms(void)
{
    return to_ms(read_clock(CLOCK_BOOTTIME));
}

int64_t clock_utc_ms(void)
{
    return to_ms(read_clock(CLOCK_REALTIME));
}

double clock_monotonic_s(void)
{
    struct timespec t = read_clock(CLOCK_MONOTONIC);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

char *clock_format_utc(int64_t utc_ms, char out[CLOCK_UTC_SIZE])
{
    int64_t ms = ((utc_ms % 1000) + 1000) % 1000;
    time_t s = (time_t)((utc_ms - ms) / 1000);
    struct tm tm;
    char text[24] = "";
    if (gmtime_r(&s, &tm))
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, CLOCK_UTC_SIZE, "%s.%03dZ", text, (int)ms);
    return out;
}

char *clock_format_duration(int64_t ms, char *out, size_t size)
{
    int64_t s = ms / 1000;
    if (ms < 0)
        snprintf(out, size, "-");
    else if (ms < 1000)
        snprintf(out, size, "%" PRId64 "ms", ms);
    else if (s < 60)
        snprintf(out, size, "%" PRId64 ".%" PRId64 "s", s, ms % 1000 / 100);
    else if (s < 3600)
        snprintf(out, size, "%" PRId64 "m%02" PRId64 "s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(out, size, "%" PRId64 "h%02" PRId64 "m", s / 3600, s % 3600 / 60);
    else
        snprintf(out, size, "%" PRId64 "d%02" PRId64 "h", s / 86400, s % 86400 / 3600);
    return out;
}
