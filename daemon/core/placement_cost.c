/* placement_cost: see placement_cost.h. It knows nothing of levels and blocks: it groups the ranks by axis_group, and the domain of a
 * group is the smallest one that holds each two that follow each other in it.
 *
 * Bytes over the top: a ring goes through its group by rank and back to the first (a pipeline does not go back, unless stages are
 * interleaved), and every rank sends the axis's bytes to the next. Experts: to all others in equal parts. */
#include "daemon/core/placement_cost.h"

#include <stdlib.h>

#include "common/mem.h"
#include "daemon/core/placement_mesh.h"

struct walk {
    const struct placement_view *view;
    const struct job_spec *spec;
    const int32_t *node_of;
    enum axis axis;
    int top;               /* level whose borders count for bytes; -1 = one node is all */
    int32_t *first, *last; /* nodes of the group's first and latest rank, -1 = none yet */
    int level;
    int64_t crossings;
};

static void join(struct walk *w, int32_t a, int32_t b)
{
    int level = view_common(w->view, (size_t)a, (size_t)b);
    w->level = level > w->level ? level : w->level;
    w->crossings += w->top >= 0 && level > w->top;
}

static void walk_groups(struct walk *w)
{
    for (int64_t r = 0; r < w->spec->ranks; r++) {
        int64_t g = axis_group(w->spec, w->axis, r);
        if (w->node_of[r] < 0)
            continue;
        if (w->first[g] < 0)
            w->first[g] = w->node_of[r];
        else
            join(w, w->last[g], w->node_of[r]);
        w->last[g] = w->node_of[r];
    }
}

static void close_rings(struct walk *w, int64_t groups)
{
    bool open = w->axis == AXIS_PP && w->spec->virtual_stages <= 1;
    for (int64_t g = 0; g < groups && !open; g++)
        if (w->first[g] >= 0)
            join(w, w->last[g], w->first[g]);
}

static int by_number(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return a < b ? -1 : a > b;
}

/* Ordered pairs of one group in two domains of the top level, over all groups. */
static int64_t pairs_across(const struct walk *w, int64_t size)
{
    int64_t n = 0, within = 0, domains = (int64_t)w->view->level[w->top].count;
    int64_t *keys = mem_zero((size_t)w->spec->ranks, sizeof(*keys));
    for (int64_t r = 0; r < w->spec->ranks; r++)
        if (w->node_of[r] >= 0)
            keys[n++] = axis_group(w->spec, w->axis, r) * domains + w->view->domain[w->node_of[r]][w->top];
    qsort(keys, (size_t)n, sizeof(*keys), by_number);
    for (int64_t i = 0, run = 1; i < n; i += run) {
        for (run = 1; i + run < n && keys[i + run] == keys[i]; run++) {
        }
        within += run * run;
    }
    free(keys);
    return n * size - within;
}

static double bytes_across(const struct walk *w, const struct axis_traffic *t)
{
    if (w->crossings == 0)
        return 0;
    if (w->axis == AXIS_EP)
        return t->bytes / (double)(t->size - 1) * (double)pairs_across(w, t->size);
    return t->bytes * (double)w->crossings;
}

static void cost_axis(struct walk *w, const struct axis_traffic *t, struct placement_cost *out)
{
    int64_t groups = axis_groups(w->spec, w->axis);
    w->first = mem_zero((size_t)groups, sizeof(int32_t));
    w->last = mem_zero((size_t)groups, sizeof(int32_t));
    for (int64_t g = 0; g < groups; g++)
        w->first[g] = -1;
    walk_groups(w);
    close_rings(w, groups);
    out->level[w->axis] = w->view->level[w->level].kind;
    out->axis_seconds[w->axis] = mesh_axis_seconds(w->view, w->spec, w->axis, t, w->level);
    out->seconds += out->axis_seconds[w->axis];
    out->top_bytes += bytes_across(w, t);
    free(w->first);
    free(w->last);
}

void cost_of(const struct placement_view *view, const struct job_spec *spec, const struct traffic *traffic,
             const int32_t *node_of, struct placement_cost *out)
{
    *out = (struct placement_cost){0};
    if (view->n_nodes == 0)
        return;
    for (enum axis a = 0; a < AXIS_COUNT; a++) {
        struct walk w = {
            .view = view, .spec = spec, .node_of = node_of, .axis = a, .top = view->n_levels - 2};
        const struct job_border *border = mesh_border(spec, a);
        if (traffic->axis[a].size <= 1)
            continue;
        cost_axis(&w, &traffic->axis[a], out);
        out->soft_misses += !border->required && out->level[a] > border->within;
    }
}

void placement_cost(const struct placement_view *view, const struct job_spec *spec,
                    const struct placed_rank *ranks, struct placement_cost *out)
{
    struct traffic traffic;
    traffic_of(spec, &traffic);
    int32_t *node_of = mem_zero((size_t)spec->ranks, sizeof(*node_of));
    view_find_all(view, ranks, spec->ranks, node_of);
    cost_of(view, spec, &traffic, node_of, out);
    free(node_of);
}
