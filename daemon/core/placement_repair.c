/* placement_repair: new places for the ranks of lost nodes; every other rank stays.
 *
 * The ranks of one lost node move together: onto a spare seat of the job, else onto one node with room, else group by group. What a
 * node would cost follows from the groups that the moved ranks belong to: each has some kept members, and how far these are from each
 * other and from the node is the level of the group. That is the same for all nodes of a domain that holds no member itself, so
 * one look a domain suffices. Nothing is searched anew: a repair costs about as much as reading the old placement. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "daemon/core/placement_mesh.h"

struct moved {
    int64_t rank;
    const char *node; /* that it was on */
};

/* A group that moved ranks belong to, by its kept members. */
struct touch {
    enum axis axis;
    int64_t group;
    int32_t member; /* node of one of them; -1 = none is kept */
    int level;      /* that holds them all */
};

struct score {
    double seconds;
    int64_t distance; /* levels between the node and the groups, added up */
    bool whole;       /* breaks up a node that nobody uses */
    int64_t left;     /* slots that stay free on it */
};

struct repair {
    struct placement_view *view; /* scratch: kept ranks and those already moved are taken */
    const struct job_spec *spec;
    const struct traffic *traffic;
    struct mesh mesh;
    struct placed_rank *ranks;
    int32_t *node_of; /* by rank; -1 = has to move */
    enum view_kind kind;
    int limit[AXIS_COUNT];
    double seconds[AXIS_COUNT][LEVELS_MAX];
    int level[AXIS_COUNT]; /* of the ranks that have a place */
    struct moved *moved;
    size_t n_moved;
    const struct placed_rank *spares;
    size_t n_spares;
    bool *member_on; /* by node: it holds a member of a touched group */
    struct touch *touches;
    size_t n_touches, room;
};

/* ---- what stays ---- */

/* It may have come back as another: with less memory, without its GPUs, with fewer slots. */
static bool may_stay(const struct repair *r, int32_t node)
{
    const struct view_node *n = node >= 0 ? &r->view->nodes[node] : NULL;
    if (!n || !n->usable || !view_counts(n, r->kind))
        return false;
    return n->memory == 0 || r->spec->memory == 0 || r->view->free_memory[node] >= r->spec->memory;
}

static void keep(struct repair *r, const struct placed_rank *old)
{
    for (int64_t i = 0; i < r->spec->ranks; i++) {
        int32_t node = r->node_of[i];
        if (may_stay(r, node) && view_take(r->view, (size_t)node, old[i].slot, r->spec->memory))
            continue;
        r->node_of[i] = -1;
        r->n_moved++;
    }
}

static int by_old_node(const void *x, const void *y)
{
    const struct moved *a = x, *b = y;
    int c = cluster_name_compare(a->node, b->node);
    return c != 0 ? c : (a->rank > b->rank) - (a->rank < b->rank);
}

static void list_moved(struct repair *r, const struct placed_rank *old)
{
    size_t n = 0;
    r->moved = mem_zero(r->n_moved, sizeof(*r->moved));
    for (int64_t i = 0; i < r->spec->ranks; i++)
        if (r->node_of[i] < 0)
            r->moved[n++] = (struct moved){i, old[i].node};
    qsort(r->moved, n, sizeof(*r->moved), by_old_node);
}

/* The widest step along a dimension between neighbours that are kept. */
static int level_along(const struct repair *r, const struct mesh_dim *d)
{
    int widest = 0;
    int64_t line = d->size * d->stride;
    for (int64_t begin = 0; begin < r->spec->ranks; begin += line)
        for (int64_t i = begin; i < begin + line - d->stride; i++) {
            int64_t next = i + d->stride;
            while (r->node_of[next] < 0 && next + d->stride < begin + line)
                next += d->stride;
            if (r->node_of[i] < 0 || r->node_of[next] < 0 || r->node_of[i] == r->node_of[next])
                continue;
            int level = view_common(r->view, (size_t)r->node_of[i], (size_t)r->node_of[next]);
            widest = level > widest ? level : widest;
        }
    return widest;
}

