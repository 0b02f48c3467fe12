/* backend: what the shared object of the CUDA backend exports; runtime/backend.c loads it. See docs/cuda.md. */
#ifndef BELAY_KERNELS_CUDA_BACKEND_H
#define BELAY_KERNELS_CUDA_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "kernels/kernels.h"

/* Raised with every change of what crosses this border. */
#define CUDA_BACKEND_VERSION 1
#define CUDA_BACKEND_SYMBOL  "belay_cuda_backend"

struct comm_memory;    /* runtime/comm/transport.h */
struct comm_transport; /* likewise */

/* A device, as messages, placement and metrics name it. */
struct cuda_device {
    char name[128];
    char id[40]; /* its UUID in hex: the same for two processes that share the device */
    int major, minor;
    size_t memory;       /* bytes */
    int multiprocessors; /* SMs */
    int clock_khz;       /* highest clock of the SMs */
};

struct cuda_backend {
    int version; /* CUDA_BACKEND_VERSION */

    /* How many devices this process may use (CUDA_VISIBLE_DEVICES); 0 with a sentence when there is no driver or no device. */
    int (*devices)(struct err *err);
    /* Takes device `number` of those, makes its context, streams and handles. rank: for messages. Once a process. 0, or -1 with a sentence. */
    int (*open)(int number, int rank, struct cuda_device *device, struct err *err);
    /* Waits for the device and gives everything back. */
    void (*close)(void);
    /* After open. NULL with a sentence. */
    const struct kernels *(*kernels)(enum kernel_type type, struct err *err);

    /* For comm: where buffers lie, and the way between ranks that have a device each; NULL where this was built without. */
    const struct comm_memory *memory;
    const struct comm_transport *transport;
};

#ifdef __cplusplus
extern "C" {
#endif

/* What the shared object exports. */
extern const struct cuda_backend belay_cuda_backend;

/* Of runtime/comm/nccl, linked into the same object. */
extern const struct comm_memory comm_memory_cuda;
extern const struct comm_transport comm_transport_nccl;

#ifdef __cplusplus
}
#endif

#endif
