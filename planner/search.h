/* search: the meshes that a number of devices can form for a model, best first, each with the reason why it loses.
 *
 * For every TP x PP x CP x EP that divides the model and the devices, micro-batch, virtual stages, ZeRO stage and recomputation are
 * chosen so that it fits and is fastest; then the meshes are ranked by the time of a step. Ranks are taken to follow the topology. */
#ifndef BELAY_PLANNER_SEARCH_H
#define BELAY_PLANNER_SEARCH_H

#include "planner/planner.h"

#define SEARCH_WHY_SIZE 160

struct search_result {
    int64_t tp, pp, cp, dp, ep, zero, micro, virtual_stages;
    enum job_pipeline pipeline;
    enum job_recompute recompute;
    struct plan plan;
    char why[SEARCH_WHY_SIZE]; /* "" of the best; else what costs it most, or by how much it does not fit */
};

/* What is not to be chosen but as given; SEARCH_FREE = anything. */
#define SEARCH_FREE (-1)
struct search_limits {
    int64_t tp, pp, cp, dp, ep, zero, micro, virtual_stages;
    int64_t recompute; /* an enum job_recompute */
};
extern const struct search_limits search_free;

/* base: the model, the global batch, spec->ranks devices and their links, and which borders are required, which every mesh keeps. Its mesh,
 * its batch's split and its levels are not looked at. TP stays within NVLink unless limits say otherwise; CP is used for contexts
 * below 16,384 tokens only when nothing else fits or when limits say so. A mesh that no published run confirms counts 5 % slower than it
 * is. *out: a fresh array (free), those that fit first, fastest first, then those that do not, least memory first. Returns how many,
 * or 0 with a sentence. */
size_t plan_search(const struct plan_request *base, const struct search_limits *limits,
                   struct search_result **out, struct err *err);

#endif
