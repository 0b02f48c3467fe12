/* store_private: what the files of the store share. Not for others. */
#ifndef BELAY_RUNTIME_STORE_PRIVATE_H
#define BELAY_RUNTIME_STORE_PRIVATE_H

#include "runtime/engine/store.h"

#define REDUCTIONS_MAX 3 /* under way at once in stages 2 and 3: each holds a whole unit's gradients */

/* A buffer of a unit's size that is lent out: gathered weights, or gradients of one pass. */
struct lease {
    void *data;
    size_t bytes;
    bool taken;
};

struct unit {
    const struct layout_unit *layout;
    struct comm_group *group;
    size_t shard;        /* elements that each rank of the group owns from stage 1 on */
    size_t first, owned; /* elements of the unit that this rank owns */
    /* of the owned range */
    real *master, *moment1, *moment2, *sum; /* sum: gradients, stages 2 and 3 */
    act *part;                              /* weights, stage 3; in fp32 the master copy itself */
    /* at work */
    int users;
    struct comm_request *gathering, *reducing;
    int complete; /* passes of this step that have added their gradients */
};

/* A reduction of one pass's gradients (stages 2 and 3). */
struct reduction {
    size_t unit;
    struct comm_request *request;
    real *whole, *part; /* leased */
};

struct store {
    struct store_request r;
    const struct kernels *k;
    size_t n;
    struct unit *units;
    struct model_unit *lent; /* what the model sees */
    act *weights;            /* all units, stages 0 to 2 */
    real *gradients;         /* all units, stages 0 and 1 */
    real *master, *moment1, *moment2, *sums;
    act *parts;
    real *packed; /* gradients that TP ranks add up */
    size_t packed_count;
    double *squares; /* of all gradients: backend memory */
    struct lease *leases;
    size_t n_leases;
    struct reduction queue[REDUCTIONS_MAX];
    size_t queued;
    int micro_batches;
    struct store_bytes bytes;
};

/* Are act and real the same numbers? */
static inline bool store_wide(const struct store *s)
{
    return s->k->act_size == sizeof(real);
}

static inline enum comm_type store_act_type(const struct store *s)
{
    return s->k->type == KERNEL_BF16 ? COMM_BF16 : COMM_REAL;
}

/* Elements of all units, and of what is owned of them. */
void store_count(const struct store *s, size_t *all, size_t *owned);

/* A free buffer of at least `bytes`: the smallest that is there, or a new one. */
void *store_lend(struct store *s, size_t bytes);
void store_take_back(struct store *s, const void *data);

/* The hooks of the model. */
void store_need(void *owner, size_t unit, bool gradients);
void store_ahead(void *owner, size_t unit);
void store_done(void *owner, size_t unit);
void store_reduce(void *owner, size_t unit);

#endif
