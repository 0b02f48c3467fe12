/* inventory: what this node has. */
#ifndef BELAY_AGENT_INVENTORY_H
#define BELAY_AGENT_INVENTORY_H

#include "common/err.h"
#include "schema/link.h"

/* Fills out with cores and memory (hwloc), GPUs (through the library `nvml`, when it is there), host name and version.
 * slots > 0: that many CPU slots and no GPUs; 0: one slot a GPU, else one a physical core. rack, pod and address are left empty.
 * 0 or -1 with a sentence; link_inventory_clear. */
int inventory_read(struct link_inventory *out, int64_t slots, const char *nvml, struct err *err);

#endif
