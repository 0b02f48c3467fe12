/* plancluster: see plancluster.h. Nodes of a cluster spec are in topology order, so the nodes of one part are neighbours. */
#include "launcher/plancluster.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "launcher/jobfile.h"

int plancluster_load(const char *path, struct cluster_spec **out)
{
    struct job_diagnostics *d = mem_zero(1, sizeof *d);
    int rc = CLI_DONE;
    if (cluster_spec_load(path, out, d) != 0) {
        jobfile_print_diagnostics(d);
        rc = CLI_USAGE;
    }
    free(d);
    return rc;
}

static const char *first_type(const struct cluster_spec *cluster, bool gpu)
{
    for (size_t i = 0; i < cluster->n_nodes; i++)
        if (cluster->nodes[i].device[0] && cluster->nodes[i].gpu == gpu)
            return cluster->nodes[i].device;
    return "";
}

const char *plancluster_device(const struct cluster_spec *cluster, enum job_device kind)
{
    const char *gpu = kind == DEVICE_CPU ? "" : first_type(cluster, true);
    return gpu[0] || kind == DEVICE_GPU ? gpu : first_type(cluster, false);
}

int plancluster_check(const struct cluster_spec *cluster, const char *path, const struct plan_device *device)
{
    struct err ignored;
    for (size_t i = 0; i < cluster->n_nodes; i++) {
        const struct plan_device *has = plan_device_find(cluster->nodes[i].device, &ignored);
        if (!has || has == device)
            return CLI_DONE;
    }
    return cli_fail(
        CLI_USAGE,
        "plan: %s has no %s: its first devices are %s; leave --gpu away, or change devices.type there", path,
        device->name, plancluster_device(cluster, DEVICE_AUTO));
}

static bool same_part(const struct cluster_node *a, const struct cluster_node *b, enum job_domain level)
{
    bool pod = strcmp(a->pod, b->pod) == 0, rack = pod && strcmp(a->rack, b->rack) == 0;
    switch (level) {
    case DOMAIN_NVLINK:
        return rack && a->nvlink[0] && strcmp(a->nvlink, b->nvlink) == 0;
    case DOMAIN_RACK:
        return rack;
    case DOMAIN_POD:
        return pod;
    case DOMAIN_CLUSTER:
        return true;
    case DOMAIN_NODE:
    case DOMAIN_COUNT:
        break;
    }
    return false;
}

static double largest_part(const struct cluster_spec *cluster, enum job_domain level)
{
    int64_t most = 0, devices = 0;
    for (size_t i = 0; i < cluster->n_nodes; i++) {
        const struct cluster_node *n = &cluster->nodes[i];
        devices = i > 0 && same_part(n - 1, n, level) ? devices + n->slots : n->slots;
        most = devices > most ? devices : most;
    }
    return (double)most;
}

void plancluster_apply(const struct cluster_spec *cluster, struct plan_request *request)
{
    for (enum job_domain level = 0; level < DOMAIN_COUNT; level++) {
        request->links[level] = cluster->links[level];
        request->devices[level] = largest_part(cluster, level);
    }
    plan_level_default(request->spec, request->devices, request->level);
}
