/* view: records as the JSON objects of docs/protocols.md section 5. Keys are a contract: scripts read them.
 *
 * Each returns a new reference. Absent values are null; times are UTC ISO 8601 with milliseconds. */
#ifndef BELAY_DAEMON_VIEW_H
#define BELAY_DAEMON_VIEW_H

#include <jansson.h>

#include "daemon/core/core.h"

/* A job object; placement and attempt are those of its newest attempt. */
json_t *view_job(const struct core *core, const struct job_record *job, int64_t now_ms);

/* One element of GET /v1/jobs/ID/attempts. */
json_t *view_attempt(const struct attempt_record *attempt);

/* One element of GET /v1/events. */
json_t *view_event(const struct event_record *event);

/* job: whose checkpoint it is (for the path). */
json_t *view_checkpoint(const struct job_record *job, const struct checkpoint_record *checkpoint);

/* The job's checkpoint directory, absolute; NULL when it has none. Fresh string. */
char *view_checkpoint_directory(const struct job_record *job);

/* Which live jobs hold slots on which node (with their ranks, as spares, or kept for their next attempt), collected once for a whole listing: O(p log p) in placed (job, node) pairs. */
struct view_residents;
struct view_residents *view_residents_collect(const struct core *core);
void view_residents_free(struct view_residents *residents);

/* A node object; residents says which jobs are there. */
json_t *view_node(const struct core *core, const struct node_record *node,
                  const struct view_residents *residents, int64_t now_ms);

/* What the cluster file says of the cluster as a whole, {name, nodes, slots, links}; without a file (NULL) name is null and the links are
 * those that hold then. */
json_t *view_topology(const struct cluster_spec *cluster);

/* UTC milliseconds as a string, 0 as null. */
json_t *view_time(int64_t utc_ms);

#endif
