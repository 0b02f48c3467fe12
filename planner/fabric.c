/* fabric: see fabric.h. */
#include "planner/fabric.h"

#include <math.h>

#define DEVICES_PER_RACK 16
#define DEVICES_PER_POD  3072

static bool in_node(enum job_domain level)
{
    return level == DOMAIN_NODE || level == DOMAIN_NVLINK;
}

void fabric_default(const struct plan_device *device, struct fabric *out)
{
    int rack = device->per_nvlink > DEVICES_PER_RACK ? device->per_nvlink : DEVICES_PER_RACK;
    *out = (struct fabric){.devices = {[DOMAIN_NODE] = device->per_node,
                                       [DOMAIN_NVLINK] = device->per_nvlink,
                                       [DOMAIN_RACK] = rack,
                                       [DOMAIN_POD] = DEVICES_PER_POD},
                           .device = device};
    cluster_links_default(out->links);
    for (enum job_domain level = 0; level < DOMAIN_COUNT; level++)
        out->links[level].bytes_per_s = in_node(level) ? device->nvlink : device->network;
}

/* Replicas that share experts, where CP alone does not hold them all. They exchange far more than the ranks of a pipeline, so they stand
 * together within each of these, as placement puts them. */
static double sharing(const struct job_spec *spec)
{
    return spec->ep <= spec->cp ? 1 : ceil((double)spec->ep / (double)spec->cp);
}

/* Ranks from the first to the last of a group, when ranks are placed TP fastest, then CP, replicas that share experts, PP and DP. */
static double span_of(const struct job_spec *spec, enum axis axis)
{
    double inner = (double)spec->tp, stage = inner * (double)spec->cp * sharing(spec);
    switch (axis) {
    case AXIS_TP:
        return inner;
    case AXIS_CP:
        return inner * (double)spec->cp;
    case AXIS_PP:
        return stage * (double)spec->pp;
    case AXIS_EP:
        return spec->ep <= spec->cp ? inner * (double)spec->ep : stage;
    case AXIS_DP:
    case AXIS_COUNT:
        break;
    }
    return (double)spec->ranks;
}

void fabric_levels(const struct job_spec *spec, const double devices[DOMAIN_COUNT],
                   enum job_domain level[AXIS_COUNT])
{
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
        level[axis] = DOMAIN_NODE;
        while (level[axis] < DOMAIN_CLUSTER && span_of(spec, axis) > devices[level[axis]])
            level[axis]++;
    }
}

static double share(const struct fabric *f, enum job_domain level)
{
    return in_node(level) ? f->device->nvlink_share : f->device->network_share;
}

static double group_size(const struct job_spec *spec, enum axis axis)
{
    int64_t size = spec->ranks / axis_groups(spec, axis);
    return (double)size;
}

/* Members of DP within so many devices: those of one stage next to each other, then those of the next replicas. */
static double replicas_inside(const struct job_spec *spec, double devices)
{
    double inner = (double)spec->tp, members = (double)spec->cp * sharing(spec);
    double wholes = floor(devices / (inner * members * (double)spec->pp));
    return wholes >= 1 ? members * wholes : fmin(members, floor(devices / inner));
}

double fabric_members(const struct job_spec *spec, enum axis axis, double devices)
{
    double size = group_size(spec, axis);
    double stride = span_of(spec, axis) / size;
    double inside = floor(devices / (stride > 1 ? stride : 1));
    if (axis == AXIS_DP && sharing(spec) > 1)
        inside = replicas_inside(spec, devices);
    return inside < 1 ? 1 : inside < size ? inside : size;
}

struct cluster_link fabric_pairs(const struct fabric *f, enum job_domain level)
{
    struct cluster_link link = f->links[level];
    link.bytes_per_s *= share(f, level);
    return link;
}

/* A group that is spread wider than it would have to be is taken as one member in each domain. */
struct cluster_link fabric_ring(const struct fabric *f, const struct job_spec *spec, enum axis axis,
                                enum job_domain level)
{
    struct cluster_link ring = fabric_pairs(f, level);
    double inside = 1, size = group_size(spec, axis); /* members that share the way out of the domain below */
    for (enum job_domain l = 0; l <= level; l++) {
        double here = l == level ? size : fabric_members(spec, axis, f->devices[l]);
        double way = f->links[l].bytes_per_s * share(f, l) * inside;
        if (here > inside && (l == level || here < size)) {
            ring.bytes_per_s = inside == 1 || way < ring.bytes_per_s ? way : ring.bytes_per_s;
            inside = here;
        }
    }
    return ring;
}

double fabric_ring_bytes(int64_t n, double bytes)
{
    return 2 * (double)(n - 1) * bytes;
}

double fabric_naive_bytes(int64_t n, double bytes)
{
    return (double)n * (double)(n - 1) * bytes;
}

double fabric_ring_seconds(int64_t n, double bytes, double bytes_per_s)
{
    return fabric_ring_bytes(n, bytes) / (double)n / bytes_per_s;
}
