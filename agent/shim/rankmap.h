/* rankmap: which rank is on which node, from the map of a go order. */
#ifndef BELAY_AGENT_SHIM_RANKMAP_H
#define BELAY_AGENT_SHIM_RANKMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "schema/link.h"

struct rankmap {
    int64_t world, nodes;
    int32_t *node_of; /* (world) node_rank of each rank */
    int32_t *local;   /* (world) its index among the ranks of that node */
};

/* Checks the map against the order: one entry a node, each rank exactly once, this node's ranks as in order->ranks.
 * 0, or -1 with a sentence. */
int rankmap_build(const struct link_order *order, struct rankmap *out, struct err *err);
void rankmap_clear(struct rankmap *m);

/* -1 when there is no such rank. */
int64_t rankmap_node(const struct rankmap *m, int64_t rank);

/* Do all nodes of the order's map have loopback addresses (a pretend cluster on one host)? */
bool rankmap_all_loopback(const struct link_order *order);
bool rankmap_is_loopback(const char *addr);

#endif
