/* placement_view: see placement_view.h.
 *
 * Nodes mostly come sorted by name, and a rack has few of the names that a cluster has. So they are dealt to their places (pod, rack,
 * NVLink domain) by hash, the places are sorted, and within one only what is out of order: building a view of thousands of nodes
 * compares few names as numbers. Free slots are bits, so that taking one is O(1) and they come out in ascending order. */
#include "daemon/core/placement_view.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

/* ---- sorting ---- */

struct place {
    const char *pod, *rack, *nvlink;
    size_t n, next; /* nodes in it; where the next one goes */
    uint32_t number;
};

struct places {
    struct place *items;
    size_t n;
    uint32_t *table; /* open addressing: number + 1 */
    size_t mask;
};

static const char *or_empty(const char *s)
{
    return s ? s : "";
}

/* FNV-1a */
static uint64_t hash_text(uint64_t h, const char *s)
{
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001b3ULL;
    return (h ^ 0xff) * 0x100000001b3ULL;
}

#define HASH_BEGIN 0xcbf29ce484222325ULL

static size_t mask_for(size_t n)
{
    size_t size = 16;
    while (size < 2 * n)
        size *= 2;
    return size - 1;
}

static bool is_place(const struct place *p, const struct placement_node *n)
{
    return strcmp(p->rack, n->rack) == 0 && strcmp(p->pod, n->pod) == 0 &&
           strcmp(p->nvlink, or_empty(n->nvlink)) == 0;
}

static uint32_t place_of(struct places *all, const struct placement_node *node)
{
    uint64_t h = hash_text(hash_text(hash_text(HASH_BEGIN, node->pod), node->rack), or_empty(node->nvlink));
    size_t i = h & all->mask;
    for (; all->table[i] != 0; i = (i + 1) & all->mask)
        if (is_place(&all->items[all->table[i] - 1], node))
            return all->table[i] - 1;
    all->items[all->n] =
        (struct place){node->pod, node->rack, or_empty(node->nvlink), 0, 0, (uint32_t)all->n};
    all->table[i] = (uint32_t)++all->n;
    return (uint32_t)all->n - 1;
}

/* Most names that are compared are the same: of one pod, of one rack. */
static int compare_text(const char *a, const char *b)
{
    return strcmp(a, b) == 0 ? 0 : cluster_name_compare(a, b);
}

static int compare_places(const void *x, const void *y)
{
    const struct place *a = x, *b = y;
    int c = compare_text(a->pod, b->pod);
    if (c == 0)
        c = compare_text(a->rack, b->rack);
    return c != 0 ? c : compare_text(a->nvlink, b->nvlink);
}

static int compare_names(const void *x, const void *y)
{
    const struct placement_node *a = *(const struct placement_node *const *)x;
    const struct placement_node *b = *(const struct placement_node *const *)y;
    return cluster_name_compare(a->name, b->name);
}

/* Sorts the nodes of one place, unless they are. */
static void sort_names(const struct placement_node **nodes, size_t n)
{
    bool sorted = true;
    for (size_t i = 1; i < n && sorted; i++)
        sorted = cluster_name_compare(nodes[i - 1]->name, nodes[i]->name) <= 0;
    if (!sorted)
        qsort(nodes, n, sizeof(void *), compare_names);
}

/* Where the nodes of each place begin, by the place's first number. */
static size_t *begin_places(struct places *all)
{
    size_t *begin = mem_zero(all->n + 1, sizeof(size_t)), next = 0;
    bool sorted = true;
    for (size_t i = 1; i < all->n && sorted; i++)
        sorted = compare_places(&all->items[i - 1], &all->items[i]) <= 0;
    if (!sorted)
        qsort(all->items, all->n, sizeof(*all->items), compare_places);
    for (size_t i = 0; i < all->n; i++) {
        begin[all->items[i].number] = all->items[i].next = next;
        next += all->items[i].n;
    }
    return begin;
}

/* Fresh array of pointers in topology order. */
static const struct placement_node **in_topology_order(const struct placement_node *nodes, size_t n)
{
    const struct placement_node **sorted = mem_zero(n + 1, sizeof(void *));
    uint32_t *place = mem_zero(n + 1, sizeof(*place));
    struct places all = {.mask = mask_for(n)};
    all.items = mem_zero(n + 1, sizeof(*all.items));
    all.table = mem_zero(all.mask + 1, sizeof(uint32_t));
    for (size_t i = 0; i < n; i++) {
        place[i] =
            i > 0 && is_place(&all.items[place[i - 1]], &nodes[i]) ? place[i - 1] : place_of(&all, &nodes[i]);
        all.items[place[i]].n++;
    }
    size_t *next = begin_places(&all);
    for (size_t i = 0; i < n; i++)
        sorted[next[place[i]]++] = &nodes[i];
    for (size_t i = 0; i < all.n; i++)
        sort_names(sorted + all.items[i].next, all.items[i].n);
    free(next);
    free(all.items);
    free(all.table);
    free(place);
    return sorted;
}

