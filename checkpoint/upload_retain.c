/* upload_retain: which checkpoints of a bucket stay, and what goes; see upload.h. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checkpoint/upload_private.h"
#include "common/log.h"
#include "common/mem.h"

#define SET_ASIDE "set-aside.json"

/* ---- removing --------------------------------------------------------------------------------------------------------- */

struct doomed {
    struct upload *upload;
    enum objects_result rc;
    struct err *err;
};

static int delete_one(void *ctx, const char *key, uint64_t bytes)
{
    struct doomed *d = ctx;
    (void)bytes;
    d->rc = objects_delete(d->upload->objects, key, d->err);
    return d->rc != OBJECTS_OK;
}

/* The manifest first, so that it is at no time a checkpoint with files that lack. */
static enum objects_result remove_step(struct upload *u, int64_t step, struct err *err)
{
    struct doomed d = {u, OBJECTS_OK, err};
    char *manifest = upload_key(u, step, MANIFEST_FILE_NAME), *folder = upload_key(u, step, "");
    enum objects_result rc = objects_delete(u->objects, manifest, err);
    if (rc == OBJECTS_OK)
        rc = objects_list(u->objects, folder, false, delete_one, &d, err);
    free(folder);
    free(manifest);
    return rc == OBJECTS_OK ? d.rc : rc;
}

/* Walks back from `step`, which is complete. With keep 0 the walk ends at the next complete one: before that nothing can have been left since it
 * was uploaded itself. */
static enum objects_result remove_old(struct upload *u, const int64_t *steps, size_t count, int64_t step,
                                      struct err *err)
{
    int64_t complete = 0, enough = u->keep > 0 ? u->keep : 2;
    for (size_t i = 0; i < count && (u->keep > 0 || complete < enough); i++) {
        if (steps[i] > step)
            continue;
        enum objects_result rc = complete < enough ? upload_is_complete(u, steps[i], err) : OBJECTS_OK;
        bool goes = complete >= enough || rc == OBJECTS_ABSENT;
        complete += rc == OBJECTS_OK;
        if (goes)
            rc = remove_step(u, steps[i], err);
        if (rc != OBJECTS_OK && rc != OBJECTS_ABSENT)
            return rc;
    }
    return OBJECTS_OK;
}

/* ---- setting aside ---------------------------------------------------------------------------------------------------- */

static enum objects_result copy_object(struct upload *u, const char *from, const char *to, struct err *err)
{
    struct objects_info info;
    char hash[DIGEST_SIZE], path[64];
    struct objects_source source = {.fd = memfd_create("manifest", MFD_CLOEXEC)};
    if (source.fd < 0)
        return err_sys(err, "cannot hold %s in memory", from);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", source.fd); /* fits */
    enum objects_result rc = objects_head(u->objects, from, &info, err);
    if (rc == OBJECTS_OK)
        rc = objects_get(u->objects, from, 0, info.bytes, source.fd, 0, err);
    if (rc == OBJECTS_OK && digest_file(path, &source.bytes, hash, err) != 0)
        rc = OBJECTS_ERROR;
    if (rc == OBJECTS_OK)
        rc = objects_put(u->objects, to, &source, u->part, hash, err);
    close(source.fd);
    return rc;
}

static enum objects_result set_aside(struct upload *u, int64_t step, struct err *err)
{
    char *from = upload_key(u, step, MANIFEST_FILE_NAME), *to = upload_key(u, step, SET_ASIDE);
    enum objects_result rc = copy_object(u, from, to, err);
    if (rc == OBJECTS_OK)
        rc = objects_delete(u->objects, from, err);
    if (rc == OBJECTS_OK)
        log_warn("the uploaded checkpoint of step %" PRId64
                 " is of a branch that the run has left: its manifest is now %s",
                 step, to);
    free(to);
    free(from);
    return rc == OBJECTS_ABSENT ? OBJECTS_OK : rc;
}

static enum objects_result set_aside_later(struct upload *u, const int64_t *steps, size_t count, int64_t step,
                                           struct err *err)
{
    enum objects_result rc = OBJECTS_OK;
    for (size_t i = 0; rc == OBJECTS_OK && i < count && steps[i] > step; i++)
        rc = set_aside(u, steps[i], err);
    return rc;
}

enum objects_result upload_set_aside(struct upload *u, int64_t step, struct err *err)
{
    int64_t *steps;
    size_t count;
    enum objects_result rc = upload_list(u, &steps, &count, err);
    if (rc == OBJECTS_OK)
        rc = set_aside_later(u, steps, count, step, err);
    free(steps);
    return rc;
}

/* ---- all -------------------------------------------------------------------------------------------------------------- */

struct up_to {
    const struct upload *upload;
    int64_t step;
};

/* A shard of the next step may be under way already. */
static bool is_left_over(void *ctx, const char *key)
{
    const struct up_to *u = ctx;
    int64_t step = upload_step_of(u->upload, key);
    return step >= 0 && step <= u->step;
}

enum objects_result upload_retain(struct upload *u, int64_t step, struct err *err)
{
    int64_t *steps;
    size_t count;
    struct up_to up_to = {u, step};
    char *prefix = str_printf("%sstep-", u->prefix);
    enum objects_result rc = upload_list(u, &steps, &count, err);
    if (rc == OBJECTS_OK)
        rc = set_aside_later(u, steps, count, step, err);
    if (rc == OBJECTS_OK)
        rc = remove_old(u, steps, count, step, err);
    if (rc == OBJECTS_OK)
        rc = objects_sweep(u->objects, prefix, is_left_over, &up_to, err);
    free(prefix);
    free(steps);
    return rc;
}
