/* readlog: segments are rank-00003.000000000000.log, the number being the offset of their first byte; holes come from rotation.
 *
 * Only the agent's user can write there; still, links are not followed and only plain files are read. */
#include "agent/readlog.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"

#define SEGMENTS_MAX 64 /* the shim keeps 4 */

struct segment {
    int64_t start, size;
    char name[64];
};
struct segments {
    struct segment item[SEGMENTS_MAX];
    size_t n;
};

/* Offset in the name of a segment of this rank, or -1. */
static int64_t segment_start(const char *name, int64_t rank)
{
    char prefix[40];
    int len = snprintf(prefix, sizeof prefix, "rank-%05" PRId64 ".", rank);
    if (strncmp(name, prefix, (size_t)len) != 0 || !isdigit((unsigned char)name[len]))
        return -1;
    char *end;
    errno = 0;
    long long start = strtoll(name + len, &end, 10);
    return errno == 0 && strcmp(end, ".log") == 0 ? start : -1;
}

static void add_segment(struct segments *s, int dirfd, const char *name, int64_t rank)
{
    struct stat st;
    int64_t start = segment_start(name, rank);
    struct segment *to = &s->item[s->n];
    if (start < 0 || s->n == SEGMENTS_MAX || strlen(name) >= sizeof to->name)
        return;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return;
    to->start = start;
    to->size = st.st_size;
    snprintf(to->name, sizeof to->name, "%s", name);
    s->n++;
}

static int by_start(const void *a, const void *b)
{
    const struct segment *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static int find_segments(int dirfd, int64_t rank, struct segments *s)
{
    int copy = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (!dir) {
        if (copy >= 0)
            close(copy);
        return -1;
    }
    for (struct dirent *e; (e = readdir(dir));)
        add_segment(s, dirfd, e->d_name, rank);
    closedir(dir);
    qsort(s->item, s->n, sizeof *s->item, by_start);
    return 0;
}

/* Index of the segment that holds `offset`, or the first one after it; s->n when there is none. */
static size_t segment_at(const struct segments *s, int64_t offset)
{
    size_t i = 0;
    while (i < s->n && s->item[i].start + s->item[i].size <= offset)
        i++;
    return i;
}

/* Where a read of the last `limit` bytes begins: not before the last hole. */
static int64_t tail_offset(const struct segments *s, int64_t size, int64_t limit)
{
    size_t i = s->n - 1;
    while (i > 0 && s->item[i - 1].start + s->item[i - 1].size == s->item[i].start)
        i--;
    int64_t from = size > limit ? size - limit : 0;
    return from > s->item[i].start ? from : s->item[i].start;
}

/* Bytes read from one segment at `offset`; fewer than asked at its end; -1 when unreadable. */
static ssize_t read_segment(int dirfd, const struct segment *seg, int64_t offset, char *to, size_t room)
{
    int fd = openat(dirfd, seg->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -1; /* rotated away meanwhile: a hole */
    int64_t left = seg->start + seg->size - offset;
    size_t want = left < (int64_t)room ? (size_t)left : room, got = 0;
    ssize_t n = 1;
    while (got < want && n > 0) {
        n = pread(fd, to + got, want - got, (off_t)(offset - seg->start + (int64_t)got));
        got += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    return n < 0 ? -1 : (ssize_t)got;
}

static int fill(int dirfd, const struct segments *s, size_t limit, struct readlog *out, struct err *err)
{
    size_t i = segment_at(s, out->offset);
    if (i < s->n && s->item[i].start > out->offset)
        out->offset = s->item[i].start;
    out->next = out->offset;
    out->data = mem_zero(limit, 1);
    for (; i < s->n && s->item[i].start <= out->next; i++) {
        size_t used = (size_t)(out->next - out->offset);
        ssize_t n = read_segment(dirfd, &s->item[i], out->next, out->data + used, limit - used);
        if (n < 0)
            return err_sys(err, "cannot read the log segment %s", s->item[i].name);
        out->next += n;
        if (used + (size_t)n == limit || out->next < s->item[i].start + s->item[i].size)
            break;
    }
    return 0;
}

static int read_open(int dirfd, int64_t rank, int64_t offset, size_t limit, struct readlog *out,
                     struct err *err)
{
    struct segments s = {.n = 0};
    if (find_segments(dirfd, rank, &s) < 0)
        return err_sys(err, "cannot list the log folder");
    out->missing = s.n == 0;
    if (out->missing)
        return 0;
    out->size = s.item[s.n - 1].start + s.item[s.n - 1].size;
    limit = limit < 1 ? 1 : limit > READLOG_MAX ? READLOG_MAX : limit;
    if (offset < 0)
        offset = tail_offset(&s, out->size, (int64_t)limit);
    out->offset = offset < out->size ? offset : out->size;
    return fill(dirfd, &s, limit, out, err);
}

int readlog_read(const char *folder, int64_t rank, int64_t offset, size_t limit, struct readlog *out,
                 struct err *err)
{
    memset(out, 0, sizeof *out);
    int dirfd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dirfd < 0 && errno == ENOENT) {
        out->missing = true;
        return 0;
    }
    if (dirfd < 0)
        return err_sys(err, "cannot open the log folder %s", folder);
    int rc = read_open(dirfd, rank, offset, limit, out, err);
    close(dirfd);
    if (rc < 0) {
        readlog_clear(out);
        return err_prefix(err, "%s", folder);
    }
    return 0;
}

void readlog_clear(struct readlog *r)
{
    free(r->data);
    memset(r, 0, sizeof *r);
}
