/* engine_private: what the files of the engine share. Not for others. */
#ifndef BELAY_RUNTIME_ENGINE_PRIVATE_H
#define BELAY_RUNTIME_ENGINE_PRIVATE_H

#include "runtime/engine/engine.h"

/* Room for what one pass sends or receives, (R,C). */
struct boundary {
    act *data;
    struct comm_request *sending; /* done: free again */
    uint64_t sent;                /* which of all sends of this engine that is */
    bool taken;
};

/* An input on its way. */
struct arrival {
    struct comm_request *request;
    int boundary; /* backward: where it goes; forward: -1, it goes into the slot */
    bool started;
};

struct engine {
    struct engine_request r;
    const struct kernels *k;
    const struct mesh *mesh;
    struct layout layout;
    struct store *store;
    struct model *model;
    struct pipeline_pass *passes;
    size_t n_passes;
    int virtual_stages, micro_batches;
    enum job_pipeline schedule;
    size_t batch, context,
        tokens; /* sequences of a micro-batch; tokens of a sequence, and of this rank's part of it */
    int slots;
    int *slot_of; /* (chunks, micro_batches): -1 = none */
    bool *slot_taken;
    struct arrival *arrivals; /* (n_passes) */
    struct boundary *boundaries;
    size_t n_boundaries;
    uint64_t sends;
    int32_t *samples, *targets; /* (micro_batches, B, T/CP) */
    int32_t *whole;             /* (2, T) one sequence */
    uint64_t first_sample;
    bool begins, ends; /* has the first piece; the last */
};

/* ---- between stages (engine_stages.c) ---- */

/* A free boundary, taken. */
int stages_take(struct engine *e);
/* Boundary `i` goes to the neighbour that needs it and is free when it has gone; chunk: of the pass that made it. */
void stages_send(struct engine *e, int i, bool forward, int chunk);
/* The input of pass i of the list is there; that of the next one that has any is on its way. */
void stages_await(struct engine *e, size_t i);
/* The activations that a forward pass of a chunk needs, into a slot; waits for them. */
void stages_receive(struct engine *e, int slot, int chunk);
/* Before the first and after the last pass. */
void stages_begin(struct engine *e);
void stages_end(struct engine *e);
/* The slot of a pass's micro-batch and chunk; -1 = none yet. */
int *stages_slot(const struct engine *e, const struct pipeline_pass *p);
void stages_release(struct engine *e, const struct pipeline_pass *p);

/* ---- samples and sums (engine.c) ---- */

/* Keeps this rank's positions of the sequence in e->whole as number `index`. */
void engine_keep(const struct engine *e, size_t index);
/* Targets that are counted in the first `sequences` of this replica, over all replicas; only the last stage knows. */
double engine_count_targets(const struct engine *e, size_t sequences);

/* Sums over the world. */
struct share {
    double cross_entropy, router, counted;
};
/* A forward pass of one micro-batch, its output on its way. all: what all passes of the step have in common; busy_s: += the time that it took */
void engine_forward(struct engine *e, const struct pipeline_pass *p, const struct model_batch *all,
                    double *busy_s);
/* Sums over ranks that have different tokens (cross-entropy) or layers and tokens (router losses), each once. */
struct share engine_sum(const struct engine *e, const struct model_loss *own, double counted);

#endif
