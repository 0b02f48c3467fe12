/* snapshot: see snapshot.h. Where each piece goes is settled at the start, in runs of at most COPY_BYTES, so that staging is one loop of copies. */
#include "runtime/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "common/memimage.h"

#define COPY_BYTES  ((size_t)4 << 20)
#define WRITE_BYTES ((size_t)4 << 20)

/* Numbers that lie side by side on both sides. */
struct run_of_numbers {
    char *to;
    const float *from;
    size_t bytes;
    void (*to_host)(void *out, const void *x, size_t bytes); /* NULL: plain memory */
};

struct snapshot {
    int fd;
    char *bytes;
    uint64_t size;
    struct run_of_numbers *runs;
    size_t n_runs;
    bool device; /* some of it lies elsewhere: such copies are one after the other */
};

/* ---- layout ---- */

static void add_run(struct snapshot *im, char *to, const float *from, size_t numbers,
                    const struct checkpoint_memory *memory)
{
    size_t bytes = numbers * sizeof *from;
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < COPY_BYTES ? bytes - at : COPY_BYTES;
        if ((im->n_runs & (im->n_runs - 1)) == 0)
            im->runs = mem_grow(im->runs, im->n_runs ? 2 * im->n_runs : 1, sizeof *im->runs);
        im->runs[im->n_runs++] =
            (struct run_of_numbers){to + at, from + at / sizeof *from, n, memory->to_host};
    }
    im->device = im->device || memory->to_host;
}

/* Returns what comes behind it. */
static char *add_piece(struct snapshot *im, char *to, const struct checkpoint_piece *p,
                       const struct checkpoint_memory *memory)
{
    size_t rows = p->to[0] - p->from[0], width = p->to[1] - p->from[1];
    if (p->stride == width) {
        width *= rows;
        rows = 1;
    }
    for (size_t r = 0; r < rows; r++, to += width * sizeof *p->data)
        add_run(im, to, p->data + r * p->stride, width, memory);
    return to;
}

static void add_arrays(struct snapshot *im, char *to, const struct checkpoint_array *arrays, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < arrays[i].n_pieces; k++)
            to = add_piece(im, to, &arrays[i].pieces[k], &arrays[i].memory);
}

/* Pages are taken now: without memory this is where it shows, not in the middle of a copy. */
static int make_shared(struct snapshot *im, struct err *err)
{
    im->fd = memimage_new("belay-image", (int64_t)im->size, err);
    int rc = im->fd < 0 ? -1 : EINTR;
    while (rc == EINTR)
        rc = posix_fallocate(im->fd, 0, (off_t)im->size);
    if (rc <= 0)
        return rc;
    errno = rc;
    return err_sys(err, "cannot set %" PRIu64 " MiB of memory aside for checkpoints", im->size >> 20);
}

static int set_aside(struct snapshot *im, bool shared, struct err *err)
{
    int flags = MAP_POPULATE | (shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS);
    if (shared && make_shared(im, err) != 0)
        return -1;
    void *map = mmap(NULL, im->size, PROT_READ | PROT_WRITE, flags, im->fd, 0);
    if (map == MAP_FAILED)
        return err_sys(err, "cannot set %" PRIu64 " MiB of memory aside for checkpoints", im->size >> 20);
    im->bytes = map;
    return 0;
}

struct snapshot *snapshot_new(const struct checkpoint_array *arrays, size_t count, bool shared,
                              struct err *err)
{
    struct snapshot *im = mem_zero(1, sizeof *im);
    size_t n, head;
    im->fd = -1;
    struct safetensors_tensor *entries = checkpoint_entries(arrays, count, &n);
    char *header = safetensors_layout(entries, n, NULL, NULL, &head);
    im->size = head + (n > 0 ? entries[n - 1].to : 0);
    int rc = set_aside(im, shared, err);
    if (rc == 0) {
        memcpy(im->bytes, header, head);
        add_arrays(im, im->bytes + head, arrays, count);
    }
    free(header);
    free(entries);
    if (rc == 0)
        return im;
    snapshot_free(im);
    return NULL;
}

void snapshot_free(struct snapshot *snapshot)
{
    if (!snapshot)
        return;
    if (snapshot->bytes)
        (void)munmap(snapshot->bytes, snapshot->size); /* a mapping of our own */
    if (snapshot->fd >= 0)
        close(snapshot->fd);
    free(snapshot->runs);
    free(snapshot);
}

uint64_t snapshot_bytes(const struct snapshot *snapshot)
{
    return snapshot->size;
}

int snapshot_fd(const struct snapshot *snapshot)
{
    return snapshot->fd;
}

/* ---- content ---- */

static void copy_run(const struct run_of_numbers *r)
{
    if (r->to_host)
        r->to_host(r->to, r->from, r->bytes);
    else
        memcpy(r->to, r->from, r->bytes);
}

void snapshot_stage(struct snapshot *snapshot)
{
#pragma omp parallel for schedule(dynamic, 1) if (!snapshot->device)
    for (size_t i = 0; i < snapshot->n_runs; i++)
        copy_run(&snapshot->runs[i]);
}

void snapshot_hash(const struct snapshot *snapshot, char hash[DIGEST_SIZE])
{
    digest_bytes(snapshot->bytes, snapshot->size, hash);
}

/* One pass: a part is hashed while it is in cache, and on its way to the disk while the next one is written. */
static int write_all(const struct snapshot *im, int fd, const char *path, const atomic_bool *stop,
                     struct digest *digest, struct err *err)
{
    for (uint64_t at = 0, n; at < im->size; at += n) {
        n = im->size - at < WRITE_BYTES ? im->size - at : WRITE_BYTES;
        if (atomic_load(stop))
            return err_set(err, "%s is not finished: the run ends", path);
        digest_add(digest, im->bytes + at, n);
        if (fs_write_all(fd, im->bytes + at, n) != 0)
            return err_sys(err, "cannot write %s", path);
        (void)sync_file_range(fd, (off_t)at, (off_t)n, SYNC_FILE_RANGE_WRITE); /* a hint; fsync tells */
    }
    return fsync(fd) == 0 ? 0 : err_sys(err, "cannot write %s", path);
}

int snapshot_write(const struct snapshot *snapshot, const char *path, const atomic_bool *stop,
                   char hash[DIGEST_SIZE], struct err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_sys(err, "cannot make %s", path);
    struct digest *digest = digest_new();
    int rc = write_all(snapshot, fd, path, stop, digest, err);
    digest_end(digest, hash);
    if (close(fd) != 0 && rc == 0)
        rc = err_sys(err, "cannot write %s", path);
    if (rc != 0)
        (void)unlink(path); /* the error above is the one to tell */
    return rc;
}
