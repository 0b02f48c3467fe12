/* planask: from the words of `belay plan` to a job, a device and links: what is planned.
 *
 * The job comes from a file, or is made of --model and the other options. Where the mesh is searched for, options of the mesh are what
 * the search keeps; where one is given, what is not said is 1 and DP takes the rest. */
#ifndef BELAY_LAUNCHER_PLANASK_H
#define BELAY_LAUNCHER_PLANASK_H

#include "launcher/jobfile.h"
#include "planner/search.h"
#include "schema/cluster.h"

#define PLANASK_NOT_GIVEN (-1)

struct planask {
    const char *file; /* or NULL */
    struct args_list sets;
    const char *model, *gpu, *tokens, *watts, *mfu, *recompute, *cluster;
    bool search;                                                                    /* rank meshes */
    int64_t gpus, tp, pp, cp, dp, ep, zero, micro, global, context, virtual_stages; /* PLANASK_NOT_GIVEN */
};

/* Everything that a plan needs. spec is the file's or a made one; cluster is NULL without --cluster. */
struct planask_job {
    struct jobfile file; /* of a plan of a file; its text is what a server can be asked about */
    struct job_spec *spec;
    struct cluster_spec *cluster;
    struct plan_request request; /* links and levels as without a placement */
    bool choose_mesh;            /* neither file nor options say a mesh, or they are ranked */
    struct search_limits limits; /* what of it is given */
};

/* CLI_DONE with *out filled (planask_clear), or an exit code after saying what is wrong. */
int planask_read(const struct planask *ask, struct planask_job *out);
void planask_clear(struct planask_job *job);

#endif
