/* held: see held.h. One rank of each node lists what its shim holds; all get all lists, so that they come to the same candidates in the same order. A file is the
 * one that is meant when its hash is the manifest's, whichever attempt left it. */
#include "runtime/held.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/log.h"
#include "common/mem.h"

#define LIST_LIMIT_MS  10000
#define FETCH_LIMIT_MS 120000
#define IMAGES_MAX     65536 /* that one node may tell of */

/* An image and where it is. */
struct place {
    struct memimage image;
    int64_t node; /* node_rank */
    int teller;   /* the rank that told of it */
};

struct places {
    struct place *items;
    size_t count;
    int64_t here; /* this rank's node */
};

/* ---- what is held where ------------------------------------------------------------------------------------------------ */

static int64_t own_node(void)
{
    const char *text = getenv("NODE_RANK");
    return text ? strtoll(text, NULL, 10) : 0;
}

/* This node's, told by its first rank. */
static struct place *list_own(struct run *run, struct memory_tier *memory, uint64_t *count)
{
    struct err err;
    struct memimage *images = NULL;
    size_t n = 0;
    if (comm_env_local_rank() == 0 && memory_list(memory, LIST_LIMIT_MS, &images, &n, &err) != 0)
        log_warn("rank %d: what its node holds in memory is not known: %s", run->rank, err.text);
    n = n < IMAGES_MAX ? n : IMAGES_MAX;
    struct place *own = mem_zero(n + 1, sizeof *own);
    for (size_t i = 0; i < n; i++)
        own[i] = (struct place){images[i], own_node(), run->rank};
    free(images);
    *count = n;
    return own;
}

static struct places gather(struct run *run, struct memory_tier *memory)
{
    struct comm_group *world = comm_world(run->comm);
    size_t size = (size_t)run->size;
    uint64_t mine, *counts = mem_zero(size, sizeof *counts), most = 0;
    struct place *own = list_own(run, memory, &mine);
    comm_share(world, &mine, sizeof mine, counts);
    for (size_t r = 0; r < size; r++)
        most = counts[r] > most ? counts[r] : most;
    struct place *all = mem_zero(size * most + 1, sizeof *all);
    own = mem_grow(own, most + 1, sizeof *own);
    if (most > 0)
        comm_share(world, own, most * sizeof *own, all);
    struct places places = {all, 0, own_node()};
    for (size_t r = 0; r < size; r++)
        for (size_t i = 0; i < counts[r]; i++)
            all[places.count++] = all[r * most + i]; /* to the front: never behind where it stands */
    free(own);
    free(counts);
    return places;
}

/* Newest step first; of one step the newest attempt's, then the nearest to the front of the mesh. */
static int by_age(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->image.step != y->image.step)
        return x->image.step < y->image.step ? 1 : -1;
    if (x->image.attempt != y->image.attempt)
        return x->image.attempt < y->image.attempt ? 1 : -1;
    return (x->teller > y->teller) - (x->teller < y->teller);
}

/* The place of a file of the manifest, on this node where that is possible. */
static const struct place *find(const struct places *places, int64_t step, const struct manifest_file *file)
{
    const struct place *found = NULL;
    for (size_t i = 0; i < places->count; i++) {
        const struct place *p = &places->items[i];
        if (p->image.step == step && (uint64_t)p->image.bytes == file->bytes &&
            strcmp(p->image.name, file->name) == 0 && strcmp(p->image.hash, file->hash) == 0 &&
            (!found || p->node == places->here))
            found = p;
    }
    return found;
}

/* ---- one candidate ------------------------------------------------------------------------------------------------------ */

static struct held_checkpoint *held_new(int64_t step, struct err *err)
{
    const char *socket = getenv(MEMORY_SOCKET_ENV), *slash = socket ? strrchr(socket, '/') : NULL;
    struct held_checkpoint *h = mem_zero(1, sizeof *h);
    h->step = step;
    h->folder = slash ? str_printf("%.*s/held-XXXXXX", (int)(slash - socket), socket)
                      : str_dup("/tmp/belay-held-XXXXXX");
    if (!mkdtemp(h->folder)) {
        err_sys(err, "cannot make %s", h->folder);
        free(h->folder);
        h->folder = NULL;
    }
    return h;
}

void held_free(struct held_checkpoint *held)
{
    struct err ignored;
    if (!held)
        return;
    if (held->folder)
        (void)fs_remove_tree(held->folder, &ignored); /* it goes with the attempt's scratch folder, too */
    for (size_t i = 0; i < held->n_fds; i++)
        close(held->fds[i]);
    manifest_free(held->manifest);
    free(held->fds);
    free(held->folder);
    free(held);
}

/* Takes fd over: it is there under its name from now on. */
static int put_link(struct held_checkpoint *h, const char *name, int fd, struct err *err)
{
    char *path = str_printf("%s/%s", h->folder, name), *to = str_printf("/proc/self/fd/%d", fd);
    int rc = symlink(to, path) == 0 ? 0 : err_sys(err, "cannot make %s", path);
    h->fds = mem_grow(h->fds, h->n_fds + 1, sizeof *h->fds);
    h->fds[h->n_fds++] = fd;
    free(to);
    free(path);
    return rc;
}

