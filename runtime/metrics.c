/* metrics: see metrics.h. Writes go to a known offset, so a write that failed half-way is overwritten by the next one. */
#include "runtime/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"

#define LINE_MAX_BYTES 4096 /* a row is about 150 */

struct metrics {
    pthread_mutex_t lock; /* over all but path and fd: rows are appended while a thread syncs */
    char *path;
    int fd;
    off_t size;    /* bytes known to be written */
    char *pending; /* rows still to be written, "" when none */
    size_t pending_len;
};

/* A line without its newline; "" when it is overlong or holds a NUL, so that damage takes no other line along. -1 at the end of the file
 * or at a torn last line. */
static int read_line(FILE *in, char line[LINE_MAX_BYTES])
{
    size_t len = 0;
    bool good = true;
    int c;
    while ((c = getc_unlocked(in)) != EOF && c != '\n') {
        good = good && c != 0 && len + 1 < LINE_MAX_BYTES;
        if (good)
            line[len++] = (char)c;
    }
    line[good ? len : 0] = 0;
    return c == '\n' ? 0 : -1;
}

/* The step of a row; -1 when the line is not one. */
static int64_t row_step(const char *line)
{
    char *end;
    errno = 0;
    long long step = strtoll(line, &end, 10);
    return errno == 0 && end != line && *end == ',' && step > 0 ? step : -1;
}

/* Copies the rows up to `resumed`; returns the step of the last one. */
static int64_t copy_rows(FILE *in, FILE *out, int64_t resumed)
{
    char line[LINE_MAX_BYTES];
    int64_t last = 0, missing = 0;
    while (last < resumed && read_line(in, line) == 0) {
        int64_t step = row_step(line);
        if (step <= last || step > resumed)
            continue;
        missing += step - last - 1;
        last = step;
        (void)fprintf(out, "%s\n", line); /* checked by finish() */
    }
    return missing == 0 ? last : last - missing;
}

static int keep_foreign(const char *path, struct err *err)
{
    char stamp[CLOCK_UTC_SIZE];
    char *aside = str_printf("%s.%s.old", path, clock_format_utc(clock_utc_ms(), stamp));
    int rc = 0;
    if (rename(path, aside) != 0)
        rc = err_sys(err, "cannot rename %s, which has other columns than this version writes", path);
    else
        log_warn("%s has other columns than this version writes; it is kept as %s", path, aside);
    free(aside);
    return rc;
}

/* Fills `out` with the header and what is to stay of the file at path. */
static int refill(const char *path, FILE *out, int64_t resumed, struct err *err)
{
    char line[LINE_MAX_BYTES];
    int64_t rows = 0;
    FILE *in = fopen(path, "re");
    if (!in && errno != ENOENT)
        return err_sys(err, "cannot read %s", path);
    (void)fprintf(out, "%s\n", METRICS_HEADER); /* checked by finish() */
    if (in) {
        bool known = read_line(in, line) == 0 && strcmp(line, METRICS_HEADER) == 0;
        bool empty = !known && ftell(in) == 0;
        if (known)
            rows = copy_rows(in, out, resumed);
        (void)fclose(in); /* only read from */
        if (!known && !empty && keep_foreign(path, err) != 0)
            return -1;
    }
    if (rows < resumed)
        log_warn("%s holds only %" PRId64 " of the %" PRId64 " rows before the resumed step", path, rows,
                 resumed);
    return 0;
}

static int finish(FILE *out, const char *temporary, const char *path, off_t *size, struct err *err)
{
    bool good = fflush(out) == 0 && !ferror(out) && fsync(fileno(out)) == 0;
    *size = ftello(out);
    good = fclose(out) == 0 && good;
    if (!good || rename(temporary, path) != 0)
        return err_sys(err, "cannot write %s", path);
    return 0;
}

static int rewrite(const char *path, int64_t resumed, off_t *size, struct err *err)
{
    char *temporary = str_printf("%s.tmp.%d", path, (int)getpid());
    int rc = -1;
    FILE *out = fopen(temporary, "we");
    if (!out) {
        err_sys(err, "cannot write %s", temporary);
    } else if (refill(path, out, resumed, err) != 0) {
        (void)fclose(out); /* the file is thrown away */
    } else {
        rc = finish(out, temporary, path, size, err);
    }
    if (rc != 0)
        (void)unlink(temporary); /* may never have been made */
    free(temporary);
    return rc;
}

