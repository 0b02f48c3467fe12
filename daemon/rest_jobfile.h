/* rest_jobfile: the job file in a request: {"spec": text, "file": its name for messages, "set": ["key=value", …]}. */
#ifndef BELAY_DAEMON_REST_JOBFILE_H
#define BELAY_DAEMON_REST_JOBFILE_H

#include "daemon/exchange.h"

/* The spec (job_spec_free), or NULL after a refusal that lists what is wrong with it. plan_only: it is not to be run. */
struct job_spec *rest_jobfile_read(struct exchange *x, bool plan_only);

#endif
