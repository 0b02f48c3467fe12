/* cluster: the cluster file (docs/cluster-file.md): pods, racks, NVLink domains, nodes and links, as belayd, `belay plan` and
 * `belay sim` read it.
 *
 * A cluster is a tree: cluster → pods → racks → NVLink domains → nodes → devices (slots). A link of a level is what two devices that
 * have this level as their smallest common part talk over: its bandwidth is per device and direction. */
#ifndef BELAY_SCHEMA_CLUSTER_H
#define BELAY_SCHEMA_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/job.h"
#include "schema/link.h"

#define CLUSTER_NODES_MAX 65536
#define CLUSTER_NAME_MAX  63 /* of a pod, rack, NVLink domain or device type */

struct cluster_link {
    double bytes_per_s; /* per device, one direction */
    double latency_s;   /* of one message */
};

struct cluster_node {
    char name[LINK_NODE_NAME_MAX + 1];
    char pod[CLUSTER_NAME_MAX + 1], rack[CLUSTER_NAME_MAX + 1];
    char nvlink
        [CLUSTER_NAME_MAX +
         1]; /* its NVLink domain when that is wider than the node, unique in its rack; "" = the node is its own */
    char device[CLUSTER_NAME_MAX +
                1]; /* type of its devices, a name of planner/device.h, e.g. h100; "" = not said */
    bool gpu;       /* its slots are GPUs */
    int64_t slots, cores, memory; /* memory in bytes; cores and memory 0 = not said, not checked */
    int64_t taken;                /* slots 0..taken-1 are in use (only in what-if files for plan; else 0) */
    bool drained;                 /* counts as drained (what-if) */
};

struct cluster_spec {
    char name[CLUSTER_NAME_MAX + 1];
    struct cluster_link
        links[DOMAIN_COUNT]; /* by the smallest part that holds both ends: DOMAIN_NODE = within a node */
    struct cluster_link pcie, device_memory; /* of one device */
    struct cluster_node *nodes;              /* in topology order (cluster_topology_compare) */
    size_t n_nodes;
    struct cluster_index
        *index; /* of cluster_find; the reader makes it, in a spec made otherwise it may be NULL */
};

/* Reads and checks a cluster file; as job_spec_parse and job_spec_load. */
int cluster_spec_parse(const char *text, size_t len, const char *file, struct cluster_spec **out,
                       struct job_diagnostics *diagnostics);
int cluster_spec_load(const char *path, struct cluster_spec **out, struct job_diagnostics *diagnostics);
void cluster_spec_free(struct cluster_spec *spec);

/* A spec without nodes that has the default links. */
struct cluster_spec *cluster_spec_new(const char *name);
/* Sorts the nodes of a spec that was filled otherwise into topology order, and makes the index. Their names must be unique. */
void cluster_spec_finish(struct cluster_spec *spec);

/* The links that hold when no file says otherwise (docs/cluster-file.md has the table with its sources). */
void cluster_links_default(struct cluster_link links[DOMAIN_COUNT]);

/* The node of that name, or NULL. O(1) by hash; one after the other in a spec without index. */
const struct cluster_node *cluster_find(const struct cluster_spec *spec, const char *name);

/* Compares names with numbers as numbers: node2 < node10, and node01 and node1 are two names. */
int cluster_name_compare(const char *a, const char *b);

/* By pod, rack, NVLink domain and name, each by cluster_name_compare. */
int cluster_topology_compare(const struct cluster_node *a, const struct cluster_node *b);

#endif
