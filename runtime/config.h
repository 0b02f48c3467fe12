/* config: what this program can and cannot do with a job, decided before any rank starts work. */
#ifndef BELAY_RUNTIME_CONFIG_H
#define BELAY_RUNTIME_CONFIG_H

#include "common/err.h"
#include "schema/job.h"

/* 0, or the exit code with a sentence: 93 for what this version can never do, 2 for a number of ranks that does not fit the job. */
int config_check(const struct job_spec *spec, int world, struct err *err);

#endif
