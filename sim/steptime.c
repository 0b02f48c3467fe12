/* steptime: the cluster as the planner wants it: one type of device, and how many are in one part of each level on average. */
#include "sim/steptime.h"

#include <string.h>

#include "planner/planner.h"

static bool same_part(const struct cluster_node *a, const struct cluster_node *b, enum job_domain level)
{
    bool pod = strcmp(a->pod, b->pod) == 0, rack = pod && strcmp(a->rack, b->rack) == 0;
    bool nvlink = rack && a->nvlink[0] && strcmp(a->nvlink, b->nvlink) == 0;
    return level == DOMAIN_CLUSTER || (level == DOMAIN_POD && pod) || (level == DOMAIN_RACK && rack) ||
           (level == DOMAIN_NVLINK && nvlink);
}

static double devices_in_part(const struct cluster_spec *c, enum job_domain level)
{
    double devices = 0, parts = 0;
    bool domains = false;
    for (size_t i = 0; i < c->n_nodes; i++) {
        devices += (double)c->nodes[i].slots;
        parts += i == 0 || !same_part(&c->nodes[i - 1], &c->nodes[i], level);
        domains = domains || c->nodes[i].nvlink[0];
    }
    return level == DOMAIN_NVLINK && !domains ? 0 : devices / parts;
}

static const char *device_of(const struct cluster_spec *c)
{
    for (size_t i = 0; i < c->n_nodes; i++)
        if (c->nodes[i].device[0])
            return c->nodes[i].device;
    return "gpu";
}

int steptime_plan(const struct cluster_spec *cluster, const struct job_spec *spec, double *step_ms,
                  struct err *err)
{
    struct plan_request q;
    struct plan plan;
    const struct plan_device *device = plan_device_find(device_of(cluster), err);
    if (!device)
        return -1;
    plan_request_init(spec, device, &q);
    for (enum job_domain level = 0; level < DOMAIN_COUNT; level++) {
        q.links[level] = cluster->links[level];
        q.devices[level] = devices_in_part(cluster, level);
    }
    plan_level_default(spec, q.devices, q.level);
    if (plan_make(&q, &plan, err) < 0)
        return -1;
    *step_ms = plan.step_tokens / plan.tokens_per_s * 1e3;
    return *step_ms > 0 ? 0 : err_set(err, "the planner gives no time for a step of %s", spec->name);
}
