/* placement_mesh: the dimensions of a job's mesh as the placement engine sees them. Inside daemon/core only.
 *
 * Atomic dimensions are TP, CP, PP and DP, and with expert parallelism one of CP and DP is split in two, so that a group of EP is a
 * product of whole dimensions: CP = inner (EP) x outer when EP divides CP; else DP = inner x outer with CP x inner the smallest
 * multiple of EP. (Where CP does not divide EP either, groups of EP then count as wider than they are.) Dimensions of size 1
 * are left out. A group of an axis holds the ranks that differ in the axis's dimensions only. */
#ifndef BELAY_DAEMON_CORE_PLACEMENT_MESH_H
#define BELAY_DAEMON_CORE_PLACEMENT_MESH_H

#include "daemon/core/placement_view.h"

enum { MESH_DIMS = 5 };

struct mesh_dim {
    int64_t size, stride; /* ranks between two neighbours along it */
    unsigned axes;        /* bit set of enum axis: whose groups span it */
};

struct mesh {
    int n;
    struct mesh_dim dim[MESH_DIMS];
    int64_t ranks;
    const struct traffic *traffic; /* borrowed */
};

void mesh_of(const struct job_spec *spec, const struct traffic *traffic, struct mesh *out);

const struct job_border *mesh_border(const struct job_spec *spec, enum axis axis);

/* The level that the required borders keep each dimension within: limit[MESH_DIMS]; the last level where there is none. */
void mesh_limits(const struct mesh *mesh, const struct job_spec *spec, const struct placement_view *view,
                 int *limit);

/* Level of an axis when dimension d has level[d]: the widest of its dimensions. */
int mesh_axis_level(const struct mesh *mesh, enum axis axis, const int *level);

/* Seconds per step of an axis whose groups are held by domains of that level: over the slowest link that they cross. A ring (TP, CP, DP)
 * leaves a domain once, so its members there share the way out; pairs (PP, EP) need a link each. */
double mesh_axis_seconds(const struct placement_view *view, const struct job_spec *spec, enum axis axis,
                         const struct axis_traffic *traffic, int level);

#endif
