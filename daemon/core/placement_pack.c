/* placement_pack: see placement_pack.h.
 *
 * Positions are numbers in a mixed radix whose fastest digits are the dimensions of the narrowest level, so every block of every level is
 * a run of positions. Domains take runs in topology order. A job (or the part of it that one domain of a wide level holds) goes into
 * the smallest domain with room, a partly used one if there is one. Where it must be spread, what matters differs: at the top few
 * parts (few bytes cross), below it partly used ones first, and a block wider than a part gets neighbours. At the top the
 * order of digits is free, too: it is tried which one sends the fewest bytes across. */
#include "daemon/core/placement_pack.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "daemon/core/placement_choose.h"
#include "daemon/core/placement_cost.h"

#define ORDERS_TRIED_DIMS 3 /* dimensions at the top whose orders are all tried */

struct pack {
    const struct placement_view *view;
    const struct job_spec *spec;
    const struct mesh *mesh;
    const struct search_plan *plan;
    struct search_blocks blocks;
    int64_t *free_slots[LEVELS_MAX],
        *slots[LEVELS_MAX]; /* by domain, of the kind of node that the job may use */
    int64_t *take;          /* ranks by node */
    int64_t spare_slots;    /* that its pod should have left for spares */
    int order[MESH_DIMS];   /* dimensions, innermost first */
};

/* ---- what is in use ---- */

static void sum_slots(struct pack *p, enum view_kind kind)
{
    const struct placement_view *v = p->view;
    for (int k = 0; k < v->n_levels; k++) {
        p->free_slots[k] = mem_zero(v->level[k].count, sizeof(int64_t));
        p->slots[k] = mem_zero(v->level[k].count, sizeof(int64_t));
    }
    for (size_t i = 0; i < v->n_nodes; i++) {
        if (!view_counts(&v->nodes[i], kind))
            continue;
        for (int k = 0; k < v->n_levels; k++) {
            p->free_slots[k][v->domain[i][k]] += v->nodes[i].usable ? v->n_free[i] : 0;
            p->slots[k][v->domain[i][k]] += v->nodes[i].slots;
        }
    }
}

static bool is_whole(const struct pack *p, int k, uint32_t d)
{
    return p->free_slots[k][d] == p->slots[k][d];
}

/* Spares are to be in the pod of the job: how many slots they need, by the roomiest node. */
static int64_t slots_for_spares(const struct pack *p, const int64_t *caps)
{
    int64_t seat = 0, spares = p->spec->placement.spares;
    for (size_t i = 0; i < p->view->n_nodes; i++)
        seat = caps[i] > seat ? caps[i] : seat;
    return (spares == JOB_SPARES_AUTO ? 1 : spares) * (seat < p->spec->ranks ? seat : p->spec->ranks);
}

/* Would the pod of this domain still have them with the whole job in it? */
static bool has_spares(const struct pack *p, int k, uint32_t d)
{
    int pod = p->view->level_of[DOMAIN_POD];
    uint32_t in = p->view->domain[p->view->level[k].first_node[d]][pod];
    return p->free_slots[pod][in] - p->spec->ranks >= p->spare_slots;
}

/* ---- choosing domains ---- */

/* Is domain a of level k a better home than b? First that the whole job finds room for its spares near; then that no whole domain is
 * broken up, the narrow ones first; then the fit. Levels from `top` on hold both. */
static bool fits_better(const struct pack *p, int k, int top, uint32_t a, uint32_t b)
{
    uint32_t node_a = p->view->level[k].first_node[a], node_b = p->view->level[k].first_node[b];
    const uint32_t *in_a = p->view->domain[node_a], *in_b = p->view->domain[node_b];
    if (top == p->view->n_levels - 1 && has_spares(p, k, a) != has_spares(p, k, b))
        return has_spares(p, k, a);
    for (int j = k; j < top; j++)
        if (is_whole(p, j, in_a[j]) != is_whole(p, j, in_b[j]))
            return is_whole(p, j, in_b[j]);
    for (int j = k; j < top; j++)
        if (p->free_slots[j][in_a[j]] != p->free_slots[j][in_b[j]])
            return p->free_slots[j][in_a[j]] < p->free_slots[j][in_b[j]];
    return a < b;
}

/* The best domain of level k within domain `d` of level `top` that has room for so many blocks; -1 = none has. */
static int64_t best_home(const struct pack *p, int k, int top, uint32_t d, int64_t blocks)
{
    const struct view_level *l = &p->view->level[top];
    uint32_t from = p->view->domain[l->first_node[d]][k];
    uint32_t to = p->view->domain[l->first_node[d + 1] - 1][k];
    int64_t best = -1;
    for (uint32_t c = from; c <= to; c++)
        if (p->blocks.count[k][c] >= blocks && (best < 0 || fits_better(p, k, top, c, (uint32_t)best)))
            best = c;
    return best;
}

