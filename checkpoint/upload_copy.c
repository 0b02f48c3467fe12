/* upload_copy: see upload_copy.h. Two checkpoints are the same when their manifests are, byte by byte: these have the hashes of everything else. */
#include "checkpoint/upload_copy.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/audit.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/shelf.h"
#include "checkpoint/upload_private.h"
#include "common/mem.h"

/* Is the manifest of `step` in the bucket that of `folder`? OBJECTS_ABSENT: there is none in the bucket. */
static enum objects_result same_manifest(struct upload *u, int64_t step, const char *folder, bool *same,
                                         struct err *err)
{
    struct objects_info info;
    char hash[DIGEST_SIZE] = "", *key = upload_key(u, step, MANIFEST_FILE_NAME),
         *path = str_printf("%s/" MANIFEST_FILE_NAME, folder);
    uint64_t bytes = 0;
    enum objects_result rc = objects_head(u->objects, key, &info, err);
    *same = rc == OBJECTS_OK && digest_file(path, &bytes, hash, NULL) == 0 && bytes == info.bytes &&
            strcmp(hash, info.hash) == 0;
    free(path);
    free(key);
    return rc;
}

/* ---- to the bucket ---- */

static int send_file(struct upload *u, const struct audit *a, size_t i, struct err *err)
{
    const struct manifest *m = audit_manifest(a);
    char *path = str_printf("%s/%s", audit_folder(a), m->files[i].name);
    int rc = audit_file(a, i, false, NULL, err), fd = rc == 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (rc == 0 && fd < 0)
        rc = err_sys(err, "cannot open %s", path);
    if (rc == 0 && upload_shard(u, m->state.step, &m->files[i], fd, err) != OBJECTS_OK)
        rc = -1;
    if (fd >= 0)
        close(fd);
    free(path);
    return rc;
}

static enum copy_result send_all(struct upload *u, const struct audit *a, struct err *err)
{
    for (size_t i = 0; i < audit_manifest(a)->n_files; i++)
        if (send_file(u, a, i, err) != 0)
            return COPY_ERROR;
    return upload_manifest(u, audit_folder(a), err) == OBJECTS_OK ? COPY_DONE : COPY_ERROR;
}

enum copy_result upload_copy_to(struct upload *u, const char *folder, struct err *err)
{
    struct audit *a = audit_open(folder, err);
    bool same = false;
    enum copy_result rc = COPY_ERROR;
    if (!a)
        return rc;
    int64_t step = audit_manifest(a)->state.step;
    enum objects_result there = same_manifest(u, step, folder, &same, err);
    if (there == OBJECTS_ABSENT) {
        rc = send_all(u, a, err);
    } else if (there == OBJECTS_OK && same) {
        rc = COPY_THERE;
    } else if (there == OBJECTS_OK) {
        rc = COPY_OTHER;
        err_set(err, "another checkpoint of step %" PRId64 " is there: copy to another prefix", step);
    }
    audit_close(a);
    return rc;
}

/* ---- from the bucket ---- */

static enum objects_result find_newest(struct upload *u, int64_t *step, struct err *err)
{
    int64_t *steps;
    size_t count;
    enum objects_result rc = upload_list(u, &steps, &count, err);
    for (size_t i = 0; rc == OBJECTS_OK && *step < 0 && i < count; i++) {
        enum objects_result one = upload_is_complete(u, steps[i], err);
        if (one == OBJECTS_OK)
            *step = steps[i];
        else if (one != OBJECTS_ABSENT)
            rc = one;
    }
    free(steps);
    if (rc == OBJECTS_OK && *step < 0)
        rc = err_set(err, "no complete checkpoint is there");
    return rc;
}

static enum objects_result find_step(struct upload *u, int64_t step, struct err *err)
{
    enum objects_result rc = upload_is_complete(u, step, err);
    if (rc == OBJECTS_ABSENT)
        err_set(err, "no complete checkpoint of step %" PRId64 " is there", step);
    return rc;
}

/* The step has a folder here already. */
static enum copy_result meet(struct upload *u, int64_t step, const char *there, struct err *err)
{
    struct manifest_state state;
    struct err why;
    bool same;
    if (same_manifest(u, step, there, &same, err) != OBJECTS_OK)
        return COPY_ERROR;
    if (same && checkpoint_verify(there, 0, 1, &state, &why) == 0)
        return COPY_THERE;
    err_set(err,
            same ? "%s is this checkpoint, but damaged: remove it and copy again"
                 : "%s is another checkpoint of the same step: move it away, or copy to another directory",
            there);
    return COPY_OTHER;
}

enum copy_result upload_copy_from(struct upload *u, int64_t step, const char *directory, int64_t *copied,
                                  struct err *err)
{
    *copied = step;
    if ((step < 0 ? find_newest(u, copied, err) : find_step(u, step, err)) != OBJECTS_OK)
        return COPY_ERROR;
    char *there = shelf_path(directory, *copied);
    enum copy_result rc = COPY_ERROR;
    if (access(there, F_OK) == 0)
        rc = meet(u, *copied, there, err);
    else if (upload_download(u, *copied, directory, 0, err) == OBJECTS_OK)
        rc = COPY_DONE;
    if (rc == COPY_DONE)
        shelf_note_newest(directory);
    free(there);
    return rc;
}
