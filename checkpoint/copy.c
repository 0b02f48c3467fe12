/* copy: see copy.h. */
#include "checkpoint/copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/audit.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/shelf.h"
#include "common/fsutil.h"
#include "common/mem.h"

#define PIECE_BYTES (1u << 20)

/* What one file is copied with. */
struct stream {
    char *from, *to;
    int in, out;
    struct digest *digest;
    const struct digest_watch *watch;
};

static int move_bytes(struct stream *s, struct err *err)
{
    char *buffer = mem_grow(NULL, PIECE_BYTES, 1);
    int rc = 0;
    ssize_t n = 0;
    do {
        n = read(s->in, buffer, PIECE_BYTES);
        if (n < 0 && errno != EINTR)
            rc = err_sys(err, "cannot read %s", s->from);
        if (n <= 0)
            continue;
        digest_add(s->digest, buffer, (size_t)n);
        if (fs_write_all(s->out, buffer, (size_t)n) != 0)
            rc = err_sys(err, "cannot write %s", s->to);
        else if (s->watch)
            s->watch->seen(s->watch->arg, (size_t)n);
    } while (rc == 0 && n != 0);
    free(buffer);
    return rc;
}

/* Durable, and out of the host's cache: reading it back then asks the disk. */
static int settle(const struct stream *s, struct err *err)
{
    if (fsync(s->out) != 0)
        return err_sys(err, "cannot write %s", s->to);
    (void)posix_fadvise(s->out, 0, 0, POSIX_FADV_DONTNEED); /* only a wish */
    return 0;
}

/* Copies one file; hash gets its digest. */
static int copy_file(const char *folder, const char *hidden, const char *name,
                     const struct digest_watch *watch, char hash[DIGEST_SIZE], struct err *err)
{
    struct stream s = {.from = str_printf("%s/%s", folder, name),
                       .to = str_printf("%s/%s", hidden, name),
                       .digest = digest_new(),
                       .watch = watch};
    int rc = 0;
    s.in = open(s.from, O_RDONLY | O_CLOEXEC);
    s.out = open(s.to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (s.in < 0)
        rc = err_sys(err, "cannot open %s", s.from);
    else if (s.out < 0)
        rc = err_sys(err, "cannot make %s", s.to);
    else if ((rc = move_bytes(&s, err)) == 0)
        rc = settle(&s, err);
    digest_end(s.digest, hash);
    if (s.in >= 0)
        close(s.in);
    if (s.out >= 0 && close(s.out) != 0 && rc == 0)
        rc = err_sys(err, "cannot write %s", s.to);
    free(s.from);
    free(s.to);
    return rc;
}

static int copy_named(const struct audit *a, const char *hidden, const struct digest_watch *watch,
                      struct err *err)
{
    const struct manifest *m = audit_manifest(a);
    for (size_t i = 0; i < m->n_files; i++) {
        char hash[DIGEST_SIZE];
        if (audit_file(a, i, false, NULL, err) != 0 ||
            copy_file(audit_folder(a), hidden, m->files[i].name, watch, hash, err) != 0)
            return -1;
        if (strcmp(hash, m->files[i].hash) != 0)
            return err_set(err, "%s/%s is damaged: its hash is not the one of its manifest", audit_folder(a),
                           m->files[i].name);
    }
    return 0;
}

/* A file that belongs there without being named: not hidden, nothing special, and not what was copied already. */
static bool is_beside(const struct dirent *e, const char *hidden)
{
    char *there = str_printf("%s/%s", hidden, e->d_name);
    bool beside = e->d_name[0] != '.' && strcmp(e->d_name, MANIFEST_FILE_NAME) != 0 &&
                  (e->d_type == DT_REG || e->d_type == DT_UNKNOWN) && access(there, F_OK) != 0;
    free(there);
    return beside;
}

static int copy_beside(const char *folder, const char *hidden, struct err *err)
{
    char hash[DIGEST_SIZE];
    DIR *dir = opendir(folder);
    if (!dir)
        return err_sys(err, "cannot read %s", folder);
    int rc = 0;
    for (const struct dirent *e; rc == 0 && (e = readdir(dir));)
        if (is_beside(e, hidden))
            rc = copy_file(folder, hidden, e->d_name, NULL, hash, err);
    closedir(dir);
    return rc;
}

static int read_back(const char *hidden, const struct digest_watch *watch, struct err *err)
{
    struct audit *a = audit_open(hidden, err);
    int rc = a ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < audit_manifest(a)->n_files; i++)
        rc = audit_file(a, i, true, watch, err);
    audit_close(a);
    return rc == 0 ? 0 : err_prefix(err, "what was written could not be read back");
}

