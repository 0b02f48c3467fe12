/* plancluster: what a cluster file says to `belay plan`: links, sizes of its parts, kind of device. */
#ifndef BELAY_LAUNCHER_PLANCLUSTER_H
#define BELAY_LAUNCHER_PLANCLUSTER_H

#include "planner/planner.h"
#include "schema/cluster.h"

/* CLI_DONE with *out (cluster_spec_free), or CLI_USAGE after printing what is wrong with the file. */
int plancluster_load(const char *path, struct cluster_spec **out);

/* The type of the first devices that say one and that a job may use that asks for `kind`: GPUs first for DEVICE_AUTO. "" when none
 * does. */
const char *plancluster_device(const struct cluster_spec *cluster, enum job_device kind);

/* CLI_DONE when some node has the device, or says a type that the planner does not know or none; else CLI_USAGE after saying which there
 * are. path: of the file, for the sentence. */
int plancluster_check(const struct cluster_spec *cluster, const char *path, const struct plan_device *device);

/* Puts its links, the devices of the largest part of each level, and the levels that follow from those into the request. */
void plancluster_apply(const struct cluster_spec *cluster, struct plan_request *request);

#endif
