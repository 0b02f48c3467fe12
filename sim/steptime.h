/* steptime: how long a training step of a job takes when the scenario does not say: the planner's answer for the devices and links of the
 * cluster, ranks in topology order (planner/planner.h). */
#ifndef BELAY_SIM_STEPTIME_H
#define BELAY_SIM_STEPTIME_H

#include "common/err.h"
#include "schema/scenario.h"

/* *step_ms > 0, or -1 with a sentence: the type of the devices is not known, or the job cannot be planned. */
int steptime_plan(const struct cluster_spec *cluster, const struct job_spec *spec, double *step_ms,
                  struct err *err);

#endif
