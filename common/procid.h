/* procid: a process known for sure: pid + start time + boot id, never the pid alone. */
#ifndef BELAY_COMMON_PROCID_H
#define BELAY_COMMON_PROCID_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct procid {
    pid_t pid;
    uint64_t start; /* field 22 of /proc/PID/stat, clock ticks since boot */
    char boot[40];  /* /proc/sys/kernel/random/boot_id */
};

/* Fills id for a living process (pid 0 = myself). -1 when there is none. */
int procid_of(pid_t pid, struct procid *id);

/* Is exactly this process alive? A zombie counts as dead. */
bool procid_alive(const struct procid *id);

/* Sends a signal to exactly this process (through a pidfd, checked after opening). 0, or -1 when it is gone. */
int procid_kill(const struct procid *id, int sig);

/* {"pid":..,"start":..,"boot":..}: a new reference, and back (-1 when the object is not one). */
json_t *procid_to_json(const struct procid *id);
int procid_from_json(const json_t *obj, struct procid *id);

/* Reads/writes a pid file holding that object. */
int procid_read_file(const char *path, struct procid *id, struct err *err);
int procid_write_file(const char *path, const struct procid *id, struct err *err);

#endif
