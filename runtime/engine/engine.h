/* engine: one training step over the whole mesh: micro-batches through the pipeline, gradients reduced, the update applied.
 *
 * It joins the parts: layout and model compute this rank's share, the list of passes (pipeline.h) says in which order, the store owns the
 * numbers. Everything here is collective over the mesh: all ranks call it in the same order. */
#ifndef BELAY_RUNTIME_ENGINE_H
#define BELAY_RUNTIME_ENGINE_H

#include "common/err.h"
#include "runtime/engine/pipeline.h"
#include "runtime/engine/store.h"
#include "runtime/model/model.h"
#include "schema/job.h"

struct engine;

struct engine_request {
    const struct job_spec *spec;   /* borrowed */
    const struct mesh *mesh;       /* borrowed */
    const struct kernels *kernels; /* borrowed */
    bool
        behind; /* the kernels compute on their own, behind the host: its clock says nothing of a single pass */
};

/* NULL with a sentence. Not collective. */
struct engine *engine_new(const struct engine_request *request, struct err *err);
void engine_free(struct engine *engine);

struct store *engine_store(struct engine *engine);
const struct layout *engine_layout(const struct engine *engine);
/* model_fp8 */
real *engine_fp8(const struct engine *engine, size_t *count);
/* Bytes of activations. */
size_t engine_activation_bytes(const struct engine *engine);

/* Where samples come from: fills tokens and targets (count, T) with samples first..first+count-1; targets < 0 are not counted. 0, or -1 with a
 * sentence. */
struct engine_source {
    void *owner;
    int (*fill)(void *owner, uint64_t first, size_t count, int32_t *tokens, int32_t *targets,
                struct err *err);
};

/* Reads this rank's samples of the step that begins with sample `first`; only stages at an end of the pipeline need any. 0, or -1 with a
 * sentence: all ranks must then agree not to go on. Not collective. */
int engine_load(struct engine *engine, const struct engine_source *source, uint64_t first, struct err *err);

/* What a step came to; the same on all ranks. */
struct engine_result {
    double loss;   /* mean over all counted targets of the global batch, nats; 0 when none is counted */
    double router; /* mean over sequences of the router losses, with their weights */
    double norm;   /* of all gradients */
    double
        own; /* sum of the losses of the tokens that this rank has, to name the one where a NaN comes from; not the same on all */
    uint64_t counted; /* targets */
    /* of this rank, seconds: in passes, and from the first pass to the end of the last one, so that 1 - busy / span is its bubble. Where kernels
     * compute behind the host both are the time until all gradients and their norm were there. */
    double busy_s, span_s;
};
/* Forward and backward of all micro-batches that were loaded. step: dropout depends on it. */
void engine_gradients(struct engine *engine, int64_t step, struct engine_result *result);
/* AdamW: clipping is the caller's, through adamw->gradient_scale. */
void engine_update(struct engine *engine, const struct kernel_adamw *adamw);

/* The mean loss over samples first..first+count-1 of a source, forward only; counts are rounded up to whole micro-batches of all replicas, what
 * is too much is not counted; NAN when no target is counted. 0, or -1 with a sentence when the source failed on any rank (the same on all). */
int engine_evaluate(struct engine *engine, const struct engine_source *source, uint64_t first, uint64_t count,
                    double *loss, struct err *err);

/* Idle part of the pipeline by formula, for this engine's schedule. */
double engine_bubble(const struct engine *engine);

#endif
