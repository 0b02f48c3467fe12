/* placement_pack: from levels to slots: which domains the blocks of a plan go to, and which rank to which slot. Inside daemon/core only.
 *
 * Any choice of domains with room costs the same seconds; this one sends the fewest bytes over the top of the cluster it can find and
 * leaves the largest whole domains free (docs/placement.md). */
#ifndef BELAY_DAEMON_CORE_PLACEMENT_PACK_H
#define BELAY_DAEMON_CORE_PLACEMENT_PACK_H

#include "daemon/core/placement_search.h"

/* Fills ranks[spec->ranks] for a plan that search_levels found with these caps. */
void pack_plan(const struct placement_view *view, const struct job_spec *spec, const struct mesh *mesh,
               const struct search_plan *plan, enum view_kind kind, const int64_t *caps,
               struct placed_rank *ranks);

#endif
