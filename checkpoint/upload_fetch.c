/* upload_fetch: checkpoints from a bucket back to a shelf; see upload.h. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/shelf.h"
#include "checkpoint/upload_private.h"
#include "common/fsutil.h"
#include "common/log.h"
#include "common/mem.h"

#define MANIFEST_MAX ((uint64_t)1 << 32)

/* An object into a new file, in pieces of a part, each of which is tried again by itself; fsynced. */
static enum objects_result fetch_file(struct upload *u, const char *key, uint64_t bytes, const char *path,
                                      struct err *err)
{
    enum objects_result rc = OBJECTS_OK;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_sys(err, "cannot create %s", path);
    for (uint64_t at = 0; rc == OBJECTS_OK && at < bytes; at += u->part)
        rc = objects_get(u->objects, key, at, bytes - at < u->part ? bytes - at : u->part, fd, at, err);
    if (rc == OBJECTS_OK && fsync(fd) != 0)
        rc = err_sys(err, "cannot write %s", path);
    if (close(fd) != 0 && rc == OBJECTS_OK)
        rc = err_sys(err, "cannot write %s", path);
    return rc;
}

static enum objects_result fetch_named(struct upload *u, int64_t step, const char *name, uint64_t bytes,
                                       const char *folder, struct err *err)
{
    char *key = upload_key(u, step, name), *path = str_printf("%s/%s", folder, name);
    enum objects_result rc = fetch_file(u, key, bytes, path, err);
    free(path);
    free(key);
    return rc;
}

static enum objects_result fetch_manifest(struct upload *u, int64_t step, const char *folder, struct err *err)
{
    struct objects_info info;
    char *key = upload_key(u, step, MANIFEST_FILE_NAME);
    enum objects_result rc = objects_head(u->objects, key, &info, err);
    if (rc == OBJECTS_OK && info.bytes > MANIFEST_MAX)
        rc = err_set(err, "%s has %" PRIu64 " bytes and cannot be a manifest", key, info.bytes);
    free(key);
    return rc == OBJECTS_OK ? fetch_named(u, step, MANIFEST_FILE_NAME, info.bytes, folder, err) : rc;
}

/* What came of a download. What is damaged there stays so; anything else may be better at the next try. */
struct outcome {
    enum objects_result rc;
    bool damaged;
};

static struct outcome damaged(void)
{
    return (struct outcome){OBJECTS_ERROR, true};
}

static struct outcome fetch_shards(struct upload *u, const struct manifest *m, const char *folder,
                                   struct err *err)
{
    for (size_t i = 0; i < m->n_files; i++) {
        enum objects_result rc =
            fetch_named(u, m->state.step, m->files[i].name, m->files[i].bytes, folder, err);
        if (rc == OBJECTS_ABSENT)
            return damaged();
        if (rc != OBJECTS_OK)
            return (struct outcome){.rc = rc};
    }
    return (struct outcome){.rc = OBJECTS_OK};
}

static struct outcome fetch_all(struct upload *u, int64_t step, const char *folder, struct err *err)
{
    struct manifest_state state;
    struct outcome out = {.rc = fetch_manifest(u, step, folder, err)};
    if (out.rc != OBJECTS_OK)
        return out;
    struct manifest *m = manifest_read(folder, err);
    if (!m)
        return damaged();
    if (m->state.step != step) {
        err_set(err, "the manifest in the folder of step %" PRId64 " is of step %" PRId64, step,
                m->state.step);
        out = damaged();
    } else {
        out = fetch_shards(u, m, folder, err);
    }
    manifest_free(m);
    if (out.rc == OBJECTS_OK && checkpoint_verify(folder, 0, 1, &state, err) != 0)
        out = damaged();
    if (out.rc == OBJECTS_OK && fs_sync_dir(folder, err) != 0)
        out.rc = OBJECTS_ERROR;
    return out;
}

static struct outcome download(struct upload *u, int64_t step, const char *directory, int64_t attempt,
                               struct err *err)
{
    struct err left;
    char *folder = fs_mkdirs(directory, 0755, err) == 0 ? shelf_begin(directory, step, attempt, err) : NULL;
    if (!folder)
        return (struct outcome){.rc = OBJECTS_ERROR};
    struct outcome out = fetch_all(u, step, folder, err);
    if (out.rc == OBJECTS_OK && shelf_commit(directory, folder, step, err) != 0)
        out.rc = OBJECTS_ERROR;
    if (out.rc != OBJECTS_OK && fs_remove_tree(folder, &left) != 0)
        log_warn("a broken download stays until the next start: %s", left.text);
    free(folder);
    return out;
}

enum objects_result upload_download(struct upload *u, int64_t step, const char *directory, int64_t attempt,
                                    struct err *err)
{
    return download(u, step, directory, attempt, err).rc;
}

/* Only what is damaged or incomplete is passed over: a server that cannot be reached is no reason to lose a week. */
enum objects_result upload_fetch_newest(struct upload *u, const char *directory, int64_t attempt,
                                        int64_t *step, struct err *err)
{
    int64_t *steps, broken = 0;
    size_t count;
    enum objects_result rc = upload_list(u, &steps, &count, err);
    *step = 0;
    for (size_t i = 0; rc == OBJECTS_OK && *step == 0 && i < count; i++) {
        struct outcome one = download(u, steps[i], directory, attempt, err);
        if (one.damaged) {
            broken++;
            log_warn("skipping the uploaded checkpoint of step %" PRId64 ": %s", steps[i], err->text);
        } else if (one.rc == OBJECTS_OK) {
            *step = steps[i];
        } else if (one.rc != OBJECTS_ABSENT) {
            rc = one.rc;
        }
    }
    free(steps);
    if (rc == OBJECTS_OK && *step == 0 && broken > 0)
        rc = err_set(err,
                     "none of the uploaded checkpoints can be used: %" PRId64
                     " of them are damaged; remove them from the bucket to begin anew",
                     broken);
    return rc;
}
