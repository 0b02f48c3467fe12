/* placement_explain: why a job does not fit, in one sentence, and how much of it would. Inside daemon/core only. */
#ifndef BELAY_DAEMON_CORE_PLACEMENT_EXPLAIN_H
#define BELAY_DAEMON_CORE_PLACEMENT_EXPLAIN_H

#include "daemon/core/placement_mesh.h"

/* The result and its sentence for a job that placement_find could not place. */
enum placement_result explain_misfit(const struct placement_view *view, const struct job_spec *spec,
                                     const struct mesh *mesh, struct err *why);

#endif
