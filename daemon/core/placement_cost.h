/* placement_cost: what an assignment of ranks to nodes costs, by looking at every group. Inside daemon/core only. */
#ifndef BELAY_DAEMON_CORE_PLACEMENT_COST_H
#define BELAY_DAEMON_CORE_PLACEMENT_COST_H

#include "daemon/core/placement_view.h"

/* node_of[spec->ranks]: numbers of nodes; ranks with -1 are left out. As placement_cost otherwise. */
void cost_of(const struct placement_view *view, const struct job_spec *spec, const struct traffic *traffic,
             const int32_t *node_of, struct placement_cost *out);

#endif
