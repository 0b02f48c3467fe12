/* holding: see holding.h. */
#include "runtime/holding.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fsutil.h"

#define LIMIT_S 120 /* a buddy that takes longer for an image is not worth waiting for */
#define LOOK_NS 2000000
#define WORDS   8

/* The shim's word on this image, when it has come. 1, 0 for not yet, -1. */
static int hear(struct memory_tier *memory, const struct memimage *image, bool *alone, struct err *err)
{
    struct memory_held words[WORDS];
    int n = memory_poll(memory, words, WORDS, err);
    for (int i = 0; i < n; i++) {
        if (words[i].step != image->step || strcmp(words[i].name, image->name) != 0)
            continue; /* one that was given up, or whose buddy was reached late */
        *alone = !words[i].buddy;
        return words[i].error[0] ? err_set(err, "%s", words[i].error) : 1;
    }
    return n < 0 ? -1 : 0;
}

static int hold(struct memory_tier *memory, const struct memimage *image, int fd, const atomic_bool *stop,
                bool *alone, struct err *err)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    double until = clock_monotonic_s() + LIMIT_S;
    int rc = memory_hold(memory, image, fd, err) == 0 ? 0 : -1;
    while (rc == 0) {
        rc = hear(memory, image, alone, err);
        if (rc == 0 && atomic_load(stop))
            rc = err_set(err, "%s is not held yet: the run ends", image->name);
        if (rc == 0 && clock_monotonic_s() > until)
            rc = err_set(err, "the shim has not said within %d s that %s is held", LIMIT_S, image->name);
        if (rc == 0)
            (void)nanosleep(&pause, NULL); /* a shorter one does no harm */
    }
    return rc < 0 ? -1 : 0;
}

int holding_shard(struct memory_tier *memory, const struct snapshot *snapshot, int rank,
                  const struct manifest_state *state, struct manifest_file *file, const atomic_bool *stop,
                  bool *alone, struct err *err)
{
    struct memimage image = {.step = state->step, .rank = rank, .bytes = (int64_t)file->bytes};
    snapshot_hash(snapshot, file->hash);
    (void)snprintf(image.name, sizeof image.name, "%s", file->name); /* of the same size */
    memcpy(image.hash, file->hash, sizeof image.hash);
    return hold(memory, &image, snapshot_fd(snapshot), stop, alone, err);
}

_Static_assert(MEMIMAGE_HASH_SIZE == DIGEST_SIZE, "hashes are the same");

int holding_manifest(struct memory_tier *memory, const struct commit *c, const atomic_bool *stop, bool *alone,
                     struct err *err)
{
    char *text = checkpoint_manifest(c->records, c->files, c->n_files, c->state, err);
    if (!text)
        return -1;
    struct memimage image = {
        .step = c->state->step, .rank = 0, .bytes = (int64_t)strlen(text), .name = MANIFEST_FILE_NAME};
    digest_bytes(text, strlen(text), image.hash);
    int rc = -1, fd = memimage_new("belay-manifest", image.bytes, err);
    if (fd >= 0 && fs_write_all(fd, text, strlen(text)) != 0)
        err_sys(err, "cannot keep a manifest in memory");
    else if (fd >= 0)
        rc = hold(memory, &image, fd, stop, alone, err);
    if (fd >= 0)
        close(fd);
    free(text);
    return rc;
}
