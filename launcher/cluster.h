/* cluster: what `belay up` was asked for (cluster.json) and the paths of a cluster on this host.
 *
 * A node keeps its name and rack for ever; more nodes and more racks may be added, nothing may shrink or change. With a cluster file the nodes
 * are the first of that file, in topology order, with its names and slots; belayd knows their places from the same file. */
#ifndef BELAY_LAUNCHER_CLUSTER_H
#define BELAY_LAUNCHER_CLUSTER_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "schema/cluster.h"

#define UP_NODES_MAX      1024 /* each is a process with a heartbeat on this one host */
#define UP_FILE_NODES_MAX 64   /* of a cluster file: playing one is for looking, not for load */
#define UP_SLOTS_MAX      1024 /* LINK_RANKS_PER_NODE_MAX */

struct cluster {
    int64_t nodes; /* 0 = not recorded yet */
    int64_t slots; /* per node; 0 = what the machine has */
    int64_t racks;
    int64_t *rack; /* of each node */
    char *
        file; /* absolute path of the cluster file, or NULL: then nodes are node0, node1 … with `slots` each */
    char **name; /* with a file: of each node */
    int64_t *node_slots;
};

/* Reads DIR/cluster.json; all zero when there is none. 0, or -1 when it cannot be read. Clear in both cases. */
int cluster_read(const char *dir, struct cluster *out, struct err *err);
int cluster_write(const char *dir, const struct cluster *c, struct err *err);
void cluster_clear(struct cluster *c);

/* Brings the record to what is asked now; 0 means "not said" in each number. First time: 1 node, 1 rack, and with more
 * than one node the cores shared out. New nodes go in contiguous blocks to the new racks, or to all when there are none.
 * -1 with a sentence when something would shrink or change. cores: of this machine. */
int cluster_ask(struct cluster *c, int64_t nodes, int64_t slots, int64_t racks, int64_t cores,
                struct err *err);

/* The same for the first `nodes` nodes of a file (0 = as many as now, at first all). -1 when it lists too few, too many to be played here,
 * or no longer the nodes that are there. */
int cluster_ask_file(struct cluster *c, const struct cluster_spec *spec, const char *path, int64_t nodes,
                     struct err *err);

/* "node3", or its name in the file; fresh. */
char *cluster_node_name(const struct cluster *c, int64_t node);
int64_t cluster_node_slots(const struct cluster *c, int64_t node);

/* "DIR/agents/NAME"; fresh. */
char *cluster_agent_dir(const char *dir, const char *name);

/* Takes DIR/cluster.lock so that one `up` or `down` works at a time (waits up to 30 s for another). An fd, or -1. */
int cluster_lock(const char *dir, struct err *err);

#endif
