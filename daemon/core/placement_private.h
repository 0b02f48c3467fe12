/* placement_private: entrances of the placement engine for its tests and measurements. */
#ifndef BELAY_DAEMON_CORE_PLACEMENT_PRIVATE_H
#define BELAY_DAEMON_CORE_PLACEMENT_PRIVATE_H

#include "daemon/core/placement.h"

/* placement_find with traffic other than the job's own. */
enum placement_result placement_find_with(const struct placement_view *view, const struct job_spec *spec,
                                          const struct traffic *traffic, struct placed_rank *ranks,
                                          struct err *why);

#endif
