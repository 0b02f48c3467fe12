/* store_lend: what the model is lent while it works: weights, gathered in stage 3, and room for gradients in stages 2 and 3. Buffers go from unit to
 * unit, so that there are only as many as are in use at once. */
#include <stdlib.h>

#include "common/log.h"
#include "common/mem.h"
#include "runtime/engine/store_private.h"

/* In the middle of a collective step nothing can be undone. */
static void no_memory(size_t bytes)
{
    log_error("no memory for %zu bytes of one unit's gathered weights or gradients; use more tp or pp, or "
              "nodes with "
              "more memory",
              bytes);
    abort();
}

void *store_lend(struct store *s, size_t bytes)
{
    size_t best = s->n_leases;
    for (size_t i = 0; i < s->n_leases; i++)
        if (!s->leases[i].taken && s->leases[i].bytes >= bytes &&
            (best == s->n_leases || s->leases[i].bytes < s->leases[best].bytes))
            best = i;
    if (best == s->n_leases) {
        s->leases = mem_grow(s->leases, s->n_leases + 1, sizeof *s->leases);
        void *data = s->k->alloc(bytes);
        if (!data)
            no_memory(bytes);
        s->leases[s->n_leases++] = (struct lease){.data = data, .bytes = bytes};
    }
    s->leases[best].taken = true;
    return s->leases[best].data;
}

void store_take_back(struct store *s, const void *data)
{
    for (size_t i = 0; i < s->n_leases; i++)
        if (s->leases[i].data == data)
            s->leases[i].taken = false;
}

static void start_gather(struct store *s, size_t i)
{
    struct unit *u = &s->units[i];
    if (s->lent[i].weights)
        return;
    s->lent[i].weights = store_lend(s, u->layout->elements * s->k->act_size);
    u->gathering = comm_all_gather_start(u->group, u->part, s->lent[i].weights, u->shard, store_act_type(s));
}

static void need_gradients(struct store *s, size_t i)
{
    size_t bytes = s->units[i].layout->elements * sizeof(real);
    if (s->lent[i].gradients)
        return;
    s->lent[i].gradients = store_lend(s, bytes);
    s->k->zero(s->lent[i].gradients, bytes);
}

void store_need(void *owner, size_t i, bool gradients)
{
    struct store *s = owner;
    struct unit *u = &s->units[i];
    u->users++;
    start_gather(s, i);
    comm_wait(u->gathering);
    u->gathering = NULL;
    if (gradients)
        need_gradients(s, i);
}

void store_ahead(void *owner, size_t i)
{
    start_gather(owner, i);
}

void store_done(void *owner, size_t i)
{
    struct store *s = owner;
    struct unit *u = &s->units[i];
    if (--u->users > 0 || s->r.zero < 3)
        return;
    store_take_back(s, s->lent[i].weights);
    s->lent[i].weights = NULL;
}

static void hook_idle(void *owner)
{
    const struct store *s = owner;
    (void)comm_progress(s->r.mesh->comm);
}

struct model_hooks store_hooks(struct store *store)
{
    return (struct model_hooks){.owner = store,
                                .need = store_need,
                                .ahead = store_ahead,
                                .done = store_done,
                                .gradients = store_reduce,
                                .idle = hook_idle};
}
