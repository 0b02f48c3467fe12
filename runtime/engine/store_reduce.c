/* store_reduce: from the gradients of one rank's passes to the sums over all ranks that have the same parameters. */
#include <string.h>

#include "runtime/engine/store_private.h"

/* Waits for the oldest reduction and adds it to the sums. */
static void finish_oldest(struct store *s)
{
    struct reduction r = s->queue[0];
    struct unit *u = &s->units[r.unit];
    memmove(s->queue, s->queue + 1, --s->queued * sizeof *s->queue);
    comm_wait(r.request);
    s->k->add_real(u->sum, r.part, u->owned);
    store_take_back(s, r.whole);
    store_take_back(s, r.part);
}

static void reduce_pass(struct store *s, size_t i)
{
    struct unit *u = &s->units[i];
    if (s->queued == REDUCTIONS_MAX)
        finish_oldest(s);
    struct reduction *r = &s->queue[s->queued++];
    *r = (struct reduction){.unit = i, .whole = s->lent[i].gradients};
    r->part = store_lend(s, u->shard * sizeof(real));
    r->request = comm_reduce_scatter_start(u->group, r->whole, r->part, u->shard, COMM_REAL);
    s->lent[i].gradients = NULL;
}

static void reduce_step(struct store *s, size_t i)
{
    struct unit *u = &s->units[i];
    if (s->r.zero == 0)
        u->reducing = comm_all_reduce_start(u->group, u->sum, u->owned, COMM_REAL);
    else
        u->reducing = comm_reduce_scatter_start(u->group, s->lent[i].gradients, u->sum, u->shard, COMM_REAL);
}

void store_reduce(void *owner, size_t i)
{
    struct store *s = owner;
    struct unit *u = &s->units[i];
    u->complete++;
    if (s->r.zero >= 2)
        reduce_pass(s, i);
    else if (u->complete == s->micro_batches)
        reduce_step(s, i);
}

void store_begin(struct store *store, int micro_batches)
{
    size_t all, owned;
    store_count(store, &all, &owned);
    store->micro_batches = micro_batches;
    for (size_t i = 0; i < store->n; i++)
        store->units[i].complete = 0;
    if (store->gradients)
        store->k->zero(store->gradients, all * sizeof(real));
    else
        store->k->zero(store->sums, owned * sizeof(real));
}

/* Copies the owned ranges of partial tensors into one array, or back. Returns the elements. */
static size_t pack(struct store *s, bool back)
{
    size_t at = 0;
    for (size_t t = 0; t < s->r.layout->n_tensors; t++) {
        if (!s->r.layout->tensors[t].partial)
            continue;
        struct store_range r = store_owned(s, t, STORE_GRADIENT);
        size_t n = r.end - r.begin;
        if (n > 0)
            s->k->copy(back ? r.data : s->packed + at, back ? s->packed + at : r.data, n * sizeof(real));
        at += n;
    }
    return at;
}

void store_finish(struct store *store)
{
    struct store *s = store;
    while (s->queued > 0)
        finish_oldest(s);
    for (size_t i = 0; i < s->n; i++) {
        comm_wait(s->units[i].reducing);
        s->units[i].reducing = NULL;
    }
    size_t count = pack(s, false);
    comm_all_reduce(s->r.mesh->tp_group, s->packed, count, COMM_REAL);
    (void)pack(s, true);
    for (size_t i = 0; i < s->n; i++)
        if (s->units[i].layout->shared_by_ends)
            comm_all_reduce(s->r.mesh->ends_group, s->units[i].sum, s->units[i].owned, COMM_REAL);
}
