/* explain: why a job waits, or whether it could start: who blocks it, until when, and what would change that.
 *
 * The same question is put to the placement engine on views that differ: with the slots of other jobs given back in the order of their
 * ends, with every node in service, with a smaller mesh or without a border. Nothing is changed by asking. */
#ifndef BELAY_DAEMON_CORE_EXPLAIN_H
#define BELAY_DAEMON_CORE_EXPLAIN_H

#include "daemon/core/core.h"
#include "schema/cluster.h"
#include "schema/verdict.h"

/* Of a job that is there; *out is to be cleared. -1: there is none of that id, *out is zeroed. */
int explain_job(struct core *core, struct core_time t, int64_t id, struct verdict *out);

/* Of one that might be submitted. places: with where each rank would go, which is long for a large job. */
void explain_spec(struct core *core, struct core_time t, const struct job_spec *spec, bool places,
                  struct verdict *out);

/* Of one in a cluster that is only described: its taken slots are held by nobody who would ever end. */
void explain_cluster(const struct cluster_spec *cluster, const struct job_spec *spec, bool places,
                     struct verdict *out);

#endif
