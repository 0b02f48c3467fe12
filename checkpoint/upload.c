/* upload: see upload.h; the way back is in upload_fetch.c. */
#include "checkpoint/upload.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/shelf.h"
#include "checkpoint/upload_private.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/s3url.h"

struct upload *upload_open(const struct upload_spec *spec, const struct objects_limits *limits,
                           struct objects_watch *watch, struct err *err)
{
    struct s3url where;
    if (s3url_parse(spec->url, &where, err) != 0) {
        err_prefix(err, "checkpoint.upload.url");
        return NULL;
    }
    struct objects_place place = {spec->endpoint, spec->region, where.bucket};
    struct objects *objects = objects_open(&place, limits, watch, err);
    if (!objects)
        return NULL;
    struct upload *u = mem_zero(1, sizeof *u);
    u->objects = objects;
    u->prefix = str_printf("%s%s", where.prefix, where.prefix[0] ? "/" : "");
    u->part = spec->part;
    u->keep = spec->keep;
    return u;
}

void upload_close(struct upload *u)
{
    if (!u)
        return;
    objects_close(u->objects);
    free(u->prefix);
    free(u);
}

char *upload_key(const struct upload *u, int64_t step, const char *name)
{
    return str_printf("%sstep-%08" PRId64 "/%s", u->prefix, step, name);
}

/* ---- sending ---------------------------------------------------------------------------------------------------------- */

/* Unless it is there already. Other content under this name belongs to a checkpoint that is no longer one: `before` (or NULL) goes first. */
static enum objects_result send_file(struct upload *u, const char *key, int fd, uint64_t bytes,
                                     const char *hash, const char *before, struct err *err)
{
    struct objects_info there;
    struct objects_source source = {.fd = fd, .bytes = bytes};
    enum objects_result rc = objects_head(u->objects, key, &there, err);
    if (rc == OBJECTS_OK && there.bytes == bytes && strcmp(there.hash, hash) == 0)
        return OBJECTS_OK;
    if (rc == OBJECTS_OK && before)
        rc = objects_delete(u->objects, before, err);
    if (rc == OBJECTS_OK || rc == OBJECTS_ABSENT)
        rc = objects_put(u->objects, key, &source, u->part, hash, err);
    return rc;
}

enum objects_result upload_shard(struct upload *u, int64_t step, const struct manifest_file *file, int fd,
                                 struct err *err)
{
    char *key = upload_key(u, step, file->name), *manifest = upload_key(u, step, MANIFEST_FILE_NAME);
    enum objects_result rc = send_file(u, key, fd, file->bytes, file->hash, manifest, err);
    free(manifest);
    free(key);
    return rc;
}

/* Which of a manifest's files are there with their sizes. */
struct found {
    const struct manifest *manifest;
    size_t folder; /* bytes of a key before the name */
    bool *there;   /* (n_files) */
};

static int note_file(void *ctx, const char *key, uint64_t bytes)
{
    struct found *f = ctx;
    for (size_t i = 0; i < f->manifest->n_files && strlen(key) > f->folder; i++)
        if (strcmp(f->manifest->files[i].name, key + f->folder) == 0)
            f->there[i] = f->manifest->files[i].bytes == bytes;
    return 0;
}

static enum objects_result check_shards(struct upload *u, const struct manifest *m, struct err *err)
{
    char *folder = upload_key(u, m->state.step, "");
    struct found f = {m, strlen(folder), mem_zero(m->n_files, sizeof *f.there)};
    enum objects_result rc = objects_list(u->objects, folder, false, note_file, &f, err);
    for (size_t i = 0; rc == OBJECTS_OK && i < m->n_files; i++)
        if (!f.there[i])
            rc = err_set(err,
                         "the manifest of step %" PRId64
                         " is not uploaded: %s is not there yet with its %" PRIu64 " bytes",
                         m->state.step, m->files[i].name, m->files[i].bytes);
    free(f.there);
    free(folder);
    return rc;
}