static void weigh(struct repair *r)
{
    int level[MESH_DIMS] = {0};
    for (int d = 0; d < r->mesh.n; d++)
        level[d] = level_along(r, &r->mesh.dim[d]);
    for (enum axis a = 0; a < AXIS_COUNT; a++) {
        const struct job_border *border = mesh_border(r->spec, a);
        r->limit[a] = border->required ? r->view->level_of[border->within] : r->view->n_levels - 1;
        r->level[a] = mesh_axis_level(&r->mesh, a, level);
        for (int k = 0; k < r->view->n_levels; k++)
            r->seconds[a][k] = mesh_axis_seconds(r->view, r->spec, a, &r->traffic->axis[a], k);
    }
}

/* ---- groups of the moved ranks ---- */

/* The i-th member of the rank's group. */
static int64_t member(const struct job_spec *spec, enum axis axis, int64_t rank, int64_t i)
{
    int64_t tp = rank % spec->tp, row = rank / spec->tp; /* row = (dp*PP + pp)*CP + cp */
    int64_t cp = row % spec->cp, pp = row / spec->cp % spec->pp, dp = row / (spec->cp * spec->pp);
    switch (axis) {
    case AXIS_TP:
        tp = i;
        break;
    case AXIS_PP:
        pp = i;
        break;
    case AXIS_CP:
        cp = i;
        break;
    case AXIS_EP:
        i += (dp * spec->cp + cp) / spec->ep * spec->ep;
        dp = i / spec->cp;
        cp = i % spec->cp;
        break;
    case AXIS_DP:
    case AXIS_COUNT:
        dp = i / spec->cp;
        cp = i % spec->cp;
        break;
    }
    return ((dp * spec->pp + pp) * spec->cp + cp) * spec->tp + tp;
}

static bool touched(const struct repair *r, enum axis axis, int64_t group)
{
    for (size_t i = 0; i < r->n_touches; i++)
        if (r->touches[i].axis == axis && r->touches[i].group == group)
            return true;
    return false;
}

static void touch_group(struct repair *r, enum axis axis, int64_t rank)
{
    struct touch t = {axis, axis_group(r->spec, axis, rank), -1, 0};
    if (touched(r, axis, t.group))
        return;
    for (int64_t i = 0; i < r->traffic->axis[axis].size; i++) {
        int32_t node = r->node_of[member(r->spec, axis, rank, i)];
        if (node < 0)
            continue;
        r->member_on[node] = true;
        t.member = t.member < 0 ? node : t.member;
        int level = view_common(r->view, (size_t)t.member, (size_t)node);
        t.level = level > t.level ? level : t.level;
    }
    r->touches = mem_one_more(r->touches, r->n_touches, &r->room, sizeof(*r->touches));
    r->touches[r->n_touches++] = t;
}

static void touch_groups(struct repair *r, const struct moved *moved, size_t n)
{
    memset(r->member_on, 0, r->view->n_nodes * sizeof(bool));
    r->n_touches = 0;
    for (size_t i = 0; i < n; i++)
        for (enum axis a = 0; a < AXIS_COUNT; a++)
            if (r->traffic->axis[a].size > 1)
                touch_group(r, a, moved[i].rank);
}

/* ---- choosing a node ---- */

static int level_with(const struct repair *r, const struct touch *t, size_t node)
{
    int level = t->member < 0 ? 0 : view_common(r->view, (size_t)t->member, node);
    return level > t->level ? level : t->level;
}

/* Levels of the axes with the moved ranks on that node; false when a required border forbids it. */
static bool levels_with(const struct repair *r, size_t node, int level[AXIS_COUNT], int64_t *distance)
{
    memcpy(level, r->level, sizeof(r->level));
    *distance = 0;
    for (size_t i = 0; i < r->n_touches; i++) {
        const struct touch *t = &r->touches[i];
        int with = level_with(r, t, node);
        if (with > r->limit[t->axis])
            return false;
        level[t->axis] = with > level[t->axis] ? with : level[t->axis];
        *distance += with;
    }
    return true;
}

static bool judge(const struct repair *r, size_t node, struct score *out)
{
    int level[AXIS_COUNT];
    *out = (struct score){.seconds = 0};
    if (!levels_with(r, node, level, &out->distance))
        return false;
    for (enum axis a = 0; a < AXIS_COUNT; a++)
        out->seconds += r->seconds[a][level[a]];
    return true;
}

