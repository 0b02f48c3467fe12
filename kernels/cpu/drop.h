/* drop: one row of dropout, as the files that drop have it in their loops. */
#ifndef BELAY_KERNELS_CPU_DROP_H
#define BELAY_KERNELS_CPU_DROP_H

#include "kernels/cpu/hash.h"

/* What a call drops, ready for its rows. `any` false: nothing, and the rest means nothing. */
struct drop {
    bool any;
    uint32_t threshold;
    real scale; /* of what is kept */
};

static inline struct drop drop_of(const struct kernel_dropout *d)
{
    if (!d || d->rate <= 0)
        return (struct drop){.scale = 1};
    return (struct drop){true, hash_threshold(d->rate), (real)(1 / (1 - d->rate))};
}

/* What an element is multiplied with: 0 where it is dropped, so that a NaN shows. low, high: the halves of the row's hash_row */
static inline real drop_factor(const struct drop *d, uint32_t low, uint32_t high, size_t column)
{
    return hash_column(low, high, (uint32_t)column) >= d->threshold ? d->scale : 0;
}

#endif
