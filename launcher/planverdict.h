/* planverdict: could the planned job start, and where would it go: asked of a cluster file, or of the cluster that runs. */
#ifndef BELAY_LAUNCHER_PLANVERDICT_H
#define BELAY_LAUNCHER_PLANVERDICT_H

#include "launcher/planask.h"
#include "schema/verdict.h"

struct planverdict {
    bool known; /* somebody was asked */
    struct verdict verdict;
    json_t *encoded; /* the same as sent or as it would be */
    json_t *nodes;   /* of the cluster that runs, as GET /v1/nodes; NULL for a cluster file */
};

/* With --cluster from the file, else for a job file from the cluster in dir (a note on stderr when none answers). A made job in no
 * cluster has no verdict. job->spec has its mesh. CLI_DONE, or an exit code after saying what is wrong. Clear *out in any case. */
int planverdict_ask(const struct planask *ask, const struct planask_job *job, const char *dir,
                    struct planverdict *out);
void planverdict_clear(struct planverdict *v);

/* Where the plan does not fit the memory of its device, the job can never run, whatever is free: puts that into the verdict, and what would
 * change it. A verdict that says never already stays. */
void planverdict_memory(struct planverdict *v, const struct plan_request *request, const struct plan *plan);

/* Puts the levels that the placement has into the request; leaves it alone where there is none. */
void planverdict_levels(const struct planverdict *v, struct plan_request *request);

/* Draws the cluster, with the ranks where they would go, into the file. colour: tp, pp or dp. */
int planverdict_draw(const struct planverdict *v, const struct planask_job *job, const char *path,
                     const char *colour);

#endif