static bool better(const struct score *a, const struct score *b)
{
    if (a->seconds != b->seconds)
        return a->seconds < b->seconds;
    if (a->distance != b->distance)
        return a->distance < b->distance;
    if (a->whole != b->whole)
        return b->whole;
    return a->left < b->left;
}

static int64_t spare_slots_on(const struct repair *r, size_t node)
{
    int64_t n = 0;
    for (size_t i = 0; i < r->n_spares; i++) {
        int64_t slot = r->spares[i].slot;
        if (slot >= 0 && strcmp(r->spares[i].node, r->view->nodes[node].name) == 0 &&
            view_next_free(r->view, node, slot) == slot)
            n++;
    }
    return n;
}

static bool has_room(const struct repair *r, size_t node, int64_t ranks)
{
    return view_counts(&r->view->nodes[node], r->kind) &&
           view_capacity(r->view, node, r->spec->memory, EXTENT_FREE) >= ranks;
}

static int64_t best_spare(const struct repair *r, int64_t ranks)
{
    int64_t best = -1;
    struct score least = {0}, s;
    for (size_t i = 0; i < r->n_spares; i++) {
        if (i > 0 && strcmp(r->spares[i - 1].node, r->spares[i].node) == 0)
            continue;
        int64_t node = view_find(r->view, r->spares[i].node);
        if (node < 0 || !has_room(r, (size_t)node, ranks) || spare_slots_on(r, (size_t)node) < ranks ||
            !judge(r, (size_t)node, &s))
            continue;
        if (best < 0 || better(&s, &least)) {
            best = node;
            least = s;
        }
    }
    return best;
}

/* Nodes of one domain of level 1 that hold no member cost the same: the last judgement is kept. */
static int64_t best_node(const struct repair *r, int64_t ranks)
{
    int64_t best = -1, judged = -1;
    int next = r->view->n_levels > 1 ? 1 : 0;
    bool allowed = false;
    struct score least = {0}, s = {0};
    for (size_t i = 0; i < r->view->n_nodes; i++) {
        if (!has_room(r, i, ranks))
            continue;
        if (r->member_on[i] || judged != r->view->domain[i][next]) {
            allowed = judge(r, i, &s);
            judged = r->member_on[i] ? -1 : (int64_t)r->view->domain[i][next];
        }
        s.left = r->view->n_free[i] - ranks;
        s.whole = r->view->n_free[i] == r->view->nodes[i].slots;
        if (allowed && (best < 0 || better(&s, &least))) {
            best = (int64_t)i;
            least = s;
        }
    }
    return best;
}

/* ---- moving ---- */

/* The next slot for a rank: of the spares first where they are what the node is chosen for. */
static int64_t slot_on(const struct repair *r, size_t node, bool spare)
{
    for (size_t i = 0; spare && i < r->n_spares; i++)
        if (strcmp(r->spares[i].node, r->view->nodes[node].name) == 0 && r->spares[i].slot >= 0 &&
            view_next_free(r->view, node, r->spares[i].slot) == r->spares[i].slot)
            return r->spares[i].slot;
    return view_next_free(r->view, node, 0);
}

static void move_to(struct repair *r, const struct moved *moved, size_t n, size_t node, bool spare)
{
    int64_t distance;
    (void)levels_with(r, node, r->level, &distance); /* judged before: it is allowed */
    for (size_t i = 0; i < n; i++) {
        struct placed_rank *to = &r->ranks[moved[i].rank];
        to->slot = slot_on(r, node, spare);
        view_name_copy(to, r->view->nodes[node].name);
        (void)view_take(r->view, node, to->slot, r->spec->memory); /* it is free: just looked at */
        r->node_of[moved[i].rank] = (int32_t)node;
    }
}

static bool move_together(struct repair *r, const struct moved *moved, size_t n)
{
    touch_groups(r, moved, n);
    int64_t node = best_spare(r, (int64_t)n);
    bool spare = node >= 0;
    if (!spare)
        node = best_node(r, (int64_t)n);
    if (node < 0)
        return false;
    move_to(r, moved, n, (size_t)node, spare);
    return true;
}