/* ---- the tree ---- */

/* The smallest kind of domain that holds both (two different nodes). */
static enum job_domain shared(const struct view_node *a, const struct view_node *b)
{
    if (strcmp(a->pod, b->pod) != 0)
        return DOMAIN_CLUSTER;
    if (strcmp(a->rack, b->rack) != 0)
        return DOMAIN_POD;
    return a->nvlink[0] && strcmp(a->nvlink, b->nvlink) == 0 ? DOMAIN_NVLINK : DOMAIN_RACK;
}

/* ids[i][kind]: the domains of node i by kind; returns how many there are of each in count. */
static void number_domains(const struct placement_view *v, uint32_t (*ids)[LEVELS_MAX],
                           size_t count[LEVELS_MAX])
{
    memset(ids[0], 0, sizeof(ids[0]));
    for (size_t i = 1; i < v->n_nodes; i++) {
        enum job_domain common = shared(&v->nodes[i - 1], &v->nodes[i]);
        for (int kind = DOMAIN_NODE; kind < DOMAIN_COUNT; kind++)
            ids[i][kind] = ids[i - 1][kind] + (kind < (int)common ? 1 : 0);
    }
    for (int kind = DOMAIN_NODE; kind < DOMAIN_COUNT; kind++)
        count[kind] = (size_t)ids[v->n_nodes - 1][kind] + 1;
}

static void begin_level(struct placement_view *v, enum job_domain kind, size_t count)
{
    struct view_level *l = &v->level[v->n_levels++];
    *l = (struct view_level){.kind = kind, .count = count};
    l->first_child = mem_zero(count + 1, sizeof(uint32_t));
    l->first_node = mem_zero(count + 1, sizeof(uint32_t));
}

/* domain[i][level] holds ids by kind; gathers those of the levels and fills the bounds of each level. */
static int64_t most_slots(const struct placement_view *v, const struct view_level *l)
{
    int64_t most = 0;
    for (size_t d = 0; d < l->count; d++) {
        int64_t slots = 0;
        for (uint32_t i = l->first_node[d]; i < l->first_node[d + 1]; i++)
            slots += v->nodes[i].slots;
        most = slots > most ? slots : most;
    }
    return most;
}

static void build_levels(struct placement_view *v)
{
    size_t count[LEVELS_MAX];
    number_domains(v, v->domain, count);
    for (int kind = DOMAIN_NODE; kind < DOMAIN_COUNT; kind++) {
        if (kind == DOMAIN_NODE || count[kind] != count[kind - 1])
            begin_level(v, (enum job_domain)kind, count[kind]);
        v->level_of[kind] = v->n_levels - 1;
        for (size_t i = 0; i < v->n_nodes; i++)
            v->domain[i][v->n_levels - 1] = v->domain[i][kind];
    }
    for (int k = 0; k < v->n_levels; k++) {
        struct view_level *l = &v->level[k];
        for (size_t i = v->n_nodes; i-- > 0;) {
            l->first_node[v->domain[i][k]] = (uint32_t)i;
            l->first_child[v->domain[i][k]] = k > 0 ? v->domain[i][k - 1] : (uint32_t)i;
        }
        l->first_node[l->count] = (uint32_t)v->n_nodes;
        l->devices = most_slots(v, l);
        l->first_child[l->count] = (uint32_t)(k > 0 ? v->level[k - 1].count : v->n_nodes);
    }
}

static void hash_names(struct placement_view *v)
{
    v->name_mask = mask_for(v->n_nodes);
    v->by_name = mem_zero(v->name_mask + 1, sizeof(uint32_t));
    for (size_t i = 0; i < v->n_nodes; i++) {
        size_t at = hash_text(HASH_BEGIN, v->nodes[i].name) & v->name_mask;
        while (v->by_name[at] != 0)
            at = (at + 1) & v->name_mask;
        v->by_name[at] = (uint32_t)i + 1;
    }
}

/* ---- building ---- */

