/* placement_search: all tuples of levels, depth first from the nodes outwards.
 *
 * At each level a further part of the dimensions is put "within one domain of this level". The blocks that fit into a domain follow
 * from those of its children by division, so each step costs the number of domains below. A branch ends when too few blocks
 * fit, or when even the best ending would cost more than what is known to fit. Of the tuples that fit, those within 1 % of the
 * cheapest compete by preferred borders (how many are missed, then how far), then seconds, then bytes at the widest level, the next one, and so on. */
#include "daemon/core/placement_search.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define PREFERRED_COST 0.01 /* what meeting a preferred border may cost of the step's communication */
#define SAME           1e-12

struct tuple {
    struct search_plan plan;
    int misses, distance;     /* preferred borders that are missed; by how many levels in all */
    double bytes[LEVELS_MAX]; /* per rank and step of the axes at that level */
};

struct search {
    const struct placement_view *view;
    const struct job_spec *spec;
    const struct mesh *mesh;
    const int64_t *caps;
    struct search_blocks blocks;
    double seconds[AXIS_COUNT][LEVELS_MAX];
    int limit[MESH_DIMS];
    int level[MESH_DIMS]; /* of the branch */
    double best;          /* seconds of the cheapest tuple that fits */
    struct tuple *found;
    size_t n_found, room;
};

void search_blocks_init(struct search_blocks *b, const struct placement_view *view)
{
    *b = (struct search_blocks){{0}, {NULL}, {0}};
    for (int k = 0; k < LEVELS_MAX; k++)
        b->count[k] = mem_zero(view->level[k].count, sizeof(int64_t));
}

void search_blocks_free(struct search_blocks *b)
{
    for (int k = 0; k < LEVELS_MAX; k++)
        free(b->count[k]);
}

static void count_nodes(const struct placement_view *view, const int64_t *caps, struct search_blocks *b)
{
    int64_t total = 0, size = b->size[0];
    for (size_t i = 0; i < view->n_nodes; i++) {
        b->count[0][i] = size == 1 ? caps[i] : caps[i] < size ? 0 : caps[i] / size;
        total += b->count[0][i];
    }
    b->total[0] = total;
}

static void count_domains(const struct placement_view *view, int k, struct search_blocks *b)
{
    const struct view_level *l = &view->level[k];
    int64_t total = 0, ratio = b->size[k] / b->size[k - 1];
    for (size_t d = 0; d < l->count; d++) {
        int64_t sum = 0;
        for (uint32_t c = l->first_child[d]; c < l->first_child[d + 1]; c++)
            sum += b->count[k - 1][c];
        b->count[k][d] = ratio == 1 ? sum : sum / ratio;
        total += b->count[k][d];
    }
    b->total[k] = total;
}

/* Counts level k, whose size is set, from the level below. */
static void count_level(const struct placement_view *view, int k, const int64_t *caps,
                        struct search_blocks *b)
{
    if (k == 0)
        count_nodes(view, caps, b);
    else
        count_domains(view, k, b);
}

void search_count(const struct placement_view *view, const struct mesh *mesh, const int *level,
                  const int64_t *caps, struct search_blocks *b)
{
    for (int k = 0; k < view->n_levels; k++) {
        b->size[k] = 1;
        for (int d = 0; d < mesh->n; d++)
            if (level[d] <= k)
                b->size[k] *= mesh->dim[d].size;
        count_level(view, k, caps, b);
    }
}

static double seconds_of(const struct search *s)
{
    double sum = 0;
    for (enum axis a = 0; a < AXIS_COUNT; a++)
        sum += s->seconds[a][mesh_axis_level(s->mesh, a, s->level)];
    return sum;
}