struct metrics *metrics_open(const char *path, int64_t resumed, struct err *err)
{
    off_t size = 0;
    if (rewrite(path, resumed, &size, err) != 0)
        return NULL;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        err_sys(err, "cannot open %s", path);
        return NULL;
    }
    struct metrics *m = mem_zero(1, sizeof *m);
    pthread_mutex_init(&m->lock, NULL);
    m->path = str_dup(path);
    m->fd = fd;
    m->size = size;
    m->pending = str_dup("");
    return m;
}

void metrics_close(struct metrics *metrics)
{
    if (!metrics)
        return;
    close(metrics->fd);
    pthread_mutex_destroy(&metrics->lock);
    free(metrics->pending);
    free(metrics->path);
    free(metrics);
}

/* Writes what is pending at the known end of the file. */
static int flush_rows(struct metrics *m, struct err *err)
{
    size_t done = 0;
    while (done < m->pending_len) {
        ssize_t n = pwrite(m->fd, m->pending + done, m->pending_len - done, m->size + (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_sys(err, "cannot write to %s; its newest rows are kept in memory and written later",
                           m->path);
        done += (size_t)n;
    }
    m->size += (off_t)done;
    m->pending_len = 0;
    m->pending[0] = 0;
    return 0;
}

/* The columns from hfu on; returns the length. */
static int print_rest(const struct metrics_row *row, char *out, size_t size)
{
    char held[32] = "";
    if (!isnan(row->held_loss))
        (void)snprintf(held, sizeof held, "%.17g", row->held_loss);
    int len = snprintf(out, size, ",%.9g,%.17g,%s,%d,%.9g", (double)row->hfu, row->router_loss, held,
                       row->skipped, (double)row->bubble);
    for (size_t i = 0; i < 2 * METRICS_AXES; i++) {
        float x = i < METRICS_AXES ? row->axis_ms[i] : row->axis_mib[i - METRICS_AXES];
        len += snprintf(out + len, size - (size_t)len, ",%.9g", (double)x);
    }
    len += snprintf(out + len, size - (size_t)len, ",%.9g,%.9g", (double)row->staged_ms,
                    (double)row->durable_ms);
    return len;
}

int metrics_append(struct metrics *metrics, const struct metrics_row *row, struct err *err)
{
    char line[LINE_MAX_BYTES]; /* 28 numbers of at most 25 characters */
    int len = snprintf(line, sizeof line,
                       "%" PRId64 ",%.17g,%.17g,%.17g,%" PRIu64 ",%.9g,%.9g,%.9g,%.9g,%.9g,%" PRId64,
                       row->step, row->loss, row->grad_norm, row->lr, row->tokens, (double)row->step_ms,
                       (double)row->tokens_per_second, (double)row->mfu, (double)row->compute_ms,
                       (double)row->wait_ms, row->attempt);
    len += print_rest(row, line + len, sizeof line - (size_t)len - 1);
    line[len++] = '\n';
    line[len] = 0;
    pthread_mutex_lock(&metrics->lock);
    metrics->pending = mem_grow(metrics->pending, metrics->pending_len + (size_t)len + 1, 1);
    memcpy(metrics->pending + metrics->pending_len, line, (size_t)len + 1);
    metrics->pending_len += (size_t)len;
    int rc = flush_rows(metrics, err);
    pthread_mutex_unlock(&metrics->lock);
    return rc;
}

static bool parse_past(const char *line, struct metrics_past *out)
{
    char *end;
    out->step = row_step(line);
    if (out->step < 0)
        return false;
    out->loss = strtod(strchr(line, ',') + 1, &end);
    if (*end != ',')
        return false;
    out->grad_norm = strtod(end + 1, &end);
    return *end == ',';
}

size_t metrics_recall(const char *path, struct metrics_past *past, size_t room)
{
    char line[LINE_MAX_BYTES];
    struct metrics_past row;
    size_t count = 0;
    FILE *in = fopen(path, "re");
    if (!in)
        return 0;
    while (room > 0 && read_line(in, line) == 0) {
        if (!parse_past(line, &row))
            continue;
        if (count == room)
            memmove(past, past + 1, --count * sizeof *past);
        past[count++] = row;
    }
    (void)fclose(in); /* only read from */
    return count;
}

int metrics_sync(struct metrics *metrics, struct err *err)
{
    pthread_mutex_lock(&metrics->lock);
    int rc = flush_rows(metrics, err);
    pthread_mutex_unlock(&metrics->lock);
    if (rc != 0)
        return -1;
    return fdatasync(metrics->fd) == 0 ? 0 : err_sys(err, "cannot sync %s", metrics->path);
}
