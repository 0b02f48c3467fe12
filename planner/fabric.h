/* fabric: what collectives get out of a tree of links. Formulas and sources: docs/planning.md, "Links".
 *
 * A ring passes each border of a domain once, so the group's members in the domain share the domain's way out: a ring over 24 members
 * in each of 6 pods needs a 24th of what its members could send. */
#ifndef BELAY_PLANNER_FABRIC_H
#define BELAY_PLANNER_FABRIC_H

#include "planner/device.h"
#include "planner/traffic.h"

struct fabric {
    struct cluster_link links[DOMAIN_COUNT]; /* per device, one direction */
    double devices[DOMAIN_COUNT]; /* in one domain of the level; 0 = there is no such level, or not known */
    const struct plan_device *device; /* for the share of a link that software gets */
};

/* Latencies of cluster_links_default, the device's NVLink and NIC; servers and NVLink domains as the device's maker builds them, at least 16
 * devices in a rack and 3,072 in a pod (arXiv 2407.21783, section 3.3.1). */
void fabric_default(const struct plan_device *device, struct fabric *out);

/* The smallest domain that holds a whole group of each axis when ranks follow the topology, TP fastest, then CP, PP and DP. Replicas that
 * share experts come before PP. */
void fabric_levels(const struct job_spec *spec, const double devices[DOMAIN_COUNT],
                   enum job_domain level[AXIS_COUNT]);

/* Members of one group of the axis in one domain of the level, with so many devices in it, when ranks follow the topology: 1 to the size of
 * the group. They share the domain's way out, which a ring goes once. */
double fabric_members(const struct job_spec *spec, enum axis axis, double devices);

/* Bytes/s that a rank of a ring of the axis gets, each way, and the latency of one message at its level. */
struct cluster_link fabric_ring(const struct fabric *f, const struct job_spec *spec, enum axis axis,
                                enum job_domain level);
/* The same for traffic between pairs, each of which needs a link of its own (PP, all-to-all). */
struct cluster_link fabric_pairs(const struct fabric *f, enum job_domain level);

/* Bytes that n ranks send in all to add up `bytes` that each has: in a ring, 2(n-1) x bytes, and when each sends its own to
 * every other, n(n-1) x bytes. */
double fabric_ring_bytes(int64_t n, double bytes);
double fabric_naive_bytes(int64_t n, double bytes);
/* Seconds of a ring all-reduce: 2(n-1)/n x bytes / bandwidth, so about twice the time of sending the data once, however many ranks. */
double fabric_ring_seconds(int64_t n, double bytes, double bytes_per_s);

#endif
