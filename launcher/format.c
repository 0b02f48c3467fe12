/* format: see format.h. What is not known is an empty text, so that a table shows its "-". */
#include "launcher/format.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"

/* Three digits that matter, and the unit. */
static char *scaled(double v, const char *unit, char out[FORMAT_SIZE])
{
    int decimals = v < 10 ? 2 : v < 100 ? 1 : 0;
    snprintf(out, FORMAT_SIZE, "%.*f%s", decimals, v, unit);
    return out;
}

char *format_bytes(int64_t bytes, char out[FORMAT_SIZE])
{
    static const char *const units[] = {" KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
    double v = (double)bytes;
    size_t u = 0;
    out[0] = '\0';
    if (bytes < 0)
        return out;
    if (bytes < 1024) {
        snprintf(out, FORMAT_SIZE, "%d B", (int)bytes);
        return out;
    }
    for (v /= 1024; v >= 999.5 && u + 1 < sizeof units / sizeof *units; u++)
        v /= 1024;
    return scaled(v, units[u], out);
}

char *format_count(double n, char out[FORMAT_SIZE])
{
    static const char *const units[] = {"k", "M", "G", "T", "P", "E"};
    size_t u = 0;
    out[0] = '\0';
    if (!isfinite(n))
        return out;
    if (fabs(n) < 999.5) {
        snprintf(out, FORMAT_SIZE, "%.*f", fabs(n) < 10 && n != floor(n) ? 1 : 0, n);
        return out;
    }
    for (n /= 1000; fabs(n) >= 999.5 && u + 1 < sizeof units / sizeof *units; u++)
        n /= 1000;
    return scaled(n, units[u], out);
}

char *format_loss(double loss, char out[FORMAT_SIZE])
{
    double size = fabs(loss);
    out[0] = '\0';
    if (isfinite(loss))
        snprintf(out, FORMAT_SIZE, size != 0 && (size < 0.001 || size >= 10000) ? "%.3e" : "%.4f", loss);
    return out;
}

char *format_percent(double ratio, char out[FORMAT_SIZE])
{
    out[0] = '\0';
    if (isfinite(ratio))
        snprintf(out, FORMAT_SIZE, "%.1f%%", ratio * 100);
    return out;
}

char *format_seconds(double seconds, char out[FORMAT_SIZE])
{
    out[0] = '\0';
    if (isfinite(seconds) && seconds >= 0 && seconds < 1e12)
        clock_format_duration((int64_t)llround(seconds * 1000), out, FORMAT_SIZE);
    return out;
}

char *format_step(int64_t step, int64_t steps, char out[FORMAT_SIZE])
{
    out[0] = '\0';
    if (step >= 0 && steps > 0)
        snprintf(out, FORMAT_SIZE, "%lld/%lld", (long long)step, (long long)steps);
    else if (step >= 0)
        snprintf(out, FORMAT_SIZE, "%lld", (long long)step);
    return out;
}

int64_t format_parse_time(const char *iso)
{
    struct tm tm = {0};
    int ms = 0, used = 0;
    const char *rest = iso ? strptime(iso, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
    if (!rest)
        return -1;
    if (*rest == '.') {
        if (sscanf(rest, ".%3d%n", &ms, &used) != 1) // NOLINT(cert-err34-c): at most three digits
            return -1;
        rest += used;
    }
    return strcmp(rest, "Z") == 0 ? (int64_t)timegm(&tm) * 1000 + ms : -1;
}

char *format_time(const char *iso, char out[FORMAT_SIZE])
{
    struct tm tm;
    int64_t ms = format_parse_time(iso);
    time_t seconds = (time_t)(ms / 1000);
    if (ms < 0 || !localtime_r(&seconds, &tm) || !strftime(out, FORMAT_SIZE, "%m-%d %H:%M:%S", &tm))
        snprintf(out, FORMAT_SIZE, "%s", iso ? iso : "");
    return out;
}
