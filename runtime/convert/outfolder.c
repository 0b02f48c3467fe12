/* outfolder: see outfolder.h. rename(2) puts a folder in place of an empty one. */
#include "runtime/convert/outfolder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/log.h"
#include "common/mem.h"

static int check_free(const char *path, struct err *err)
{
    DIR *dir = opendir(path);
    if (!dir)
        return errno == ENOENT ? 0 : err_sys(err, "cannot write to %s", path);
    int entries = 0;
    while (entries < 3 && readdir(dir))
        entries++; /* two of them are . and .. */
    closedir(dir);
    return entries < 3 ? 0 : err_set(err, "%s is not empty; name a folder that is not there yet", path);
}

/* The folder's path without slashes at its end, and the folder that it is in. */
static char *plain(const char *path)
{
    char *copy = str_dup(path);
    for (size_t len = strlen(copy); len > 1 && copy[len - 1] == '/';)
        copy[--len] = 0;
    return copy;
}

static char *parent(const char *path)
{
    char *copy = plain(path), *slash = strrchr(copy, '/');
    char *out = !slash ? str_dup(".") : (slash == copy ? str_dup("/") : str_dup(copy));
    if (slash && slash != copy)
        out[slash - copy] = 0;
    free(copy);
    return out;
}

int outfolder_above(const char *path, struct err *err)
{
    char *above = parent(path);
    int rc = fs_mkdirs(above, 0755, err);
    free(above);
    return rc;
}

char *outfolder_begin(const char *path, struct err *err)
{
    char *copy = plain(path), *folder = str_printf("%s.%d.tmp", copy, (int)getpid());
    bool good = check_free(copy, err) == 0 && outfolder_above(path, err) == 0;
    if (good && mkdir(folder, 0755) != 0) {
        if (errno == EEXIST)
            err_set(err, "%s is there, which a run that was killed has left; remove it", folder);
        else
            err_sys(err, "cannot make the folder %s", folder);
        good = false;
    }
    free(copy);
    if (good)
        return folder;
    free(folder);
    return NULL;
}

int outfolder_commit(const char *folder, const char *path, struct err *err)
{
    char *copy = plain(path), *above = parent(path);
    int rc = fs_sync_dir(folder, err);
    if (rc == 0 && rename(folder, copy) != 0)
        rc = err_sys(err, "cannot rename %s to %s", folder, copy);
    if (rc == 0)
        rc = fs_sync_dir(above, err);
    free(above);
    free(copy);
    return rc;
}

/* Not every file system can do it in one step. */
static int rename_to_free(const char *file, const char *path)
{
    if (renameat2(AT_FDCWD, file, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
        return 0;
    return errno == EINVAL || errno == ENOSYS ? rename(file, path) : -1;
}

int outfolder_commit_file(const char *file, const char *path, struct err *err)
{
    char *above = parent(path);
    int rc = 0;
    if (rename_to_free(file, path) != 0) {
        rc = errno == EEXIST ? err_set(err, "%s is already there; name another file", path)
                             : err_sys(err, "cannot rename %s to %s", file, path);
        (void)unlink(file); /* the sentence above is the one to tell */
    }
    if (rc == 0)
        rc = fs_sync_dir(above, err);
    free(above);
    return rc;
}

void outfolder_drop(const char *folder)
{
    struct err err;
    if (fs_remove_tree(folder, &err) != 0)
        log_warn("what was written so far stays: %s", err.text);
}
