/* model: GPT-2 and Llama with hand-written backward passes, over the functions of kernels/kernels.h.
 *
 * One replica of the model: parameters and gradients are two flat buffers of `real` cut into named tensors, in a fixed order that
 * depends only on the configuration. The caller owns optimizer state and communication; they work on the flat buffers. */
#ifndef BELAY_RUNTIME_MODEL_H
#define BELAY_RUNTIME_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "kernels/real.h"
#include "schema/job.h"

struct model;

#define MODEL_TENSOR_DIMS 3
struct model_tensor {
    char name
        [64]; /* Hugging Face style, e.g. "h.0.attn.c_attn.weight", "model.layers.0.self_attn.q_proj.weight" */
    size_t shape[MODEL_TENSOR_DIMS];
    size_t dims;
    size_t offset, count; /* elements within the flat buffers */
    bool decay;           /* weight decay applies (matrices, not norms, biases or position tables) */
};

/* Makes a model for micro-batches of `batch` sequences of `context` tokens. NULL with a sentence when memory is short. */
struct model *model_new(const struct job_model *config, size_t batch, size_t context, struct err *err);
void model_free(struct model *model);

size_t model_parameter_count(const struct model *model); /* elements of the flat buffers, padding included */
real *model_parameters(struct model *model);
real *model_gradients(struct model *model);
const struct model_tensor *model_tensors(const struct model *model, size_t *count);

/* Initialises all parameters as a pure function of (configuration, seed): N(0, 0.02), residual projections scaled by
 * 1/sqrt(2*layers) (GPT-2 paper, section 2.3), norms 1, biases 0. Tensor by tensor, so that it does not depend on threads or ranks. */
void model_init(struct model *model, uint64_t seed);

/* Sets all gradients to 0. */
void model_zero_gradients(struct model *model);

/* tokens, targets (B,T) int32, targets < 0 are not counted. Returns the SUM of the cross-entropies (nats) over counted targets, in double.
 * A token outside of [0,vocab), or a target >= vocab, gives NaN; nothing is read out of bounds, and the model_backward that follows does
 * nothing. */
double model_forward(struct model *model, const int32_t *tokens, const int32_t *targets);

/* Adds d(scale * sum of cross-entropies)/d(parameter) to the gradients; once after each model_forward, whose
 * logits it uses up. */
void model_backward(struct model *model, real scale);

/* Floating point operations of one training step per token (forward + backward), the PaLM count (arXiv 2204.02311, appendix B):
 * 6*N + 12*layers*hidden*context. */
double model_flops_per_token(const struct job_model *config, size_t context);

#endif
