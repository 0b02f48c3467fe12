/* memory: bytes on one device, by part. Formulas and sources: docs/planning.md, "Memory". */
#ifndef BELAY_PLANNER_MEMORY_H
#define BELAY_PLANNER_MEMORY_H

#include "schema/job.h"

struct memory {
    double weights, gradients, optimizer; /* cut over the replicas by the ZeRO stage */
    double gathered;                      /* ZeRO-3: two blocks whole, one in use and one on its way */
    double activations;                   /* kept for the backward pass, of all micro-batches in flight */
    double working;                       /* of the block that is computed again (recompute full) */
    double logits;                        /* of one micro-batch, on the last pipeline rank */
    double reserve;                       /* context, libraries, communication buffers, fragmentation */
    double total;
    double fp32_gradients; /* not in total: what gradients take more where they are added up in fp32 */
    double images;         /* not in total: host memory for copies of the rank's part of a checkpoint */
    double in_flight; /* micro-batches whose activations wait, in whole passes through the rank's blocks */
};

/* The fullest device of the mesh. A device without a GPU's software around it reserves nothing. */
void memory_of(const struct job_spec *spec, bool gpu, struct memory *out);

/* The same, of a given ZeRO stage and recomputation instead of the spec's. */
void memory_with(const struct job_spec *spec, bool gpu, int64_t zero, enum job_recompute recompute,
                 struct memory *out);

/* Copies of a rank's part of a checkpoint in the memory of its node: the one that a save writes from; with checkpoint.memory two, used in turn,
 * and as many of the buddy's. */
int64_t memory_n_images(const struct job_spec *spec);

/* Bytes that one token and one block leave for the backward pass, all ranks of TP together. width: bytes of a number. */
double memory_block_activation(const struct job_model *m, enum job_recompute recompute, double width);

/* Passes through a pipeline rank's blocks whose activations wait at once; stage from 0. */
double memory_in_flight(const struct job_spec *spec, int64_t stage);

/* Bytes of weights, gradients and AdamW's state of one parameter, nothing sharded: 16. */
double memory_per_parameter(enum job_precision precision);

/* Keys and values of one sequence of `context` tokens at inference, bytes; width: of a number (2 for fp16 and bf16). */
double memory_kv_cache(const struct job_model *m, int64_t context, double width);

#endif