static size_t words_of(const struct placement_node *n)
{
    int64_t most = n->slots;
    if (n->n_free > 0 && n->free_slots[n->n_free - 1] >= most)
        most = n->free_slots[n->n_free - 1] + 1;
    return (size_t)(most + 63) / 64;
}

static void fill_node(struct placement_view *v, size_t i, const struct placement_node *n, uint64_t *bits)
{
    v->nodes[i] =
        (struct view_node){n->name,     n->rack, n->pod,   or_empty(n->nvlink), n->slots, n->memory, bits,
                           words_of(n), n->gpu,  n->usable};
    for (size_t k = 0; k < n->n_free; k++)
        bits[n->free_slots[k] / 64] |= UINT64_C(1) << (n->free_slots[k] % 64);
    v->n_free[i] = (int64_t)n->n_free;
    v->free_memory[i] = n->free_memory;
}

struct placement_view *placement_view_new(const struct placement_node *nodes, size_t n_nodes,
                                          const struct cluster_link links[DOMAIN_COUNT])
{
    struct placement_view *v = mem_zero(1, sizeof(*v));
    memcpy(v->links, links, sizeof(v->links));
    v->n_nodes = n_nodes;
    v->nodes = mem_zero(n_nodes, sizeof(*v->nodes));
    v->n_free = mem_zero(n_nodes, sizeof(int64_t));
    v->free_memory = mem_zero(n_nodes, sizeof(int64_t));
    v->domain = mem_zero(n_nodes, sizeof(*v->domain));
    for (size_t i = 0; i < n_nodes; i++)
        v->n_words += words_of(&nodes[i]);
    v->bits = mem_zero(v->n_words, sizeof(uint64_t));
    const struct placement_node **sorted = in_topology_order(nodes, n_nodes);
    uint64_t *bits = v->bits;
    for (size_t i = 0; i < n_nodes; i++) {
        fill_node(v, i, sorted[i], bits);
        bits += v->nodes[i].words;
    }
    free(sorted);
    hash_names(v);
    if (n_nodes > 0)
        build_levels(v);
    return v;
}

void placement_view_free(struct placement_view *view)
{
    if (!view)
        return;
    for (int k = 0; k < view->n_levels; k++) {
        free(view->level[k].first_child);
        free(view->level[k].first_node);
    }
    free(view->by_name);
    free(view->bits);
    free(view->domain);
    free(view->free_memory);
    free(view->n_free);
    free(view->nodes);
    free(view);
}

struct placement_view *view_scratch(const struct placement_view *view)
{
    struct placement_view *s = mem_zero(1, sizeof(*s));
    *s = *view;
    s->nodes = mem_zero(view->n_nodes, sizeof(*s->nodes));
    s->n_free = mem_zero(view->n_nodes, sizeof(int64_t));
    s->free_memory = mem_zero(view->n_nodes, sizeof(int64_t));
    s->bits = mem_zero(view->n_words, sizeof(uint64_t));
    memcpy(s->nodes, view->nodes, view->n_nodes * sizeof(*s->nodes));
    memcpy(s->n_free, view->n_free, view->n_nodes * sizeof(int64_t));
    memcpy(s->free_memory, view->free_memory, view->n_nodes * sizeof(int64_t));
    memcpy(s->bits, view->bits, view->n_words * sizeof(uint64_t));
    for (size_t i = 0; i < view->n_nodes; i++)
        s->nodes[i].bits = s->bits + (view->nodes[i].bits - view->bits);
    return s;
}

void view_scratch_free(struct placement_view *scratch)
{
    free(scratch->nodes);
    free(scratch->n_free);
    free(scratch->free_memory);
    free(scratch->bits);
    free(scratch);
}

/* ---- finding ---- */

int64_t view_find(const struct placement_view *view, const char *name)
{
    size_t at = hash_text(HASH_BEGIN, name) & view->name_mask;
    for (; view->by_name[at] != 0; at = (at + 1) & view->name_mask)
        if (strcmp(view->nodes[view->by_name[at] - 1].name, name) == 0)
            return view->by_name[at] - 1;
    return -1;
}

/* Ranks of a node mostly follow each other: most names are looked up once. */
void view_find_all(const struct placement_view *view, const struct placed_rank *ranks, int64_t n,
                   int32_t *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = i > 0 && strcmp(ranks[i - 1].node, ranks[i].node) == 0
                     ? out[i - 1]
                     : (int32_t)view_find(view, ranks[i].node);
}

/* ---- what is free ---- */

