/* steptime: where the time of a training step goes. Formulas and sources: docs/planning.md, "Step time".
 *
 * The step is that of the busiest pipeline rank: its micro-batches one after the other, then the bubble, then what of the
 * exchange between replicas does not hide, then the optimizer. Communication is counted only where it keeps the device waiting. */
#ifndef BELAY_PLANNER_STEPTIME_H
#define BELAY_PLANNER_STEPTIME_H

#include "planner/fabric.h"
#include "planner/traffic.h"

struct steptime {
    double products;    /* matrix products of blocks and head */
    double attention;   /* scores and values */
    double elementwise; /* norms, activations, loss: bound by memory */
    double recompute;   /* what of the forward pass is done again */
    double tp, cp, ep;  /* communication inside of passes, where it does not hide */
    double pp;          /* sending between pipeline ranks, likewise */
    double bubble;      /* waiting for the pipeline to fill and to run empty */
    double dp;          /* gradients and parameters between replicas, likewise */
    double optimizer;
    double jitter;       /* waiting for the slowest of all ranks */
    double total;        /* the sum */
    double bubble_share; /* of the time in passes */
};

/* Seconds of a step. level: of each axis; the fabric's device computes. The spec must be a training job. */
void steptime_of(const struct job_spec *spec, const struct fabric *fabric,
                 const enum job_domain level[AXIS_COUNT], struct steptime *out);

#endif
