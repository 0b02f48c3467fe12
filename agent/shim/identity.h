/* identity: the user that the ranks run as. */
#ifndef BELAY_AGENT_SHIM_IDENTITY_H
#define BELAY_AGENT_SHIM_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"

struct identity {
    uid_t uid;
    gid_t gid;
    gid_t *groups; /* supplementary */
    size_t n_groups;
    bool change;       /* the shim is root and the job's user is not */
    char *name, *home; /* NULL when the user has no passwd entry */
};

/* Looks the user up. -1 with a sentence when this process may not become that user. */
int identity_init(struct identity *who, long uid, long gid, struct err *err);
void identity_clear(struct identity *who);

/* Becomes the user for good; for use between fork and exec (system calls only). 0, or -1 with errno. */
int identity_assume(const struct identity *who);

#endif
