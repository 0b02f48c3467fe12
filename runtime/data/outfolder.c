/* outfolder: see outfolder.h. A file of the name below says that the folder is not finished; whoever works on it holds a lock on that file, which
 * the kernel releases when it dies. */
#include "runtime/data/outfolder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "runtime/data/indexfile.h"

#define MARKER "unfinished"

struct outfolder {
    char *path, *marker;
    int fd; /* of the marker, locked */
};

/* What prepare itself writes, whole or half. The index is not among it: where it is, the folder is finished. */
static const char *const ours[] = {"shard-[0-9]*.bin", "shard-[0-9]*.bin.tmp", "tokenizer.json",
                                   "tokenizer.json.tmp.*", "index.json.tmp.*"};

static bool is_ours(const char *name)
{
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (fnmatch(ours[i], name, 0) == 0)
            return true;
    return false;
}

bool outfolder_made(const char *path)
{
    DIR *folder = opendir(path);
    bool ours_only = folder != NULL, begun = false;
    for (const struct dirent *entry; ours_only && (entry = readdir(folder)) != NULL;) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        bool marker = strcmp(name, MARKER) == 0;
        ours_only = marker || strcmp(name, INDEXFILE_NAME) == 0 || is_ours(name);
        begun = begun || marker || fnmatch(ours[0], name, 0) == 0; /* tokenizer.json alone may be another's */
    }
    if (folder)
        closedir(folder);
    return ours_only && begun;
}

static int check_finished(const struct outfolder *f, struct err *err)
{
    char *index = str_printf("%s/" INDEXFILE_NAME, f->path);
    bool finished = access(index, F_OK) == 0;
    free(index);
    if (!finished)
        return 0;
    return err_set(err, "%s already holds token files; give --out a new folder, or remove this one", f->path);
}

static int not_empty(const struct outfolder *f, const char *name, struct err *err)
{
    return err_set(err, "%s is not empty (\"%s\" is in it); give --out a new or an empty folder", f->path,
                   name);
}

/* Refuses a folder with anything in it but the marker and, when an interrupted run has `left` it, things of ours. */
static int walk(const struct outfolder *f, bool left, bool remove_ours, struct err *err)
{
    int rc = 0;
    DIR *folder = opendir(f->path);
    if (!folder)
        return err_sys(err, "cannot open the folder %s", f->path);
    for (const struct dirent *entry; rc == 0 && (entry = readdir(folder)) != NULL;) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, MARKER) == 0)
            continue;
        if (!left || !is_ours(name))
            rc = not_empty(f, name, err);
        else if (remove_ours && unlinkat(dirfd(folder), name, 0) != 0)
            rc = err_sys(err, "cannot remove %s/%s, which an interrupted run has left", f->path, name);
    }
    closedir(folder);
    return rc;
}

static int lock(struct outfolder *f, struct err *err)
{
    f->fd = open(f->marker, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (f->fd < 0)
        return err_sys(err, "cannot write to the folder %s", f->path);
    if (flock(f->fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return err_set(err, "another belay-train prepare is writing to %s; wait for it or give another --out",
                       f->path);
    return err_sys(err, "cannot lock %s", f->marker);
}

/* Who had the lock may have finished between the first look and the lock: what is there now is whole, and the marker only ours. */
static int check_finished_since(const struct outfolder *f, struct err *err)
{
    if (check_finished(f, err) == 0)
        return 0;
    (void)unlink(f->marker); /* it is gone, or stays as a false alarm */
    return -1;
}

static int take(struct outfolder *f, struct err *err)
{
    struct stat st;
    if (fs_mkdirs(f->path, 0755, err) != 0)
        return -1;
    bool left = stat(f->marker, &st) == 0;
    if (check_finished(f, err) != 0 || walk(f, left, false, err) != 0 || lock(f, err) != 0 ||
        check_finished_since(f, err) != 0) /* nothing is touched before all of it is known */
        return -1;
    return walk(f, left, true, err);
}

struct outfolder *outfolder_take(const char *path, struct err *err)
{
    struct outfolder *f = mem_zero(1, sizeof *f);
    f->path = str_dup(path);
    f->marker = str_printf("%s/" MARKER, path);
    f->fd = -1;
    if (take(f, err) == 0)
        return f;
    outfolder_close(f);
    return NULL;
}

int outfolder_finish(struct outfolder *f, struct err *err)
{
    if (unlink(f->marker) != 0)
        return err_sys(err, "cannot remove %s", f->marker);
    return fs_sync_dir(f->path, err);
}

void outfolder_close(struct outfolder *f)
{
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    free(f->path);
    free(f->marker);
    free(f);
}