static enum objects_result send_manifest(struct upload *u, int64_t step, const char *path, struct err *err)
{
    char hash[DIGEST_SIZE], *key = upload_key(u, step, MANIFEST_FILE_NAME);
    uint64_t bytes;
    enum objects_result rc = digest_file(path, &bytes, hash, err) == 0 ? OBJECTS_OK : OBJECTS_ERROR;
    int fd = rc == OBJECTS_OK ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (rc == OBJECTS_OK && fd < 0)
        rc = err_sys(err, "cannot open %s", path);
    if (rc == OBJECTS_OK)
        rc = send_file(u, key, fd, bytes, hash, NULL, err);
    if (fd >= 0)
        close(fd);
    free(key);
    return rc;
}

enum objects_result upload_manifest(struct upload *u, const char *folder, struct err *err)
{
    struct manifest *m = manifest_read(folder, err);
    if (!m)
        return OBJECTS_ERROR;
    char *path = str_printf("%s/" MANIFEST_FILE_NAME, folder);
    enum objects_result rc = check_shards(u, m, err);
    if (rc == OBJECTS_OK)
        rc = send_manifest(u, m->state.step, path, err);
    free(path);
    manifest_free(m);
    return rc;
}

static enum objects_result send_shard_of(struct upload *u, const char *folder, int64_t step,
                                         const struct manifest_file *file, struct err *err)
{
    char *path = str_printf("%s/%s", folder, file->name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    enum objects_result rc = fd < 0 ? (enum objects_result)err_sys(err, "cannot open %s", path)
                                    : upload_shard(u, step, file, fd, err);
    if (fd >= 0)
        close(fd);
    free(path);
    return rc;
}

enum objects_result upload_folder(struct upload *u, const char *folder, struct err *err)
{
    struct manifest *m = manifest_read(folder, err);
    struct err left;
    if (!m)
        return OBJECTS_ERROR;
    enum objects_result rc = OBJECTS_OK;
    for (size_t i = 0; rc == OBJECTS_OK && i < m->n_files; i++)
        rc = send_shard_of(u, folder, m->state.step, &m->files[i], err);
    if (rc == OBJECTS_OK)
        rc = upload_manifest(u, folder, err);
    if (rc == OBJECTS_OK && upload_retain(u, m->state.step, &left) == OBJECTS_ERROR)
        log_warn("older uploaded checkpoints stay: %s", left.text);
    manifest_free(m);
    return rc;
}

/* ---- what is there ---------------------------------------------------------------------------------------------------- */

struct steps {
    const struct upload *upload;
    int64_t *items;
    size_t count, room;
};

int64_t upload_step_of(const struct upload *u, const char *key)
{
    size_t prefix = strlen(u->prefix);
    if (strncmp(key, u->prefix, prefix) != 0)
        return -1;
    char name[64];
    size_t len = strcspn(key + prefix, "/");
    if (key[prefix + len] != '/' || len >= sizeof name)
        return -1;
    memcpy(name, key + prefix, len);
    name[len] = 0;
    return shelf_step_of(name);
}

static int note_step(void *ctx, const char *key, uint64_t bytes)
{
    struct steps *s = ctx;
    int64_t step = upload_step_of(s->upload, key);
    (void)bytes;
    if (step < 0)
        return 0;
    if (s->count == s->room)
        s->items = mem_one_more(s->items, s->count, &s->room, sizeof *s->items);
    s->items[s->count++] = step;
    return 0;
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

enum objects_result upload_list(struct upload *u, int64_t **steps, size_t *count, struct err *err)
{
    struct steps s = {.upload = u};
    char *prefix = str_printf("%sstep-", u->prefix);
    enum objects_result rc = objects_list(u->objects, prefix, true, note_step, &s, err);
    if (s.count > 0)
        qsort(s.items, s.count, sizeof *s.items, newest_first);
    *steps = s.items;
    *count = s.count;
    free(prefix);
    return rc;
}

enum objects_result upload_is_complete(struct upload *u, int64_t step, struct err *err)
{
    struct objects_info info;
    char *key = upload_key(u, step, MANIFEST_FILE_NAME);
    enum objects_result rc = objects_head(u->objects, key, &info, err);
    free(key);
    return rc;
}
