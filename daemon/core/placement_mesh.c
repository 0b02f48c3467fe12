/* placement_mesh: see placement_mesh.h. */
#include "daemon/core/placement_mesh.h"

#include "planner/fabric.h"

#define BIT(axis) (1u << (axis))

static void add(struct mesh *m, int64_t size, int64_t stride, unsigned axes)
{
    if (size <= 1)
        return;
    m->dim[m->n++] = (struct mesh_dim){size, stride, axes};
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

void mesh_of(const struct job_spec *spec, const struct traffic *traffic, struct mesh *out)
{
    *out = (struct mesh){.ranks = spec->ranks, .traffic = traffic};
    int64_t ep = spec->ep > 1 ? spec->ep : 1;
    int64_t cp_stride = spec->tp, pp_stride = spec->tp * spec->cp, dp_stride = pp_stride * spec->pp;
    bool in_cp = spec->cp % ep == 0;
    int64_t inner = in_cp ? 1 : ep / gcd(ep, spec->cp); /* of DP, in a group of EP */
    unsigned both = BIT(AXIS_CP) | BIT(AXIS_DP);
    add(out, spec->tp, 1, BIT(AXIS_TP));
    if (in_cp) {
        add(out, ep, cp_stride, both | BIT(AXIS_EP));
        add(out, spec->cp / ep, cp_stride * ep, both);
    } else {
        add(out, spec->cp, cp_stride, both | BIT(AXIS_EP));
    }
    add(out, spec->pp, pp_stride, BIT(AXIS_PP));
    add(out, inner, dp_stride, BIT(AXIS_DP) | BIT(AXIS_EP));
    add(out, spec->dp / inner, dp_stride * inner, BIT(AXIS_DP));
}

const struct job_border *mesh_border(const struct job_spec *spec, enum axis axis)
{
    switch (axis) {
    case AXIS_TP:
        return &spec->placement.tp;
    case AXIS_CP:
        return &spec->placement.cp;
    case AXIS_EP:
        return &spec->placement.ep;
    case AXIS_PP:
        return &spec->placement.pp;
    case AXIS_DP:
    case AXIS_COUNT:
        break;
    }
    return &spec->placement.dp;
}

void mesh_limits(const struct mesh *mesh, const struct job_spec *spec, const struct placement_view *view,
                 int *limit)
{
    for (int d = 0; d < mesh->n; d++) {
        limit[d] = view->n_levels - 1;
        for (enum axis a = 0; a < AXIS_COUNT; a++) {
            const struct job_border *border = mesh_border(spec, a);
            int level = view->level_of[border->within];
            bool bound = border->required && mesh->traffic->axis[a].size > 1 && mesh->dim[d].axes & BIT(a);
            if (bound && level < limit[d])
                limit[d] = level;
        }
    }
}

int mesh_axis_level(const struct mesh *mesh, enum axis axis, const int *level)
{
    int widest = 0;
    for (int d = 0; d < mesh->n; d++)
        if (mesh->dim[d].axes & BIT(axis) && level[d] > widest)
            widest = level[d];
    return widest;
}

/* Members of a group of a ring that share the way out of a domain below the level. A group that is spread wider than it would have to be
 * is taken to have one in each. */
static double sharing(const struct placement_view *view, const struct job_spec *spec, enum axis axis,
                      int64_t size, int level)
{
    if (axis == AXIS_PP || axis == AXIS_EP)
        return 1;
    for (int k = level - 1; k >= 0; k--) {
        double members = fabric_members(spec, axis, (double)view->level[k].devices);
        if (members < (double)size)
            return members;
    }
    return 1;
}

double mesh_axis_seconds(const struct placement_view *view, const struct job_spec *spec, enum axis axis,
                         const struct axis_traffic *traffic, int level)
{
    double slowest = 0;
    for (int k = 0; k <= level; k++) {
        struct cluster_link way = view->links[view->level[k].kind];
        way.bytes_per_s *= sharing(view, spec, axis, traffic->size, k);
        double s = traffic_seconds(traffic, &way);
        slowest = s > slowest ? s : slowest;
    }
    return slowest;
}
