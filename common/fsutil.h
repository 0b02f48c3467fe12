/* fsutil: files and folders, each with a sentence on failure. */
#ifndef BELAY_COMMON_FSUTIL_H
#define BELAY_COMMON_FSUTIL_H

#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"

/* mkdir -p with mode for the folders it makes. 0 or -1. */
int fs_mkdirs(const char *path, mode_t mode, struct err *err);

/* Reads a whole file of at most `limit` bytes into a fresh NUL-terminated buffer. *len (may be NULL) excludes the NUL.
 * NULL when missing, too large or unreadable. */
char *fs_read(const char *path, size_t limit, size_t *len, struct err *err);

/* Writes path.tmp.<pid>, fsyncs, renames over path, fsyncs the folder: after return the content survives a crash. */
int fs_write_durable(const char *path, const void *data, size_t len, mode_t mode, struct err *err);

/* fsyncs a directory. */
int fs_sync_dir(const char *path, struct err *err);

/* rm -rf that does not follow links or cross into mounts; a missing path is fine. */
int fs_remove_tree(const char *path, struct err *err);

/* Writes all of buf to fd, going on after EINTR and short writes. 0 or -1 with errno. */
int fs_write_all(int fd, const void *buf, size_t len);

#endif
