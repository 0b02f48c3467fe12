/* backend: where this process computes: on its CPU, or on one GPU by the shared object of the CUDA backend (docs/cuda.md), which is loaded only
 * when it is wanted. Nothing else chooses, and nothing above asks which it is but to say so. */
#ifndef BELAY_RUNTIME_BACKEND_H
#define BELAY_RUNTIME_BACKEND_H

#include "common/err.h"
#include "kernels/cuda/backend.h"
#include "kernels/kernels.h"
#include "runtime/comm/transport.h"
#include "schema/job.h"

struct backend {
    const struct cuda_backend *cuda; /* NULL: the CPU, and all below is 0 */
    int number;                      /* of the GPU among those that are visible */
    struct cuda_device device;
    struct comm_device comm;
};

/* Chooses and takes the device. cpu: the CPU. gpu: a GPU, or -1 with a sentence that says why there is none and what to do. auto: a GPU where
 * there is one, else the CPU. Of several visible GPUs the ranks of this host take one each by their local rank. Before comm_open. Once a
 * process. */
int backend_open(enum job_device wanted, struct backend *out, struct err *err);
/* Gives the device back: after everything that used it is gone. Takes one that was never opened (all 0). */
void backend_close(struct backend *backend);

/* The kernels of the device. NULL with a sentence. */
const struct kernels *backend_kernels(const struct backend *backend, enum kernel_type type, struct err *err);
/* For comm_open: NULL on the CPU. */
const struct comm_device *backend_comm(const struct backend *backend);
/* What one rank's products can come to, FLOP/s: a GPU's by its data sheet where its name is known, else measured. */
double backend_peak(const struct backend *backend, const struct kernels *k);

#endif
