/* rank_log: append, and start a new segment when the current one is full. A line may be cut between two segments; offsets
 * make that invisible to readers. */
#include "agent/shim/rank_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/mem.h"

struct rank_log {
    char *dir;
    int64_t rank;
    size_t segment_bytes;
    int fd; /* -1 when the current segment could not be opened */
    uint64_t size, segment_start;
    uint64_t starts[RANK_LOG_SEGMENTS]; /* of the segments on disk, oldest first */
    size_t n_starts;
    uint64_t lost;
    int lost_errno;
};

static char *segment_path(const struct rank_log *log, uint64_t start)
{
    return str_printf("%s/rank-%05lld.%012llu.log", log->dir, (long long)log->rank,
                      (unsigned long long)start);
}

static int open_segment(struct rank_log *log)
{
    char *path = segment_path(log, log->size);
    log->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    free(path);
    if (log->fd < 0)
        return -1;
    log->segment_start = log->size;
    if (log->n_starts == 0 || log->starts[log->n_starts - 1] != log->size)
        log->starts[log->n_starts++] = log->size;
    return 0;
}

static void drop_oldest(struct rank_log *log)
{
    char *path = segment_path(log, log->starts[0]);
    if (unlink(path) != 0 && errno != ENOENT)
        log_warn("cannot remove the old log segment %s: %s", path, strerror(errno));
    free(path);
    memmove(log->starts, log->starts + 1, --log->n_starts * sizeof *log->starts);
}

static int rotate(struct rank_log *log)
{
    if (log->fd >= 0)
        close(log->fd);
    log->fd = -1;
    if (log->n_starts == RANK_LOG_SEGMENTS)
        drop_oldest(log);
    return open_segment(log);
}

struct rank_log *rank_log_open(const char *dir, int64_t rank, size_t segment_bytes, struct err *err)
{
    struct rank_log *log = mem_zero(1, sizeof *log);
    *log = (struct rank_log){.dir = str_dup(dir),
                             .rank = rank,
                             .segment_bytes = segment_bytes ? segment_bytes : RANK_LOG_SEGMENT_BYTES,
                             .fd = -1};
    if (open_segment(log) == 0)
        return log;
    err_sys(err, "cannot open the log of rank %lld in %s", (long long)rank, dir);
    rank_log_close(log);
    return NULL;
}

void rank_log_close(struct rank_log *log)
{
    if (!log)
        return;
    if (log->lost)
        log_error("%llu bytes that rank %lld printed could not be written to its log: %s",
                  (unsigned long long)log->lost, (long long)log->rank, strerror(log->lost_errno));
    if (log->fd >= 0)
        close(log->fd);
    free(log->dir);
    free(log);
}

/* Writes into the current segment; how much of it. */
static size_t write_some(struct rank_log *log, const char *data, size_t len)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = write(log->fd, data + done, len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    log->size += done;
    return done;
}

static void lose(struct rank_log *log, size_t len)
{
    if (log->lost == 0)
        log_error("cannot write the log of rank %lld in %s: %s (its output is dropped until there is room)",
                  (long long)log->rank, log->dir, strerror(errno));
    log->lost += len;
    log->lost_errno = errno;
}

/* Says in the log what is missing from it, as soon as anything can be written again. -1 when it cannot. */
static int confess(struct rank_log *log)
{
    if (log->lost == 0)
        return 0;
    char text[160];
    int n = snprintf(text, sizeof text, "\n[belay: %llu bytes of output are missing here: %s]\n",
                     (unsigned long long)log->lost, strerror(log->lost_errno));
    if (n < 0 || write_some(log, text, (size_t)n) != (size_t)n)
        return -1;
    log->lost = 0;
    return 0;
}

void rank_log_write(struct rank_log *log, const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        bool full = log->fd >= 0 && log->size - log->segment_start >= log->segment_bytes;
        if (((full || log->fd < 0) && rotate(log) != 0) || confess(log) != 0) {
            lose(log, len);
            return;
        }
        uint64_t used = log->size - log->segment_start;
        size_t room = used < log->segment_bytes ? log->segment_bytes - (size_t)used : len;
        size_t part = len < room ? len : room;
        size_t done = write_some(log, p, part);
        p += done;
        len -= done;
        if (done < part) {
            lose(log, len);
            return;
        }
    }
}

uint64_t rank_log_size(const struct rank_log *log)
{
    return log->size;
}
