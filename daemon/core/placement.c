/* placement: the public face of the engine (docs/placement.md). The parts: placement_view (what is free), placement_mesh (dimensions
 * and borders), placement_search (the cheapest levels), placement_pack and placement_choose (which domains), placement_cost (what an
 * assignment costs), placement_repair, placement_spares, placement_explain. */
#include "daemon/core/placement.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "daemon/core/placement_explain.h"
#include "daemon/core/placement_pack.h"
#include "daemon/core/placement_private.h"

static bool try_kind(const struct placement_view *view, const struct job_spec *spec, const struct mesh *mesh,
                     enum view_kind kind, struct placed_rank *ranks)
{
    struct search_plan plan;
    int64_t *caps = mem_zero(view->n_nodes, sizeof(*caps));
    bool fits = view_capacities(view, kind, spec->memory, EXTENT_FREE, caps) >= spec->ranks &&
                search_levels(view, spec, mesh, caps, &plan);
    if (fits)
        pack_plan(view, spec, mesh, &plan, kind, caps, ranks);
    free(caps);
    return fits;
}

enum placement_result placement_find_with(const struct placement_view *view, const struct job_spec *spec,
                                          const struct traffic *traffic, struct placed_rank *ranks,
                                          struct err *why)
{
    struct mesh mesh;
    enum view_kind kinds[2];
    int n = view_kinds(spec, kinds);
    mesh_of(spec, traffic, &mesh);
    for (int i = 0; i < n; i++)
        if (view->n_nodes > 0 && try_kind(view, spec, &mesh, kinds[i], ranks))
            return PLACEMENT_OK;
    return explain_misfit(view, spec, &mesh, why);
}

enum placement_result placement_find(const struct placement_view *view, const struct job_spec *spec,
                                     struct placed_rank *ranks, struct err *why)
{
    struct traffic traffic;
    traffic_of(spec, &traffic);
    return placement_find_with(view, spec, &traffic, ranks, why);
}

static int by_node_name(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

/* Ranks of a node mostly follow each other, so few names are left to sort. */
size_t placement_nodes(const struct placed_rank *ranks, size_t n)
{
    size_t n_names = 0, nodes = 0;
    const char **names = mem_zero(n, sizeof(*names));
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(ranks[i - 1].node, ranks[i].node) != 0)
            names[n_names++] = ranks[i].node;
    qsort(names, n_names, sizeof(*names), by_node_name);
    for (size_t i = 0; i < n_names; i++)
        nodes += i == 0 || strcmp(names[i - 1], names[i]) != 0;
    free(names);
    return nodes;
}

void placement_coordinates(const struct job_spec *spec, int64_t rank, struct placed_rank *out)
{
    out->rank = rank;
    out->tp = rank % spec->tp;
    rank /= spec->tp;
    out->cp = rank % spec->cp;
    rank /= spec->cp;
    out->pp = rank % spec->pp;
    out->dp = rank / spec->pp;
}
