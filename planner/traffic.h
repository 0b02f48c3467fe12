/* traffic: what a job sends per step over each axis of its mesh, and how long that takes over a link.
 *
 * Pure arithmetic over a job file. It is what the placement engine weighs axes by, and what `belay plan` prints; formulas and
 * their sources are in docs/planning.md. */
#ifndef BELAY_PLANNER_TRAFFIC_H
#define BELAY_PLANNER_TRAFFIC_H

#include "schema/cluster.h"
#include "schema/job.h"

/* The groups of ranks that talk. Coordinates as in rank = ((dp*PP + pp)*CP + cp)*TP + tp; a group holds the ranks that differ only in:
 * TP: tp. CP: cp. PP: pp (a chain). DP: dp and cp (gradients are reduced over both). EP: dp*CP + cp within its EP-sized block. */
enum axis { AXIS_TP, AXIS_CP, AXIS_EP, AXIS_PP, AXIS_DP, AXIS_COUNT };

const char *axis_name(enum axis axis); /* "TP" … */

struct axis_traffic {
    int64_t size;    /* ranks in a group; 1 = the axis sends nothing */
    double bytes;    /* that one rank sends per step, ring algorithms */
    double messages; /* one after the other per step: each costs a latency */
};

struct traffic {
    struct axis_traffic axis[AXIS_COUNT];
};

/* For run: jobs, whose model nobody knows, the traffic of a nominal transformer, so that axes keep their usual order
 * (TP > CP > EP > DP > PP per step and rank). */
void traffic_of(const struct job_spec *spec, struct traffic *out);

/* Scatters of all gradients and gathers of all parameters between replicas in a step, by the ZeRO stage of a training job. */
double traffic_replica_rounds(const struct job_spec *spec);

/* Seconds per step that an axis takes over such a link: bytes / bandwidth + messages * latency; 0 for groups of one. */
double traffic_seconds(const struct axis_traffic *traffic, const struct cluster_link *link);

/* The number of the group of that axis that the rank is in, from 0, and how many groups there are. */
int64_t axis_group(const struct job_spec *spec, enum axis axis, int64_t rank);
int64_t axis_groups(const struct job_spec *spec, enum axis axis);

#endif