int view_kinds(const struct job_spec *spec, enum view_kind kinds[2])
{
    kinds[0] = spec->device == DEVICE_CPU ? KIND_ANY : KIND_GPU; /* a node with GPUs has CPUs too */
    kinds[1] = KIND_CPU;
    return spec->device == DEVICE_AUTO ? 2 : 1;
}

bool view_counts(const struct view_node *node, enum view_kind kind)
{
    return kind == KIND_ANY || node->gpu == (kind == KIND_GPU);
}

int64_t view_capacity(const struct placement_view *view, size_t node, int64_t memory,
                      enum placement_extent extent)
{
    const struct view_node *n = &view->nodes[node];
    if (extent != EXTENT_ALL && !n->usable)
        return 0;
    int64_t ranks = extent == EXTENT_FREE ? view->n_free[node] : n->slots;
    int64_t left = extent == EXTENT_FREE ? view->free_memory[node] : n->memory;
    if (n->memory == 0 || memory == 0)
        return ranks;
    int64_t by_memory = left > 0 ? left / memory : 0;
    return by_memory < ranks ? by_memory : ranks;
}

int64_t view_capacities(const struct placement_view *view, enum view_kind kind, int64_t memory,
                        enum placement_extent extent, int64_t *caps)
{
    int64_t sum = 0;
    for (size_t i = 0; i < view->n_nodes; i++) {
        caps[i] = view_counts(&view->nodes[i], kind) ? view_capacity(view, i, memory, extent) : 0;
        sum += caps[i];
    }
    return sum;
}

int64_t view_slots(const struct placement_view *view, enum view_kind kind, enum placement_extent extent)
{
    int64_t sum = 0;
    for (size_t i = 0; i < view->n_nodes; i++)
        if (view_counts(&view->nodes[i], kind))
            sum += view_capacity(view, i, 0, extent);
    return sum;
}

int64_t view_next_free(const struct placement_view *view, size_t node, int64_t from)
{
    const struct view_node *n = &view->nodes[node];
    for (size_t w = (size_t)from / 64; w < n->words; w++) {
        uint64_t bits = n->bits[w];
        if (w == (size_t)from / 64)
            bits &= ~UINT64_C(0) << (from % 64);
        if (bits != 0)
            return (int64_t)w * 64 + __builtin_ctzll(bits);
    }
    return -1;
}

static bool is_slot(const struct view_node *n, int64_t slot)
{
    return slot >= 0 && slot < n->slots && (size_t)slot / 64 < n->words;
}

bool view_take(struct placement_view *view, size_t node, int64_t slot, int64_t memory)
{
    struct view_node *n = &view->nodes[node];
    uint64_t bit = UINT64_C(1) << (slot & 63);
    if (!is_slot(n, slot) || !(n->bits[slot / 64] & bit))
        return false;
    n->bits[slot / 64] &= ~bit;
    view->n_free[node]--;
    view->free_memory[node] -= memory;
    return true;
}

bool view_give(struct placement_view *view, size_t node, int64_t slot, int64_t memory)
{
    struct view_node *n = &view->nodes[node];
    uint64_t bit = UINT64_C(1) << (slot & 63);
    if (!is_slot(n, slot) || (n->bits[slot / 64] & bit))
        return false;
    n->bits[slot / 64] |= bit;
    view->n_free[node]++;
    view->free_memory[node] += memory;
    return true;
}

void placement_view_take(struct placement_view *view, const struct placed_rank *ranks, size_t n,
                         int64_t memory)
{
    for (size_t i = 0; i < n; i++) {
        int64_t node = view_find(view, ranks[i].node);
        if (node >= 0)
            (void)view_take(view, (size_t)node, ranks[i].slot, memory); /* taken before: nothing to do */
    }
}

void placement_view_give(struct placement_view *view, const struct placed_rank *ranks, size_t n,
                         int64_t memory)
{
    for (size_t i = 0; i < n; i++) {
        int64_t node = view_find(view, ranks[i].node);
        if (node >= 0)
            (void)view_give(view, (size_t)node, ranks[i].slot, memory); /* free before: nothing to do */
    }
}

void placement_view_usable(struct placement_view *view, const char *node, bool usable)
{
    int64_t i = view_find(view, node);
    if (i >= 0)
        view->nodes[i].usable = usable;
}

void view_name_copy(struct placed_rank *rank, const char *name)
{
    size_t n = strnlen(name, sizeof(rank->node) - 1);
    memcpy(rank->node, name, n);
    memset(rank->node + n, 0, sizeof(rank->node) - n);
}