/* How many of the moved ranks, which are sorted by rank, belong to the TP group of the first when that may not leave a node. */
static size_t unit_of(const struct repair *r, const struct moved *moved, size_t n)
{
    size_t unit = 1;
    while (r->limit[AXIS_TP] == 0 && unit < n &&
           moved[unit].rank / r->spec->tp == moved[0].rank / r->spec->tp)
        unit++;
    return unit;
}

static bool move_seat(struct repair *r, const struct moved *moved, size_t n)
{
    if (move_together(r, moved, n))
        return true;
    for (size_t i = 0, unit; i < n; i += unit) {
        unit = unit_of(r, moved + i, n - i);
        if (unit == n || !move_together(r, moved + i, unit))
            return false;
    }
    return true;
}

static enum placement_result move_all(struct repair *r, struct err *why)
{
    for (size_t i = 0, n = 0; i < r->n_moved; i += n) {
        for (n = 1; i + n < r->n_moved && strcmp(r->moved[i].node, r->moved[i + n].node) == 0; n++) {
        }
        if (!move_seat(r, r->moved + i, n)) {
            err_set(why, "waits for room for the %zu ranks that were on %s, near enough to the others", n,
                    r->moved[i].node);
            return PLACEMENT_CAPACITY;
        }
    }
    return PLACEMENT_OK;
}

/* ---- the whole ---- */

/* The kind of node that the job is on: of a rank that stays, else of one that was lost. */
static enum view_kind kind_of(const struct repair *r, const struct placed_rank *old)
{
    if (r->spec->device != DEVICE_AUTO)
        return r->spec->device == DEVICE_CPU ? KIND_ANY : KIND_GPU;
    for (int64_t i = 0; i < r->spec->ranks; i++)
        if (r->node_of[i] >= 0 && r->view->nodes[r->node_of[i]].usable)
            return r->view->nodes[r->node_of[i]].gpu ? KIND_GPU : KIND_CPU;
    int64_t node = view_find(r->view, old[0].node);
    return node < 0 || r->view->nodes[node].gpu ? KIND_GPU : KIND_CPU;
}

/* Nodes may have been moved to other racks since. */
static bool still_near(const struct repair *r, struct err *why)
{
    for (enum axis a = 0; a < AXIS_COUNT; a++)
        if (r->traffic->axis[a].size > 1 && r->level[a] > r->limit[a]) {
            err_set(why, "waits for room anew: its %s groups are no longer within their border",
                    axis_name(a));
            return false;
        }
    return true;
}

static enum placement_result repair(struct repair *r, const struct placed_rank *old, struct err *why)
{
    r->member_on = mem_zero(r->view->n_nodes, sizeof(bool));
    mesh_of(r->spec, r->traffic, &r->mesh);
    weigh(r);
    list_moved(r, old);
    memcpy(r->ranks, old, (size_t)r->spec->ranks * sizeof(*old));
    enum placement_result result = still_near(r, why) ? move_all(r, why) : PLACEMENT_CAPACITY;
    free(r->moved);
    free(r->touches);
    free(r->member_on);
    return result;
}

enum placement_result placement_repair(const struct placement_view *view, const struct job_spec *spec,
                                       const struct placed_rank *old, const struct placed_rank *spares,
                                       size_t n_spares, struct placed_rank *ranks, struct err *why)
{
    struct traffic traffic;
    traffic_of(spec, &traffic);
    struct repair r = {
        .spec = spec, .traffic = &traffic, .ranks = ranks, .spares = spares, .n_spares = n_spares};
    r.view = view_scratch(view);
    r.node_of = mem_zero((size_t)spec->ranks, sizeof(int32_t));
    view_find_all(r.view, old, spec->ranks, r.node_of);
    r.kind = kind_of(&r, old);
    keep(&r, old);
    bool all_lost = r.n_moved == (size_t)spec->ranks && n_spares == 0;
    enum placement_result result = all_lost ? placement_find(view, spec, ranks, why) : repair(&r, old, why);
    free(r.node_of);
    view_scratch_free(r.view);
    return result;
}
