/* fsutil: see fsutil.h. */
#include "common/fsutil.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"

/* mkdir that is content with a folder that exists. */
static int make_one(const char *path, mode_t mode, struct err *err)
{
    struct stat st;
    if (mkdir(path, mode) == 0)
        return 0;
    if (errno == EEXIST && stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            return 0;
        errno = ENOTDIR;
    }
    return err_sys(err, "cannot make the folder %s", path);
}

int fs_mkdirs(const char *path, mode_t mode, struct err *err)
{
    char *copy = str_dup(path);
    int rc = 0;
    for (char *p = copy + 1; rc == 0 && *copy && *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        rc = make_one(copy, mode, err);
        *p = '/';
    }
    if (rc == 0)
        rc = make_one(copy, mode, err);
    free(copy);
    return rc;
}

/* Reads fd to its end, at most limit bytes. */
static char *read_fd(int fd, const char *path, size_t limit, size_t *len, struct err *err)
{
    size_t used = 0, room = 4096;
    char *buf = mem_grow(NULL, room + 1, 1);
    for (;;) {
        if (used == room) {
            room *= 2;
            buf = mem_grow(buf, room + 1, 1);
        }
        ssize_t n = read(fd, buf + used, room - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            err_sys(err, "cannot read %s", path);
            break;
        }
        used += (size_t)n;
        if (used > limit) {
            err_set(err, "%s is larger than the %zu bytes allowed", path, limit);
            break;
        }
        if (n == 0) {
            buf[used] = '\0';
            if (len)
                *len = used;
            return buf;
        }
    }
    free(buf);
    return NULL;
}

char *fs_read(const char *path, size_t limit, size_t *len, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        err_sys(err, "cannot open %s", path);
        return NULL;
    }
    char *buf = read_fd(fd, path, limit, len, err);
    close(fd);
    return buf;
}

int fs_write_all(int fd, const void *buf, size_t len)
{
    const char *p = buf;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int fs_sync_dir(const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, "cannot open the folder %s", path);
    int rc = fsync(fd);
    if (rc < 0)
        err_sys(err, "cannot fsync the folder %s", path);
    close(fd);
    return rc;
}

static int sync_parent(const char *path, struct err *err)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return fs_sync_dir(".", err);
    char *dir = slash == path ? str_dup("/") : str_printf("%.*s", (int)(slash - path), path);
    int rc = fs_sync_dir(dir, err);
    free(dir);
    return rc;
}

static int write_and_sync(const char *tmp, const void *data, size_t len, mode_t mode, struct err *err)
{
    int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0)
        return err_sys(err, "cannot create %s", tmp);
    int rc = 0;
    if (fs_write_all(fd, data, len) < 0 || fsync(fd) < 0)
        rc = err_sys(err, "cannot write %s", tmp);
    if (close(fd) < 0 && rc == 0)
        rc = err_sys(err, "cannot write %s", tmp);
    return rc;
}

int fs_write_durable(const char *path, const void *data, size_t len, mode_t mode, struct err *err)
{
    char *tmp = str_printf("%s.tmp.%ld", path, (long)getpid());
    int rc = write_and_sync(tmp, data, len, mode, err);
    if (rc == 0 && rename(tmp, path) < 0)
        rc = err_sys(err, "cannot rename %s to %s", tmp, path);
    if (rc == 0)
        rc = sync_parent(path, err);
    else
        unlink(tmp); /* best effort: the first failure is the one to tell */
    free(tmp);
    return rc;
}

static int remove_children(int dirfd, dev_t dev, const char *name, struct err *err);

/* Removes one entry of a folder, whatever it is, without following links or leaving the file system. */
static int remove_entry(int dirfd, dev_t dev, const char *name, struct err *err)
{
    struct stat st;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : err_sys(err, "cannot look at %s", name);
    if (!S_ISDIR(st.st_mode)) {
        if (unlinkat(dirfd, name, 0) < 0 && errno != ENOENT)
            return err_sys(err, "cannot remove %s", name);
        return 0;
    }
    if (st.st_dev != dev)
        return err_set(err, "%s is a mount point and is left alone; unmount it first", name);
    if (remove_children(dirfd, dev, name, err) < 0)
        return -1;
    if (unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return err_sys(err, "cannot remove the folder %s", name);
    return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): depth is the depth of the folder tree */
static int remove_children(int dirfd, dev_t dev, const char *name, struct err *err)
{
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        int rc = errno == ENOENT ? 0 : err_sys(err, "cannot open the folder %s", name);
        if (fd >= 0)
            close(fd);
        return rc;
    }
    int rc = 0;
    struct dirent *e;
    while (rc == 0 && (e = readdir(dir)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = remove_entry(fd, dev, e->d_name, err);
    closedir(dir);
    return rc;
}

int fs_remove_tree(const char *path, struct err *err)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : err_sys(err, "cannot look at %s", path);
    int rc = remove_entry(AT_FDCWD, st.st_dev, path, err);
    return rc < 0 ? err_prefix(err, "removing %s", path) : 0;
}
