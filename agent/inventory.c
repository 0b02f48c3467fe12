/* inventory: hwloc for the processor and memory (it also honours HWLOC_SYNTHETIC, which the tests use), gpus.c for the GPUs. */
#include "agent/inventory.h"

#include <hwloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/gpus.h"

static int64_t count(hwloc_topology_t t, hwloc_obj_type_t type)
{
    int n = hwloc_get_nbobjs_by_type(t, type);
    return n > 0 ? n : 0;
}

static int read_machine(struct link_inventory *out, struct err *err)
{
    hwloc_topology_t t;
    if (hwloc_topology_init(&t) < 0)
        return err_set(err, "hwloc cannot be started, so the node's cores are unknown");
    int rc = hwloc_topology_load(t);
    if (rc == 0) {
        int64_t cores = count(t, HWLOC_OBJ_CORE), threads = count(t, HWLOC_OBJ_PU);
        out->cores = cores > 0 ? cores : threads > 0 ? threads : 1;
        out->memory = (int64_t)hwloc_get_root_obj(t)->total_memory;
    }
    hwloc_topology_destroy(t);
    return rc == 0 ? 0
                   : err_set(err,
                             "hwloc cannot read this machine's topology; check HWLOC_* variables and lstopo");
}

static int64_t at_most(int64_t n, int64_t max)
{
    return n < max ? n : max;
}

int inventory_read(struct link_inventory *out, int64_t slots, const char *nvml, struct err *err)
{
    memset(out, 0, sizeof *out);
    if (read_machine(out, err) < 0)
        return -1;
    if (gethostname(out->hostname, sizeof out->hostname - 1) < 0)
        snprintf(out->hostname, sizeof out->hostname, "unknown");
    snprintf(out->version, sizeof out->version, "%s", BELAY_VERSION);
    if (slots == 0)
        gpus_read(nvml, &out->gpus, &out->n_gpus);
    out->gpu = out->n_gpus > 0;
    out->slots = slots > 0 ? slots : out->gpu ? (int64_t)out->n_gpus : out->cores;
    out->slots = at_most(out->slots, LINK_RANKS_PER_NODE_MAX);
    return 0;
}