/* Parts of domain d of level k. Fresh array; the caller frees it. */
static struct choose_part *parts_of(const struct pack *p, int k, uint32_t d, size_t *n)
{
    const struct view_level *l = &p->view->level[k];
    *n = l->first_child[d + 1] - l->first_child[d];
    struct choose_part *parts = mem_zero(*n, sizeof(*parts));
    for (size_t i = 0; i < *n; i++) {
        uint32_t c = l->first_child[d] + (uint32_t)i;
        parts[i] = (struct choose_part){p->blocks.count[k - 1][c], 0, is_whole(p, k - 1, c)};
    }
    return parts;
}

static void take_blocks(struct pack *p, int k, uint32_t d, int64_t blocks);

static void take_parts(struct pack *p, int k, uint32_t d, const struct choose_part *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (parts[i].taken > 0)
            take_blocks(p, k - 1, p->view->level[k].first_child[d] + (uint32_t)i, parts[i].taken);
}

static void spread(struct pack *p, int k, uint32_t d, int64_t blocks)
{
    size_t n;
    int64_t width = p->blocks.size[k] / p->blocks.size[k - 1];
    struct choose_part *parts = parts_of(p, k, d, &n);
    if (width > 1)
        choose_runs(parts, n, blocks, width);
    else
        choose_parts(parts, n, blocks, CHOOSE_USED, false);
    take_parts(p, k, d, parts, n);
    free(parts);
}

/* Finds a home in the narrowest level below k that has one. */
static bool take_home(struct pack *p, int k, uint32_t d, int64_t ranks)
{
    for (int j = 0; j < k; j++) {
        int64_t home = best_home(p, j, k, d, ranks / p->blocks.size[j]);
        if (home >= 0) {
            take_blocks(p, j, (uint32_t)home, ranks / p->blocks.size[j]);
            return true;
        }
    }
    return false;
}

/* Domain d of level k takes so many blocks of that level, for which it has room. */
static void take_blocks(struct pack *p, int k, uint32_t d, int64_t blocks)
{
    if (k == 0)
        p->take[d] += blocks * p->blocks.size[0];
    else if (!take_home(p, k, d, blocks * p->blocks.size[k]))
        spread(p, k, d, blocks);
}

/* ---- positions ---- */

/* Within a level in the order of enum axis: TP, CP, EP, PP, DP. So a pipeline stays on neighbours also where DP shares its level. */
static bool inner(const struct pack *p, int a, int b)
{
    int axis_a = __builtin_ctz(p->mesh->dim[a].axes), axis_b = __builtin_ctz(p->mesh->dim[b].axes);
    if (p->plan->level[a] != p->plan->level[b])
        return p->plan->level[a] < p->plan->level[b];
    return axis_a != axis_b ? axis_a < axis_b : a < b;
}

static void order_dims(struct pack *p)
{
    for (int i = 0; i < p->mesh->n; i++) {
        int at = i;
        for (; at > 0 && inner(p, i, p->order[at - 1]); at--)
            p->order[at] = p->order[at - 1];
        p->order[at] = i;
    }
}

/* The rank at the next position. digits[n]: of the position, innermost first. */
static int64_t next_rank(const struct pack *p, int64_t rank, int64_t *digits)
{
    for (int i = 0; i < p->mesh->n; i++) {
        const struct mesh_dim *d = &p->mesh->dim[p->order[i]];
        rank += d->stride;
        if (++digits[i] < d->size)
            break;
        digits[i] = 0;
        rank -= d->stride * d->size;
    }
    return rank;
}

/* node_of[rank] for what each node takes. */
static void seat(const struct pack *p, int32_t *node_of)
{
    int64_t rank = 0, digits[MESH_DIMS] = {0};
    for (size_t i = 0; i < p->view->n_nodes; i++)
        for (int64_t k = 0; k < p->take[i]; k++) {
            node_of[rank] = (int32_t)i;
            rank = next_rank(p, rank, digits);
        }
}

/* Slots of a node go up with the positions. */
static void fill(const struct pack *p, struct placed_rank *ranks)
{
    int64_t rank = 0, digits[MESH_DIMS] = {0};
    for (size_t i = 0; i < p->view->n_nodes; i++) {
        int64_t slot = -1;
        for (int64_t k = 0; k < p->take[i]; k++) {
            slot = view_next_free(p->view, i, slot + 1);
            placement_coordinates(p->spec, rank, &ranks[rank]);
            view_name_copy(&ranks[rank], p->view->nodes[i].name);
            ranks[rank].slot = slot;
            rank = next_rank(p, rank, digits);
        }
    }
}

/* ---- the top ---- */

/* The best so far of several ways to spread over the top. */
struct trial {
    int32_t *node_of;
    int64_t *take; /* of the best */
    bool any;
    int order[MESH_DIMS];
    double bytes;
};

static void keep_trial(struct pack *p, struct trial *t, double bytes)
{
    t->any = true;
    memcpy(t->take, p->take, p->view->n_nodes * sizeof(int64_t));
    memcpy(t->order, p->order, sizeof(t->order));
    t->bytes = bytes;
}

