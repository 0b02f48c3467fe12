/* placement_view: the free slots of a cluster and its tree, as the parts of the placement engine see them.
 *
 * Nodes are sorted by pod, rack, NVLink domain and name, so that every domain is a run of nodes. Kinds of domain that divide the
 * nodes just as the next smaller kind does are left out: what is left are the levels, level 0 the nodes, the last one the whole.
 * With one pod, for example, pod and cluster are one level. Inside daemon/core only. */
#ifndef BELAY_DAEMON_CORE_PLACEMENT_VIEW_H
#define BELAY_DAEMON_CORE_PLACEMENT_VIEW_H

#include "daemon/core/placement.h"

enum { LEVELS_MAX = DOMAIN_COUNT };

struct view_node {
    const char *name, *rack, *pod, *nvlink;
    int64_t slots, memory; /* in all */
    uint64_t *bits;        /* its free slots; bit s of word s/64 */
    size_t words;
    bool gpu, usable;
};

struct view_level {
    enum job_domain kind; /* the smallest kind with these domains */
    size_t count;
    uint32_t *first_child; /* [count+1] domains of the level below; level 0: nodes, itself */
    uint32_t *first_node;  /* [count+1] */
    int64_t devices;       /* slots of the largest of them */
};

struct placement_view {
    struct view_node *nodes; /* in topology order */
    size_t n_nodes;
    uint32_t (*domain)[LEVELS_MAX]; /* of a node, by level */
    struct view_level level[LEVELS_MAX];
    int n_levels;             /* 0 only without nodes */
    int level_of[LEVELS_MAX]; /* by kind of domain: the level that has its domains */
    struct cluster_link links[DOMAIN_COUNT];
    /* what changes */
    int64_t *n_free, *free_memory;
    uint64_t *bits;
    size_t n_words;
    uint32_t *by_name; /* open addressing: number of a node + 1, or 0 */
    size_t name_mask;
};

/* Which nodes count: those with GPUs, those without, or both. */
enum view_kind { KIND_GPU, KIND_CPU, KIND_ANY };

/* The kinds of node to try for a job, in this order; how many there are (1 or 2). A job never mixes those of `auto`. */
int view_kinds(const struct job_spec *spec, enum view_kind kinds[2]);
bool view_counts(const struct view_node *node, enum view_kind kind);

/* Number of the node of that name, or -1. */
int64_t view_find(const struct placement_view *view, const char *name);
/* The numbers of the nodes that n ranks are on, -1 where the view has no such node: out[n]. */
void view_find_all(const struct placement_view *view, const struct placed_rank *ranks, int64_t n,
                   int32_t *out);

/* The smallest level with both nodes in one domain. */
static inline int view_common(const struct placement_view *view, size_t a, size_t b)
{
    int level = 0;
    while (view->domain[a][level] != view->domain[b][level])
        level++;
    return level;
}

/* Ranks with that much memory each (0 = any) that fit on each node, as slots and memory go: caps[n_nodes]. Returns their sum. */
int64_t view_capacities(const struct placement_view *view, enum view_kind kind, int64_t memory,
                        enum placement_extent extent, int64_t *caps);
int64_t view_capacity(const struct placement_view *view, size_t node, int64_t memory,
                      enum placement_extent extent);
/* Slots, whatever memory they have. */
int64_t view_slots(const struct placement_view *view, enum view_kind kind, enum placement_extent extent);

/* The first free slot of a node at or after `from`, or -1. */
int64_t view_next_free(const struct placement_view *view, size_t node, int64_t from);

/* Takes or gives one slot; false when it was not free (not taken) or is none of the node's. */
bool view_take(struct placement_view *view, size_t node, int64_t slot, int64_t memory);
bool view_give(struct placement_view *view, size_t node, int64_t slot, int64_t memory);

/* A copy whose slots can be taken on their own; shares all else with the view, which must outlive it. */
struct placement_view *view_scratch(const struct placement_view *view);
void view_scratch_free(struct placement_view *scratch);

void view_name_copy(struct placed_rank *rank, const char *name);

#endif
