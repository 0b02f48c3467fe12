/* flops: floating point operations of training, per token. Formulas and sources: docs/planning.md, "FLOPs".
 *
 * A product of matrices costs 2 per weight and token forward and 4 backward. "Model" counts what the mathematics needs; "hardware"
 * adds what is computed twice to save memory. */
#ifndef BELAY_PLANNER_FLOPS_H
#define BELAY_PLANNER_FLOPS_H

#include "schema/job.h"

struct flops {
    double six_n;            /* 6 x active parameters, the usual estimate */
    double blocks;           /* 6 x weights of the blocks' matrices (of top_k experts) */
    double head;             /* 6 x hidden x vocab */
    double attention_causal; /* scores and values: 6 x layers x hidden x context, what a causal mask leaves */
    double attention_full;   /* twice that, as Megatron, PaLM and torchtitan count */
    double model;            /* blocks + head + attention_causal: the exact count; MFU uses it */
    double model_full;       /* with attention_full, to compare with MFU published so */
    double hardware;         /* model + recomputation, that within flash attention too; HFU uses it */
};

/* Per token, forward and backward. recompute: of the blocks. */
void flops_count(const struct job_model *m, enum job_recompute recompute, struct flops *out);

#endif
