/* planner: what a training job costs, from its file, a kind of device and the links between them: parameters, FLOPs, memory, traffic,
 * the time of a step, and what follows from it. Pure arithmetic; every formula with its source is in docs/planning.md. */
#ifndef BELAY_PLANNER_PLANNER_H
#define BELAY_PLANNER_PLANNER_H

#include <stdbool.h>

#include "common/err.h"
#include "planner/device.h"
#include "planner/fabric.h"
#include "planner/flops.h"
#include "planner/memory.h"
#include "planner/params.h"
#include "planner/saves.h"
#include "planner/steptime.h"
#include "planner/traffic.h"

#define PLAN_ZERO_STAGES 4
#define PLAN_RECOMPUTES  3 /* by enum job_recompute */

struct plan_request {
    const struct job_spec *spec; /* borrowed */
    const struct plan_device *device;
    struct cluster_link links[DOMAIN_COUNT]; /* by the smallest part that holds both ends */
    double devices[DOMAIN_COUNT];            /* in one part of that level; 0 = none or not known */
    enum job_domain
        level[AXIS_COUNT]; /* smallest part that holds every group of the axis, as placement_cost says */
    double tokens;         /* of the whole training; 0 = those of the job's steps */
    double watts;          /* of one device; 0 = what its maker says */
    double mfu;            /* 0, or one to say the days at, besides the predicted one */
};

/* Everything else as it is without a cluster: links and sizes of the device's own servers, ranks in order of the topology. spec and
 * device are borrowed. */
void plan_request_init(const struct job_spec *spec, const struct plan_device *device,
                       struct plan_request *out);

/* The level of each axis where there is no placement: ranks follow the topology, TP fastest, then CP, PP and DP. */
void plan_level_default(const struct job_spec *spec, const double devices[DOMAIN_COUNT],
                        enum job_domain level[AXIS_COUNT]);

/* All that is known about the job. Bytes and seconds of the fullest device and the busiest pipeline rank. */
struct plan {
    struct params params;
    struct params_share share; /* of the fullest device */
    struct flops flops;        /* per token */

    struct memory memory;                                   /* as the job asks */
    double memory_total[PLAN_ZERO_STAGES][PLAN_RECOMPUTES]; /* bytes, everything else as the job asks */
    double memory_activations[PLAN_RECOMPUTES];             /* bytes */
    double memory_device;                                   /* bytes that it has; 0 = not limited */
    bool fits;
    bool unconfirmed;    /* plan_unconfirmed */
    double kv_cache;     /* bytes of one sequence at inference, over all devices */
    double kv_sequences; /* that fit on one replica's TP x PP devices beside weights and reserve */

    struct traffic traffic; /* per rank and step */
    enum job_domain level[AXIS_COUNT];
    double axis_seconds[AXIS_COUNT];  /* on its links, hidden or not */
    double level_bytes[DOMAIN_COUNT]; /* per rank and step, of the axes that cross the level */

    struct steptime step;
    double micro_batches; /* per replica and step */
    double step_tokens;   /* over all replicas */
    double tokens_per_s;  /* all devices */
    double mfu;           /* attention counted as the causal mask leaves it */
    double mfu_full;      /* attention counted in full, as PaLM, Megatron and torchtitan do */
    double hfu;
    double tokens, steps;     /* of the whole training */
    double total_flops;       /* model FLOPs of it */
    double days, kwh;         /* kwh: at `watts` a device */
    double days_at_mfu;       /* plan_days_at the request's; 0 = none was given */
    double watts;             /* that counted */
    struct saves_facts saves; /* what a checkpoint costs, and what it is made for */
};

/* -1 with a sentence when the job cannot be planned: run: jobs, meshes that do not divide the model. */
int plan_make(const struct plan_request *request, struct plan *out, struct err *err);

/* True of a mesh whose like no published run confirms: ZeRO-3 over more nodes than the largest run of the table in docs/planning.md.
 * devices: in one part of each level, as in a request. */
bool plan_unconfirmed(const struct job_spec *spec, const double devices[DOMAIN_COUNT]);

/* The least change with which a plan that does not fit would: another ZeRO stage first, then recomputation. False: none does. */
bool plan_remedy(const struct plan_request *request, const struct plan *plan, int64_t *zero,
                 enum job_recompute *recompute);

/* Days for `parameters` (active) on `tokens` at that MFU: 6 x parameters x tokens / (devices x dense bf16 peak x mfu). */
double plan_days_at(double parameters, double tokens, double devices, const struct plan_device *device,
                    double mfu);

/* The largest model whose weights, gradients and AdamW state fit when all of it is sharded and nothing else is there. */
double plan_largest_model(double devices, const struct plan_device *device, enum job_precision precision);

#endif
