/* store: the numbers of a rank's part of the model: weights, fp32 master copy, gradients, moments; who owns which of them (ZeRO, Rajbhandari et
 * al., arXiv 1910.02054), and how replicas stay equal.
 *
 * Every unit (layout.h) is replicated over a group of ranks. With stage 0 each of them owns all of it: gradients are summed over the group,
 * everybody updates. From stage 1 on each owns an equal range of it, of which alone it keeps moments and master copy; it gets the sum of that
 * range's gradients, updates it, and the weights are gathered. From stage 2 on only that range of the gradients is kept, from stage 3 on
 * of the weights, too: they are gathered unit by unit, one ahead, and let go after use.
 *
 * Reductions begin as soon as a unit's gradients are complete, while the backward pass goes on; stages 2 and 3 reduce after every micro-batch,
 * because they have no room for whole gradients. Sums are in rank order and everything is deterministic. */
#ifndef BELAY_RUNTIME_STORE_H
#define BELAY_RUNTIME_STORE_H

#include "common/err.h"
#include "runtime/model/model.h"

struct store;

struct store_request {
    const struct layout *layout;   /* borrowed */
    const struct mesh *mesh;       /* borrowed */
    const struct kernels *kernels; /* borrowed */
    int zero;                      /* 0 to 3 */
    bool inference;                /* weights only: no gradients, no moments */
};

/* Everything 0. NULL with a sentence when memory is short. */
struct store *store_new(const struct store_request *request, struct err *err);
/* Collective after an update in stages 1 and 2: weights may still be on their way. */
void store_free(struct store *store);

/* For model_new. */
struct model_hooks store_hooks(struct store *store);
struct model_unit *store_units(struct store *store);
/* Whose memory everything lies in. */
const struct kernels *store_kernels(const struct store *store);

/* Collective. First values of all parameters (model_init_tensor). */
void store_init(struct store *store, const struct job_model *config, uint64_t seed);
/* Collective, after the owned master copies were written (store_range): brings the weights in line with them. */
void store_spread(struct store *store);

/* Before the first pass of a step: gradients 0; each unit will be reported complete `micro_batches` times. */
void store_begin(struct store *store, int micro_batches);
/* Collective. After the last pass: waits for the reductions, adds up what TP ranks and the two ends of the pipeline have of the same tensors. */
void store_finish(struct store *store);
/* Collective. The norm of all gradients of the model, each parameter counted once, in double. After store_finish. */
double store_norm(struct store *store);
/* AdamW on what this rank owns; `weight_decay` only where the layout says so. Weights follow; stages 1 and 2 gather them while the next step
 * begins. */
void store_update(struct store *store, const struct kernel_adamw *adamw);

/* What a rank holds of a tensor, and where. */
enum store_part { STORE_MASTER, STORE_FIRST, STORE_SECOND, STORE_GRADIENT };
struct store_range {
    size_t begin, end; /* elements of the tensor as stored (rows x columns) */
    real *data;        /* of element `begin` */
};
/* The range of tensor `t` that this rank owns; empty when it owns nothing of it. */
struct store_range store_owned(struct store *store, size_t t, enum store_part part);
/* The part of it that this rank writes into a checkpoint: over all ranks each element exactly once. */
struct store_range store_written(struct store *store, size_t t, enum store_part part);

/* Bytes held: weights, gradients, and optimizer state. */
struct store_bytes {
    size_t weights, gradients, optimizer;
};
struct store_bytes store_bytes(const struct store *store);

/* Collective. Are the weights of all ranks that hold the same parameters equal, bit by bit? The same answer on all. Waits for the hash of
 * each tensor: for tests. */
bool store_replicas_equal(struct store *store);

#endif
