/* directory: the keys under which a job is unique: its checkpoint directory and its submit key. */
#ifndef BELAY_DAEMON_CORE_DIRECTORY_H
#define BELAY_DAEMON_CORE_DIRECTORY_H

#include <stdint.h>

/* cwd/directory without "//", "." and ".." (by text alone: no file system is asked). Fresh string; NULL when directory is NULL. */
char *directory_absolute(const char *cwd, const char *directory);

/* The key of a submit, apart for each user. Fresh string. */
char *submit_key(int64_t uid, const char *key);

#endif
