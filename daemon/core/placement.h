/* placement: which slots the ranks of a job get. Pure functions of the free slots, the links and the job (docs/placement.md).
 *
 * A view is what is free at one moment. Everything is decided on it, so that one round over many jobs costs one view. Nothing
 * depends on the order in which nodes were given. */
#ifndef BELAY_DAEMON_CORE_PLACEMENT_H
#define BELAY_DAEMON_CORE_PLACEMENT_H

#include "common/err.h"
#include "daemon/core/records.h"
#include "planner/traffic.h"
#include "schema/cluster.h"

struct placement_node {
    const char *name, *rack, *pod;
    const char *nvlink; /* its NVLink domain when that is wider than the node, else "" or NULL */
    bool gpu;
    const int64_t *free_slots; /* ascending; with those that the job to be repaired keeps left out */
    size_t n_free;
    int64_t slots;               /* all slots it has, also when taken or down: for "never fits" */
    int64_t free_memory, memory; /* bytes: left and in all; memory 0 = not known, no limit */
    bool usable;                 /* up, not draining */
};

struct placement_view;

/* nodes in any order; names and slots are borrowed and must outlive the view. links by the smallest domain that holds both ends. */
struct placement_view *placement_view_new(const struct placement_node *nodes, size_t n_nodes,
                                          const struct cluster_link links[DOMAIN_COUNT]);
void placement_view_free(struct placement_view *view); /* takes NULL */

/* These slots are taken from now on (or given back); memory: bytes per rank. */
void placement_view_take(struct placement_view *view, const struct placed_rank *ranks, size_t n,
                         int64_t memory);
void placement_view_give(struct placement_view *view, const struct placed_rank *ranks, size_t n,
                         int64_t memory);
/* Shuts a node out for the next calls (a job avoids it), or lets it in again. Unknown names are ignored. */
void placement_view_usable(struct placement_view *view, const char *node, bool usable);

enum placement_result {
    PLACEMENT_OK,
    PLACEMENT_NEVER,    /* not even in this cluster when empty, all nodes up */
    PLACEMENT_CAPACITY, /* waits: fewer free slots (in whole groups of a node) than it needs */
    PLACEMENT_FRAGMENTED, /* waits: enough free slots, but no domain that a required border asks for has them together */
};

/* What a placement costs, by the objective of the engine: seconds of communication per step, each axis over the slowest link that
 * any of its groups crosses, added up; and the bytes per step that cross the top level in use by the cluster (between pods; between
 * racks where there is one pod). */
struct placement_cost {
    double seconds, axis_seconds[AXIS_COUNT];
    enum job_domain level[AXIS_COUNT]; /* smallest kind of domain that holds every group of the axis */
    double top_bytes;
    int64_t soft_misses; /* preferred borders that are not met */
};
void placement_cost(const struct placement_view *view, const struct job_spec *spec,
                    const struct placed_rank *ranks, struct placement_cost *out);

/* A new placement. Fills ranks[0..spec->ranks-1] (caller's array) with the cheapest that there is, of equals the one that leaves the
 * largest whole domains free. On any other result than OK `why` has the sentence; it holds no counts of what is free now, so it
 * does not change with every slot. */
enum placement_result placement_find(const struct placement_view *view, const struct job_spec *spec,
                                     struct placed_rank *ranks, struct err *why);

/* Spares for a job that was just placed on `ranks` (already taken from the view): up to `wanted` whole seats, each on one node, with as
 * many slots as the job's fullest node, in the pods of the job, nearest first; fewer when there are not so many. Fresh array
 * of *n slots (rank -1, coordinates 0; those of one seat stand together); the caller frees it. The view is not changed. */
struct placed_rank *placement_spares(const struct placement_view *view, const struct job_spec *spec,
                                     const struct placed_rank *ranks, int64_t wanted, size_t *n);

/* How many nodes the ranks are on. */
size_t placement_nodes(const struct placed_rank *ranks, size_t n);

/* As placement_find, but keeps every rank of `old` (world entries) whose node is usable and whose slot is free in the view where it is, and moves
 * only the others: onto the job's spares (as far as they are free in the view) first, else to the cheapest free slots. So give the view
 * back what the job holds before.
 * Fails (any other result, nothing else done) when the moved ranks fit nowhere within required borders: then place anew. */
enum placement_result placement_repair(const struct placement_view *view, const struct job_spec *spec,
                                       const struct placed_rank *old, const struct placed_rank *spares,
                                       size_t n_spares, struct placed_rank *ranks, struct err *why);

/* For explanations: ranks of the job (in whole groups, up to spec->ranks) that would fit by required borders. */
enum placement_extent { EXTENT_FREE, EXTENT_USABLE, EXTENT_ALL };
struct placement_room {
    int64_t slots; /* of the kinds of device that it may use */
    int64_t ranks; /* of it that fit, in whole node groups, borders wider than a node ignored */
    int64_t fits;  /* and with all required borders: whole outermost groups, in ranks */
};
void placement_room(const struct placement_view *view, const struct job_spec *spec,
                    enum placement_extent extent, struct placement_room *out);

/* Nodes to keep as spares so that with 99 % probability the failures of a repair time are covered: the smallest k with
 * P(Binomial(nodes, 1 - exp(-rate*repair)) <= k) >= 0.99. rate per node and day, repair in days. */
int64_t placement_spares_auto(int64_t nodes, double failures_per_node_day, double repair_days);

/* Mesh coordinates of a rank, TP fastest: rank = ((dp*PP + pp)*CP + cp)*TP + tp. */
void placement_coordinates(const struct job_spec *spec, int64_t rank, struct placed_rank *out);

#endif