/* Everything into the hidden folder, the manifest last. */
static int fill(const struct audit *a, const char *hidden, const struct digest_watch *watch, struct err *err)
{
    char hash[DIGEST_SIZE];
    if (copy_named(a, hidden, watch, err) != 0 || copy_beside(audit_folder(a), hidden, err) != 0 ||
        copy_file(audit_folder(a), hidden, MANIFEST_FILE_NAME, NULL, hash, err) != 0 ||
        fs_sync_dir(hidden, err) != 0)
        return -1;
    return read_back(hidden, watch, err);
}

static int copy_new(const struct audit *a, const char *directory, const struct digest_watch *watch,
                    struct err *err)
{
    const struct manifest_state *at = &audit_manifest(a)->state;
    char *hidden = shelf_begin(directory, at->step, at->attempt, err);
    if (!hidden)
        return -1;
    int rc = fill(a, hidden, watch, err);
    if (rc == 0)
        rc = shelf_add(directory, hidden, at->step, err);
    if (rc != 0)
        (void)fs_remove_tree(hidden, NULL); /* the error above is the one to tell; the next owner sweeps */
    free(hidden);
    return rc;
}

/* Are the manifests the same, byte for byte? They have the hash of everything else. */
static bool same_manifest(const char *a, const char *b)
{
    size_t len[2] = {0, 0};
    char *paths[] = {str_printf("%s/" MANIFEST_FILE_NAME, a), str_printf("%s/" MANIFEST_FILE_NAME, b)},
         *text[2];
    for (int i = 0; i < 2; i++) {
        text[i] = fs_read(paths[i], MANIFEST_BYTES_MAX, &len[i], NULL);
        free(paths[i]);
    }
    bool same = text[0] && text[1] && len[0] == len[1] && memcmp(text[0], text[1], len[0]) == 0;
    free(text[0]);
    free(text[1]);
    return same;
}

/* The step has a folder there already. */
static enum copy_result meet(const char *folder, const char *there, struct err *err)
{
    struct manifest_state state;
    struct err why;
    if (!same_manifest(folder, there)) {
        err_set(err, "%s is another checkpoint of the same step: move it away, or copy to another directory",
                there);
        return COPY_OTHER;
    }
    if (checkpoint_verify(there, 0, 1, &state, &why) == 0)
        return COPY_THERE;
    err_set(err, "it is there already, but damaged (%s): remove %s and copy again", why.text, there);
    return COPY_OTHER;
}

enum copy_result copy_checkpoint(const char *folder, const char *directory, const struct digest_watch *watch,
                                 struct err *err)
{
    struct audit *a = audit_open(folder, err);
    if (!a)
        return COPY_ERROR;
    char *there = shelf_path(directory, audit_manifest(a)->state.step);
    enum copy_result rc = COPY_ERROR;
    if (access(there, F_OK) == 0)
        rc = meet(folder, there, err);
    else if (fs_mkdirs(directory, 0755, err) == 0 && copy_new(a, directory, watch, err) == 0)
        rc = COPY_DONE;
    free(there);
    audit_close(a);
    return rc;
}