/* The manifest comes from the rank that told of it; every rank makes a file of it. */
static int get_manifest(struct run *run, struct memory_tier *memory, struct held_checkpoint *h,
                        const struct place *p, struct err *err)
{
    size_t len = (size_t)p->image.bytes;
    char *text = mem_zero(len + 1, 1);
    int rc = 0, from = -1;
    if (run->rank == p->teller) {
        from = memory_image(memory, &p->image, MEMORY_HERE, FETCH_LIMIT_MS, err);
        rc = from >= 0 && pread(from, text, len, 0) == (ssize_t)len ? 0 : -1; /* its hash shows */
    }
    if (from >= 0)
        close(from);
    comm_broadcast(comm_world(run->comm), &rc, sizeof rc, p->teller);
    if (rc == 0)
        comm_broadcast(comm_world(run->comm), text, len, p->teller);
    int fd = rc == 0 ? memimage_new("belay-manifest", p->image.bytes, err) : -1;
    if (rc == 0)
        rc = fd >= 0 && fs_write_all(fd, text, len) == 0 ? put_link(h, MANIFEST_FILE_NAME, fd, err) : -1;
    free(text);
    if (rc == 0)
        h->manifest = manifest_read(h->folder, err);
    return h->manifest ? 0 : -1;
}

static int check_state(const struct run *run, const struct held_checkpoint *h, struct err *err)
{
    const struct manifest_state *s = &h->manifest->state;
    if (strcmp(s->job, run->state.job) != 0)
        return err_set(err, "it is of job \"%s\"", s->job);
    return s->step == h->step ? 0 : err_set(err, "its manifest is of step %" PRId64, s->step);
}

/* Where it lies: its size is sealed. */
static int hash_memory(int fd, uint64_t bytes, char hash[DIGEST_SIZE], struct err *err)
{
    void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (map == MAP_FAILED)
        return err_sys(err, "cannot map %" PRIu64 " MiB of memory that a shim holds", bytes >> 20);
    digest_bytes(map, bytes, hash);
    (void)munmap(map, bytes); /* a mapping of our own */
    return 0;
}

/* One file, verified. */
static int get_file(struct memory_tier *memory, struct held_checkpoint *h, const struct places *places,
                    const struct manifest_file *file, struct err *err)
{
    const struct place *p = find(places, h->step, file);
    if (!p)
        return err_set(err, "no node holds %s", file->name);
    bool here = p->node == places->here;
    char hash[DIGEST_SIZE];
    int fd = memory_image(memory, &p->image, here ? MEMORY_HERE : p->node, FETCH_LIMIT_MS, err);
    if (fd < 0)
        return err_prefix(err, "%s", file->name);
    if (put_link(h, file->name, fd, err) != 0)
        return -1;
    int rc = hash_memory(fd, file->bytes, hash, err);
    if (rc == 0 && strcmp(hash, file->hash) != 0)
        rc = err_set(err, "%s is not what its hash says: it was being written when the rank ended",
                     file->name);
    h->bytes += file->bytes;
    h->fetched += here ? 0 : file->bytes;
    return rc;
}

static int get_files(struct run *run, struct memory_tier *memory, struct held_checkpoint *h,
                     const struct places *places, struct err *err)
{
    const struct manifest *m = h->manifest;
    bool *needed = mem_zero(m->n_files + 1, sizeof *needed);
    int rc =
        checkpoint_needs(h->folder, m, run->arrays, run->n_arrays, needed, err) == CHECKPOINT_OK ? 0 : -1;
    if (run->spec->train.precision == PRECISION_FP8 && (size_t)run->rank < m->n_files)
        needed[run->rank] = true; /* a row of its own (stored_load_fp8) */
    for (size_t i = 0; rc == 0 && i < m->n_files; i++)
        rc = needed[i] ? get_file(memory, h, places, &m->files[i], err) : 0;
    free(needed);
    return rc;
}

static int get_state(struct run *run, struct memory_tier *memory, struct held_checkpoint *h,
                     const struct place *manifest, struct err *err)
{
    return get_manifest(run, memory, h, manifest, err) == 0 ? check_state(run, h, err) : -1;
}

/* Did it go well on all ranks? Says what was wrong on this one. */
static bool all_well(const struct run *run, const struct held_checkpoint *h, int rc, const struct err *err)
{
    if (rc != 0 && err->text[0])
        log_warn("rank %d: the copy of step %" PRId64 " in memory is not used: %s", run->rank, h->step,
                 err->text);
    return comm_max_int(comm_world(run->comm), rc != 0) == 0;
}

/* The checkpoint with this manifest; NULL when a rank lacks something of it. */
static struct held_checkpoint *get(struct run *run, struct memory_tier *memory, const struct places *places,
                                   const struct place *manifest)
{
    struct err err = {""};
    struct held_checkpoint *h = held_new(manifest->image.step, &err);
    if (all_well(run, h, h->folder ? 0 : -1, &err) &&
        all_well(run, h, get_state(run, memory, h, manifest, &err), &err) &&
        all_well(run, h, get_files(run, memory, h, places, &err), &err))
        return h;
    held_free(h);
    return NULL;
}

struct held_checkpoint *held_find(struct run *run, struct memory_tier *memory, int64_t at_least)
{
    struct places places = gather(run, memory);
    struct held_checkpoint *found = NULL;
    char last[DIGEST_SIZE] = "";
    if (places.count > 0)
        qsort(places.items, places.count, sizeof *places.items, by_age);
    for (size_t i = 0; !found && i < places.count; i++) {
        const struct place *p = &places.items[i];
        if (strcmp(p->image.name, MANIFEST_FILE_NAME) != 0 || p->image.step < at_least ||
            p->image.bytes > MANIFEST_BYTES_MAX || strcmp(p->image.hash, last) == 0)
            continue; /* the same at another node adds nothing */
        memcpy(last, p->image.hash, sizeof last);
        found = get(run, memory, &places, p);
    }
    free(places.items);
    return found;
}
