/* cluster_read: from the tree of a cluster file to its spec. Used inside schema/, also for a cluster that stands within another file. */
#ifndef BELAY_SCHEMA_CLUSTER_READ_H
#define BELAY_SCHEMA_CLUSTER_READ_H

#include "schema/cluster.h"
#include "schema/diag.h"
#include "schema/tree.h"

/* What the tree says, checked and in topology order (cluster_spec_free), or NULL when anything was added to d: each field that is
 * unknown, wrong or missing, with its place. */
struct cluster_spec *cluster_read_tree(const struct tree_node *root, struct diag *d);

#endif
