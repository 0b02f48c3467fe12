/* steptime: how long a training step of a job takes when the scenario does not say: the planner's answer. */
#ifndef BELAY_SIM_STEPTIME_H
#define BELAY_SIM_STEPTIME_H

#include "common/err.h"
#include "schema/scenario.h"

/* *step_ms > 0, or -1 with a sentence. */
int steptime_plan(const struct scenario *scenario, const struct scenario_job *job, double *step_ms,
                  struct err *err);

#endif
