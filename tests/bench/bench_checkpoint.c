/* bench_checkpoint CHECKPOINT FILE: what a rank does with the tensors of a checkpoint of one rank, alone: reads them back and verifies them, from the disk
 * and from the page cache; copies them into an image; writes that to FILE and fsyncs it. Prints a line of names and numbers: bytes, and seconds of each.
 * tests/bench/bench_checkpoint.sh runs it beside dd and PyTorch. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "common/clock.h"
#include "common/mem.h"
#include "runtime/snapshot.h"

struct tensors {
    struct checkpoint_array *arrays;
    struct checkpoint_piece *pieces;
    size_t count;
};

static _Noreturn void stop_with(const struct err *err)
{
    (void)fprintf(stderr, "bench_checkpoint: %s\n", err->text);
    exit(1);
}

/* Room for all tensors, each as one piece; its pages are taken. */
static struct tensors make(const struct manifest *m)
{
    struct tensors t = {mem_zero(m->n_tensors, sizeof *t.arrays), mem_zero(m->n_tensors, sizeof *t.pieces),
                        m->n_tensors};
    for (size_t i = 0; i < t.count; i++) {
        const struct manifest_tensor *from = &m->tensors[i];
        size_t columns = from->dims == 2 ? from->shape[1] : 1, n = from->shape[0] * columns;
        float *data = mem_grow(NULL, n, sizeof *data);
        memset(data, 1, n * sizeof *data);
        t.pieces[i] = (struct checkpoint_piece){{0, 0}, {from->shape[0], columns}, data, columns};
        t.arrays[i] = (struct checkpoint_array){.shape = {from->shape[0], from->shape[1]},
                                                .dims = from->dims,
                                                .pieces = &t.pieces[i],
                                                .n_pieces = 1};
        memcpy(t.arrays[i].name, from->name, sizeof from->name);
    }
    return t;
}

/* Puts the file out of the page cache, where all of it is on the disk. */
static void forget(const char *folder, const char *name)
{
    char *path = str_printf("%s/%s", folder, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
        (void)fprintf(stderr, "bench_checkpoint: %s stays in memory\n", path);
    if (fd >= 0)
        close(fd);
    free(path);
}

/* What a restart does: hash, then load. */
static double restore(const char *folder, const struct tensors *t)
{
    struct err err;
    struct manifest_state state;
    double start = clock_monotonic_s();
    if (checkpoint_verify(folder, 0, 1, &state, &err) != 0 ||
        checkpoint_load(folder, t->arrays, t->count, &err) != CHECKPOINT_OK)
        stop_with(&err);
    return clock_monotonic_s() - start;
}

static double stage(struct snapshot *image)
{
    double start = clock_monotonic_s();
    snapshot_stage(image);
    return clock_monotonic_s() - start;
}

static double write_file(const struct snapshot *image, const char *path)
{
    struct err err;
    char hash[DIGEST_SIZE];
    atomic_bool stop = false;
    double start = clock_monotonic_s();
    if (snapshot_write(image, path, &stop, hash, &err) != 0)
        stop_with(&err);
    return clock_monotonic_s() - start;
}

int main(int argc, char **argv)
{
    struct err err;
    if (argc != 3) {
        (void)fputs("usage: bench_checkpoint CHECKPOINT FILE\n", stderr);
        return 2;
    }
    struct manifest *m = manifest_read(argv[1], &err);
    if (!m)
        stop_with(&err);
    struct tensors t = make(m);
    for (size_t i = 0; i < m->n_files; i++)
        forget(argv[1], m->files[i].name);
    double cold = restore(argv[1], &t), warm = restore(argv[1], &t);
    struct snapshot *image = snapshot_new(t.arrays, t.count, false, &err);
    if (!image)
        stop_with(&err);
    (void)stage(image); /* the first copy is slower */
    double staged = stage(image), written = write_file(image, argv[2]);
    printf("bytes %" PRIu64 " cold %.4f warm %.4f stage %.4f write %.4f\n", snapshot_bytes(image), cold, warm,
           staged, written);
    snapshot_free(image);
    for (size_t i = 0; i < t.count; i++)
        free(t.pieces[i].data);
    free(t.pieces);
    free(t.arrays);
    manifest_free(m);
    return 0;
}
