/* optimizer: AdamW over the flat buffers of a model, with fp32 state.
 *
 * The arithmetic is that of kernels/kernels.h; here are the state, the walk over tensors and the clipping rule. */
#ifndef BELAY_RUNTIME_OPTIMIZER_H
#define BELAY_RUNTIME_OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "runtime/model/model.h"
#include "schema/job.h"

struct optimizer;

/* State for `count` parameters cut into `tensors` (borrowed, must outlive it): both moments, zero. NULL when memory is short. */
struct optimizer *optimizer_new(size_t count, const struct model_tensor *tensors, size_t n_tensors,
                                struct err *err);
void optimizer_free(struct optimizer *optimizer);

float *optimizer_first(struct optimizer *optimizer);  /* (count) running mean of the gradients */
float *optimizer_second(struct optimizer *optimizer); /* (count) running mean of their squares */

/* What clipping multiplies gradients of this norm by: clip/norm above clip (> 0), else 1. */
double optimizer_clip_scale(double norm, double clip);

/* Update number `step` (1-based) with gradients*scale (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2: decay is decoupled and
 * multiplied by lr; it applies only to tensors marked for decay). */
void optimizer_step(struct optimizer *optimizer, const struct job_optimizer *o, double lr, int64_t step,
                    double scale, float *parameters, const float *gradients);

#endif
