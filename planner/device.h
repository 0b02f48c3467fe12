/* device: what one GPU (or a core of a CPU) can do, and how much of it training gets.
 *
 * The first half of a row is from data sheets; the second is the one set of efficiency constants of its generation, measured by
 * microbenchmarks where such are published, else fitted to the table in docs/planning.md, which says which is which. */
#ifndef BELAY_PLANNER_DEVICE_H
#define BELAY_PLANNER_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

struct plan_device {
    const char *name;
    bool gpu;
    double bf16, fp32, fp8; /* FLOP/s, dense */
    double memory;    /* bytes; those of the name, not the few more that are there; 0 = not limited here */
    double bandwidth; /* of its memory, bytes/s */
    double nvlink;    /* bytes/s to others in its node, one direction */
    double network; /* bytes/s of its NIC, one direction: one NIC a GPU, as the maker's own servers have it */
    double watts;   /* of the board */
    int per_node, per_nvlink; /* GPUs in a server, and that NVLink joins, in the systems of its maker */

    double gemm; /* of the peak, in large matrix products that go on for hours */
    double
        gemm_half; /* a product whose inner (or outer) width is this takes twice as long as its FLOPs say */
    double attention_forward;  /* of the peak, flash attention with a causal mask */
    double attention_backward; /* the same */
    double stream;             /* of the memory bandwidth, elementwise kernels */
    double nvlink_share;       /* of nvlink, ring collectives within a node */
    double network_share;      /* of network, ring collectives across nodes */
    double replica_share; /* and of that, the exchange between replicas across nodes (docs/planning.md) */
    double tp_exposed;    /* part of the communication of TP that does not hide behind products */
    double contention;    /* of hidden communication that computing loses to it */
    double kernel_s;      /* lost at the start and end of each kernel */
    double jitter;        /* standard deviation of a rank's step time, of that time */
    const char *caution;  /* what its constants lack, or NULL */
};

#define PLAN_DEVICE_NAMES "a100-40g, a100-80g, h100, h200, b200, gb200 and cpu"

/* NULL with a sentence that lists the names, and the nearest where one begins alike. Takes upper and lower case. */
const struct plan_device *plan_device_find(const char *name, struct err *err);

/* The row of a GPU by the name that its driver gives, such as "NVIDIA H100 80GB HBM3": the first of that generation, so that peaks are right and the
 * memory may be another's; NULL when it is none of the table. */
const struct plan_device *plan_device_of_maker(const char *maker);

/* Row i of the table, NULL after the last. */
const struct plan_device *plan_device_at(size_t i);

#endif
