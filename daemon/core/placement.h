/* placement: which slots the ranks of a job get.
 *
 * Pure function of the free slots and the mesh. Nodes in topology order (pod, rack, name; numbers compare as numbers), TP groups
 * never across nodes, first fit, whole mesh or nothing. */
#ifndef BELAY_DAEMON_CORE_PLACEMENT_H
#define BELAY_DAEMON_CORE_PLACEMENT_H

#include "common/err.h"
#include "daemon/core/records.h"

struct placement_node {
    const char *name, *rack, *pod;
    bool gpu;
    const int64_t *free_slots; /* ascending */
    size_t n_free;
    int64_t slots;               /* all slots it has, also when taken or down: for "never fits" */
    int64_t free_memory, memory; /* bytes: left and in all */
    bool usable;                 /* up, not draining, not avoided */
};

enum placement_result { PLACEMENT_OK, PLACEMENT_WAITS, PLACEMENT_NEVER };

/* Fills ranks[0..spec->ranks-1] (caller's array). On WAITS and NEVER `why` has the sentence. */
enum placement_result placement_find(const struct job_spec *spec, const struct placement_node *nodes,
                                     size_t n_nodes, struct placed_rank *ranks, struct err *why);

/* Compares names with numbers as numbers: node2 < node10. */
int placement_name_compare(const char *a, const char *b);

/* Mesh coordinates of a rank, TP fastest: rank = ((dp*PP + pp)*CP + cp)*TP + tp. */
void placement_coordinates(const struct job_spec *spec, int64_t rank, struct placed_rank *out);

#endif
