/* model: one rank's part of a GPT-2, Llama or mixture-of-experts transformer: its layers, its part of each matrix, its part of each
 * sequence; forward and backward passes by hand, over kernels.h and comm.h.
 *
 * The model computes; it does not own what it computes with. Weights and gradients belong to the caller (engine), who is asked for them
 * unit by unit (layout.h) through hooks: that is where ZeRO gathers, frees and reduces. A pass works on one micro-batch in one slot, which
 * keeps what the backward pass needs; as many slots as the schedule has micro-batches in flight.
 *
 * Letters: B sequences of a micro-batch, T tokens of a whole sequence; N = B * T/CP tokens that this rank works on; R = N, or N/TP under
 * sequence parallelism: rows of the residual stream (C wide) between the blocks; token n of a sequence's part lies at row b * T/CP + n. */
#ifndef BELAY_RUNTIME_MODEL_H
#define BELAY_RUNTIME_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "kernels/kernels.h"
#include "runtime/comm/mesh.h"
#include "runtime/model/layout.h"
#include "schema/job.h"

struct model;

/* What the model asks of the owner of its numbers; `unit` counts in the layout. Every pass brackets its use of a unit by need and done. */
struct model_hooks {
    void *owner;
    /* The unit's weights must be at units[].weights, and with `gradients` its gradients (or room that is 0) at units[].gradients. */
    void (*need)(void *owner, size_t unit, bool gradients);
    /* The unit will be needed next. */
    void (*ahead)(void *owner, size_t unit);
    void (*done)(void *owner, size_t unit);
    /* This pass has added all that it adds to the gradients of the unit. Called before done. */
    void (*gradients)(void *owner, size_t unit);
    /* Called between pieces of work, for communication to move on. */
    void (*idle)(void *owner);
};

/* Where a unit's numbers lie now; elements as the layout says. The owner writes it, the model reads it between need and done. */
struct model_unit {
    act *weights;
    real *gradients;
};

struct model_request {
    const struct job_model *config;
    const struct mesh *mesh;       /* borrowed */
    const struct kernels *kernels; /* borrowed */
    const struct layout *layout;   /* borrowed */
    struct model_unit *units;      /* borrowed: n_units of the layout */
    struct model_hooks hooks;
    size_t batch, context; /* B, T */
    bool sequence;         /* sequence parallelism (has effect with TP > 1) */
    enum job_recompute recompute;
    bool
        split_weights; /* zero-bubble: model_backward leaves the weight gradients of the layers to model_weights; not with recompute */
    int slots;
    uint64_t seed; /* of dropout */
    /* Do the numbers of a unit lie in the same places from step to step: its weights, and its gradients, too? Then layers may be repeated
     * (kernels.h, repeat). */
    bool fixed_weights, fixed_gradients;
    bool fp8; /* the products of the layers' dense matrices, in training (kernels.h) */
    bool
        inference; /* forward passes only: nothing is kept for a backward pass, and there is no room for gradients */
    size_t
        sequences; /* with inference: whose keys and values are kept; a pass is then `batch` tokens of any of them (decode.h). 0 = none */
};

/* NULL with a sentence when the sizes do not fit together or memory is short. */
struct model *model_new(const struct model_request *request, struct err *err);
void model_free(struct model *model);

/* Before the first pass of a training step. */
void model_begin(const struct model *model);
/* What is known of the operands of products in fp8: *count reals of backend memory, as many on all ranks; NULL and 0 without fp8. */
real *model_fp8(const struct model *model, size_t *count);

/* Elements (of act) of what passes from stage to stage: R * C. */
size_t model_boundary(const struct model *model);
/* Bytes held for activations, of all slots and scratch. */
size_t model_activation_bytes(const struct model *model);

/* The tokens that this rank works on, of a whole sequence: local token i (0 .. T/CP-1) is at this position (zig-zag: rank r of CP holds chunks r and
 * 2 CP - 1 - r of 2 CP, so that causal attention costs all ranks the same). */
const int32_t *model_positions(const struct model *model);

/* What a pass is about. */
struct model_batch {
    int slot;
    size_t chunk;           /* of the layout */
    const int32_t *tokens;  /* (B,T/CP), this rank's; needed where the chunk begins the model */
    const int32_t *targets; /* (B,T/CP), < 0: not counted; needed where it ends it */
    uint64_t first_sample;  /* global number of the first sequence: what dropout depends on */
    uint64_t step;          /* likewise */
    double
        scale; /* of the loss: gradients are those of scale * sum of cross-entropies + aux_scale * sum over sequences of the router losses */
    double aux_scale;
    bool train; /* false: no dropout, nothing is kept for a backward pass */
};

/* The input (R,C) of a chunk that does not begin the model: the caller puts there what the stage before sent. */
act *model_input(const struct model *model, int slot, size_t chunk);
/* One chunk forward. out (R,C) gets what the next stage needs; not used where the chunk ends the model: then the loss is computed, and when
 * training the gradients of the head at once, so that logits are never kept. Tokens or targets outside of the vocabulary: loss NaN. Does not wait for
 * a device that computes on its own, unless there are experts. */
void model_forward(struct model *model, const struct model_batch *batch, act *out);

/* Sums over this rank's tokens (not over ranks): */
struct model_loss {
    double cross_entropy; /* nats, over counted targets; the same on all ranks of the TP group */
    double
        router; /* balance and z losses with their weights, summed over sequences and layers of this rank */
};
/* What the forward passes since the last call have come to; waits for them. */
struct model_loss model_take_loss(struct model *model);

/* Logits (count, vocab), in host memory, of rows rows[] (count <= N) of a pass over the whole model: one rank, one chunk. Tokens must be within
 * the vocabulary; targets are not looked at. */
void model_logits(struct model *model, const struct model_batch *batch, const int32_t *rows, size_t count,
                  real *logits);
/* The same chunk backward, in place: d (R,C) goes from the gradient of the output to that of the input. Where the chunk ends the model d is only
 * written. Adds to the gradients. With split_weights those of the layers' matrices and biases are left to model_weights. */
void model_backward(struct model *model, const struct model_batch *batch, act *d);
void model_weights(struct model *model, const struct model_batch *batch);

/* First value of element (row, column) of a tensor as a pure function of (seed, name, place in the whole tensor), so that it does not depend on
 * the mesh: N(0, 0.02), residual projections scaled by 1/sqrt(2 layers) (GPT-2 paper, section 2.3), norms 1, biases 0. out (rows, columns) in host memory. */
void model_init_tensor(const struct layout_tensor *tensor, const struct job_model *config, uint64_t seed,
                       real *out);

/* Model FLOPs of one training step per token (forward + backward), the PaLM count (arXiv 2204.02311, appendix B): 6 N + 12 layers hidden context, N the
 * parameters that a token meets (top_k of the experts), the position table not counted; a table that is only looked up is not counted either. */
double model_flops_per_token(const struct job_model *config, size_t context);
/* Hardware FLOPs: the same and what recomputation adds (full: a third of it, i.e. one more forward pass; selective: the attention products). */
double model_hardware_flops_per_token(const struct job_model *config, size_t context,
                                      enum job_recompute recompute);

#endif
