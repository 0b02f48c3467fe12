/* pmix_job: the whole job, every node and rank of it, in the keys that PMIx and Open MPI ask for. */
#ifndef BELAY_AGENT_SHIM_PMIX_JOB_H
#define BELAY_AGENT_SHIM_PMIX_JOB_H

#include "schema/link.h"

/* From the map of a go order. dir is where Open MPI may put its files. Returns a PMIx info list, to be converted and released
 * by the caller. */
void *pmix_job_describe(const struct link_order *order, const char *nspace, const char *dir);

#endif
