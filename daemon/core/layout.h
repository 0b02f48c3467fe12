/* layout: where a node belongs by the cluster file, and in what it differs from it. */
#ifndef BELAY_DAEMON_CORE_LAYOUT_H
#define BELAY_DAEMON_CORE_LAYOUT_H

#include "common/err.h"
#include "schema/cluster.h"
#include "schema/link.h"

struct core;

struct layout_finding {
    const char *kind; /* of the event: node_mismatch or node_unlisted; NULL = nothing to tell */
    struct err
        text; /* behind the node's name: "differs from the cluster file: 4 slots instead of 8"; "" when nothing */
};

/* Puts the pod, rack and NVLink domain that the file has for the node into its inventory (a node that the file does not list keeps what its
 * agent says), and finds in what the two differ: slots, kind and type of devices, less memory or fewer cores than the file says, and
 * another place. A type of GPU is compared when its name looks like one (H100, A100, GB200 …); of memory a twentieth may be missing, which
 * firmware and kernel keep. played: another machine stands in for the node, so of devices, cores and memory only the number of slots is
 * compared. */
void layout_apply(const struct cluster_spec *cluster, bool played, const char *node,
                  struct link_inventory *inventory, struct layout_finding *out);

/* The cluster file of this core, or NULL. */
const struct cluster_spec *layout_cluster(const struct core *core);

#endif
