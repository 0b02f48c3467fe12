/* prepare: what is checked and made before any rank starts, so that a node that cannot run the job refuses it while that
 * still costs nothing. */
#ifndef BELAY_AGENT_SHIM_PREPARE_H
#define BELAY_AGENT_SHIM_PREPARE_H

#include <stdint.h>

#include "agent/shim/identity.h"
#include "common/err.h"
#include "schema/link.h"

struct prepared {
    struct identity who;
    char *scratch;       /* see common/scratch.h; mode 0700, the user's */
    char *job_file;      /* the spec, inside scratch */
    char *notify_socket; /* its path, inside scratch */
    char *memory_socket; /* likewise; NULL when the job has no memory tier */
    char *pmix_dir;      /* inside scratch */
    char *log_dir;
    char *cgroup;        /* or NULL where cgroup v2 cannot be used */
    char **inherited;    /* environment */
    char *program;       /* absolute path of argv[0] */
    int master_fd;       /* bound, not listening; -1 unless this is node 0 */
    int64_t master_port; /* 0 unless this is node 0 */
};

/* Does all of it for the attempt whose directory is given, with the scratch folder by that name. On -1 the sentence says why this node refuses; what was made is
 * removed by prepared_clear either way. */
int prepare(const struct link_order *order, const char *attempt_dir, const char *scratch,
            struct prepared *out, struct err *err);

/* Removes scratch and cgroup and frees everything. Fine on a zeroed or half-filled struct whose master_fd is -1. */
void prepared_clear(struct prepared *p);

/* The port to try as the i-th for MASTER_PORT: 20000..29999, never one that an earlier attempt of this job tried among its
 * first 16 (for the last 600 attempts). */
int64_t prepare_master_port(int64_t job, int64_t attempt, int i);

#endif
