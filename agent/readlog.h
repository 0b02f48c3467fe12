/* readlog: reads a rank's log over its segments. */
#ifndef BELAY_AGENT_READLOG_H
#define BELAY_AGENT_READLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define READLOG_MAX (1u << 20) /* bytes in one answer */

struct readlog {
    int64_t offset, next, size; /* where data starts, where to go on, bytes ever written */
    char *data;                 /* next - offset bytes */
    bool missing;               /* the rank has no log here (yet) */
};

/* Reads at most `limit` bytes (1 to READLOG_MAX) of rank's log in folder (…/logs/JOB/ATTEMPT) from `offset`; offset -1 = the last
 * `limit` bytes. Data ends early at a hole left by rotation; a read that would start in one starts after it.
 * A log that is not there gives 0 with missing set and no data. 0 or -1 with a sentence; readlog_clear. */
int readlog_read(const char *folder, int64_t rank, int64_t offset, size_t limit, struct readlog *out,
                 struct err *err);
void readlog_clear(struct readlog *r);

#endif
