/* placement_search: which level of the cluster each dimension of the mesh gets, so that the seconds per step are least.
 *
 * Exact: see docs/placement.md. Inside daemon/core only. */
#ifndef BELAY_DAEMON_CORE_PLACEMENT_SEARCH_H
#define BELAY_DAEMON_CORE_PLACEMENT_SEARCH_H

#include "daemon/core/placement_mesh.h"

/* A block of level k holds all ranks that differ only in dimensions of level <= k; it lies within one domain of level k. */
struct search_blocks {
    int64_t size[LEVELS_MAX];   /* ranks in a block */
    int64_t *count[LEVELS_MAX]; /* blocks that each domain of the level has room for; owned */
    int64_t total[LEVELS_MAX];  /* their sum */
};

struct search_plan {
    int level[MESH_DIMS]; /* of each dimension of the mesh */
    double seconds;
};

/* Room for counts of every domain; search_blocks_free for what it holds. */
void search_blocks_init(struct search_blocks *b, const struct placement_view *view);
void search_blocks_free(struct search_blocks *b);

/* Fills all sizes and counts for these levels of the dimensions; caps: ranks by node. */
void search_count(const struct placement_view *view, const struct mesh *mesh, const int *level,
                  const int64_t *caps, struct search_blocks *b);

/* The cheapest levels that have room for the whole job, within its required borders. False when there are none. */
bool search_levels(const struct placement_view *view, const struct job_spec *spec, const struct mesh *mesh,
                   const int64_t *caps, struct search_plan *out);

#endif