static void record(struct search *s, double seconds)
{
    s->found = mem_one_more(s->found, s->n_found, &s->room, sizeof(*s->found));
    struct tuple *t = &s->found[s->n_found++];
    *t = (struct tuple){.plan.seconds = seconds};
    memcpy(t->plan.level, s->level, sizeof(s->level));
    for (enum axis a = 0; a < AXIS_COUNT; a++) {
        const struct job_border *border = mesh_border(s->spec, a);
        int level = mesh_axis_level(s->mesh, a, s->level);
        if (s->mesh->traffic->axis[a].size <= 1)
            continue;
        t->bytes[level] += s->mesh->traffic->axis[a].bytes;
        int beyond = border->required ? 0 : level - s->view->level_of[border->within];
        t->misses += beyond > 0;
        t->distance += beyond > 0 ? beyond : 0;
    }
    s->best = seconds < s->best || s->n_found == 1 ? seconds : s->best;
}

static bool too_dear(const struct search *s, double seconds)
{
    return s->n_found > 0 && seconds > s->best * (1 + PREFERRED_COST);
}

static void descend(struct search *s, int k, unsigned left);

/* The dimensions of `now` get level k, the others of `left` a wider one. */
static void try_level(struct search *s, int k, unsigned left, unsigned now)
{
    int64_t size = k > 0 ? s->blocks.size[k - 1] : 1;
    for (int d = 0; d < s->mesh->n; d++)
        if (left & 1u << d) {
            s->level[d] = now & 1u << d ? k : k + 1;
            size *= now & 1u << d ? s->mesh->dim[d].size : 1;
        }
    double seconds = seconds_of(s); /* at least: what is left is taken to end at the next level */
    if (too_dear(s, seconds))
        return;
    s->blocks.size[k] = size;
    count_level(s->view, k, s->caps, &s->blocks);
    if (s->blocks.total[k] < s->mesh->ranks / size)
        return;
    if (k == s->view->n_levels - 1)
        record(s, seconds);
    else
        descend(s, k + 1, left & ~now);
}

static void descend(struct search *s, int k, unsigned left)
{
    unsigned must = 0;
    for (int d = 0; d < s->mesh->n; d++)
        if (left & 1u << d && s->limit[d] == k)
            must |= 1u << d;
    unsigned choice = left & ~must;
    if (k == s->view->n_levels - 1) {
        try_level(s, k, left, left);
        return;
    }
    for (unsigned some = choice;; some = (some - 1) & choice) { /* most first: those are cheap */
        try_level(s, k, left, must | some);
        if (some == 0)
            break;
    }
}

static bool better(const struct search *s, const struct tuple *a, const struct tuple *b)
{
    if (a->misses != b->misses)
        return a->misses < b->misses;
    if (a->distance != b->distance)
        return a->distance < b->distance;
    if (a->plan.seconds < b->plan.seconds * (1 - SAME) || b->plan.seconds < a->plan.seconds * (1 - SAME))
        return a->plan.seconds < b->plan.seconds;
    for (int k = s->view->n_levels - 1; k > 0; k--)
        if (a->bytes[k] != b->bytes[k])
            return a->bytes[k] < b->bytes[k];
    return false;
}

static const struct tuple *choose(const struct search *s)
{
    const struct tuple *best = NULL;
    for (size_t i = 0; i < s->n_found; i++)
        if (!too_dear(s, s->found[i].plan.seconds) && (!best || better(s, &s->found[i], best)))
            best = &s->found[i];
    return best;
}

static void prepare(struct search *s)
{
    mesh_limits(s->mesh, s->spec, s->view, s->limit);
    for (enum axis a = 0; a < AXIS_COUNT; a++)
        for (int k = 0; k < s->view->n_levels; k++)
            s->seconds[a][k] = mesh_axis_seconds(s->view, s->spec, a, &s->mesh->traffic->axis[a], k);
}

bool search_levels(const struct placement_view *view, const struct job_spec *spec, const struct mesh *mesh,
                   const int64_t *caps, struct search_plan *out)
{
    struct search s = {.view = view, .spec = spec, .mesh = mesh, .caps = caps};
    prepare(&s);
    search_blocks_init(&s.blocks, view);
    search_count(view, mesh, s.limit, caps, &s.blocks); /* the loosest levels: without them there are none */
    if (s.blocks.total[view->n_levels - 1] > 0)
        descend(&s, 0, (1u << mesh->n) - 1);
    const struct tuple *best = choose(&s);
    if (best)
        *out = best->plan;
    search_blocks_free(&s.blocks);
    free(s.found);
    return best != NULL;
}