static void try_parts(struct pack *p, int top, const struct choose_part *parts, size_t n, struct trial *t)
{
    struct placement_cost cost;
    memset(p->take, 0, p->view->n_nodes * sizeof(int64_t));
    take_parts(p, top, 0, parts, n);
    seat(p, t->node_of);
    cost_of(p->view, p->spec, p->mesh->traffic, t->node_of, &cost);
    if (!t->any || cost.top_bytes < t->bytes)
        keep_trial(p, t, cost.top_bytes);
}

/* As they are, and with groups of the dimensions at the top kept whole; dims from `first` of the order on are at the top. */
static void try_order(struct pack *p, int top, int first, const struct choose_part *parts, size_t n,
                      struct trial *t)
{
    struct choose_part *shifted = mem_zero(n, sizeof(*shifted));
    int64_t steps[MESH_DIMS], product = 1;
    size_t n_steps = 0;
    try_parts(p, top, parts, n, t);
    for (int i = first; i + 1 < p->mesh->n; i++) {
        product *= p->mesh->dim[p->order[i]].size;
        memmove(steps + 1, steps, n_steps * sizeof(steps[0]));
        steps[0] = product;
        n_steps++;
    }
    memcpy(shifted, parts, n * sizeof(*parts));
    choose_align(shifted, n, steps, n_steps);
    try_parts(p, top, shifted, n, t);
    free(shifted);
}

static void swap(int *a, int *b)
{
    int c = *a;
    *a = *b;
    *b = c;
}

/* All orders of the dimensions from `at` on. */
static void try_orders(struct pack *p, int top, int first, int at, const struct choose_part *parts, size_t n,
                       struct trial *t)
{
    if (at + 1 >= p->mesh->n) {
        try_order(p, top, first, parts, n, t);
        return;
    }
    for (int i = at; i < p->mesh->n; i++) {
        swap(&p->order[at], &p->order[i]);
        try_orders(p, top, first, at + 1, parts, n, t);
        swap(&p->order[at], &p->order[i]);
    }
}

static int64_t share_of(int64_t room, int64_t ranks, int64_t spares)
{
    return (int64_t)((double)room * (double)ranks / (double)(ranks + spares));
}

/* Spares are spread over the pods like the ranks: so each part leaves its share of them free, if the job fits so. */
static void leave_for_spares(const struct pack *p, struct choose_part *parts, size_t n, int64_t need)
{
    int64_t sum = 0, ranks = p->spec->ranks, spares = p->spare_slots;
    for (size_t i = 0; i < n; i++)
        sum += share_of(parts[i].room, ranks, spares);
    for (size_t i = 0; i < n && sum >= need; i++)
        parts[i].room = share_of(parts[i].room, ranks, spares);
}

static void spread_top(struct pack *p, int top)
{
    size_t n;
    int first = 0;
    int64_t width = p->blocks.size[top] / p->blocks.size[top - 1];
    struct choose_part *parts = parts_of(p, top, 0, &n);
    if (p->view->level[top - 1].kind >= DOMAIN_POD)
        leave_for_spares(p, parts, n, width);
    choose_parts(parts, n, width, CHOOSE_FEWEST, p->view->level[top - 1].kind < DOMAIN_POD);
    while (first < p->mesh->n && p->plan->level[p->order[first]] < top)
        first++;
    int free_dims = p->mesh->n - first;
    if (free_dims > 1) {
        struct trial t = {.node_of = mem_zero((size_t)p->mesh->ranks, sizeof(int32_t))};
        t.take = mem_zero(p->view->n_nodes, sizeof(int64_t));
        try_orders(p, top, first, free_dims > ORDERS_TRIED_DIMS ? p->mesh->n : first, parts, n, &t);
        memcpy(p->take, t.take, p->view->n_nodes * sizeof(int64_t));
        memcpy(p->order, t.order, sizeof(t.order));
        free(t.node_of);
        free(t.take);
    } else {
        take_parts(p, top, 0, parts, n);
    }
    free(parts);
}

void pack_plan(const struct placement_view *view, const struct job_spec *spec, const struct mesh *mesh,
               const struct search_plan *plan, enum view_kind kind, const int64_t *caps,
               struct placed_rank *ranks)
{
    struct pack p = {.view = view, .spec = spec, .mesh = mesh, .plan = plan};
    int top = view->n_levels - 1;
    search_blocks_init(&p.blocks, view);
    search_count(view, mesh, plan->level, caps, &p.blocks);
    sum_slots(&p, kind);
    p.spare_slots = slots_for_spares(&p, caps);
    p.take = mem_zero(view->n_nodes, sizeof(int64_t));
    order_dims(&p);
    if (top == 0)
        p.take[0] = spec->ranks;
    else if (!take_home(&p, top, 0, spec->ranks))
        spread_top(&p, top);
    fill(&p, ranks);
    free(p.take);
    for (int k = 0; k < LEVELS_MAX; k++) {
        free(p.free_slots[k]);
        free(p.slots[k]);
    }
    search_blocks_free(&p.blocks);
}
