/* retention: see retention.h. */
#include "common/retention.h"

#include <math.h>
#include <stdlib.h>

#include "common/mem.h"

static int by_loss(const void *a, const void *b)
{
    const struct retention_item *x = *(struct retention_item *const *)a,
                                *y = *(struct retention_item *const *)b;
    if (x->held_loss != y->held_loss)
        return x->held_loss < y->held_loss ? -1 : 1;
    return (x->step < y->step) - (x->step > y->step);
}

static void mark_best(int64_t best, struct retention_item *items, size_t count)
{
    struct retention_item **known = mem_zero(count, sizeof(struct retention_item *));
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (items[i].complete && isfinite(items[i].held_loss))
            known[n++] = &items[i];
    if (n > 0)
        qsort(known, n, sizeof(struct retention_item *), by_loss);
    for (size_t i = 0; i < n && (int64_t)i < best; i++)
        known[i]->stays |= RETENTION_BEST;
    free(known);
}

void retention_decide(const struct retention_policy *policy, struct retention_item *items, size_t count)
{
    int64_t newer = 0; /* complete ones before this */
    for (size_t i = 0; i < count; i++) {
        struct retention_item *item = &items[i];
        bool every = policy->keep_every > 0 && item->step % policy->keep_every == 0;
        item->stays = newer < policy->keep ? RETENTION_NEWEST : 0;
        item->stays |= every && item->complete ? RETENTION_EVERY : 0;
        newer += item->complete;
    }
    if (policy->keep_best > 0)
        mark_best(policy->keep_best, items, count);
}
