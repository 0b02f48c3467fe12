/* store_replicas: are copies of the same parameters the same numbers, bit by bit? */
#include <stdlib.h>

#include "common/mem.h"
#include "common/mix.h"
#include "runtime/engine/store_private.h"

static uint64_t hash_tensor(struct store *s, size_t t, uint64_t h)
{
    const struct layout_tensor *tensor = &s->r.layout->tensors[t];
    store_need(s, tensor->unit, false);
    uint64_t own = s->k->hash(act_in(s->k, s->lent[tensor->unit].weights, tensor->offset),
                              tensor->rows * tensor->columns * s->k->act_size);
    store_done(s, tensor->unit);
    return mix64(h ^ own) + MIX_GOLDEN; /* which tensor it was counts, too */
}

static bool all_equal(struct comm_group *group, uint64_t value)
{
    uint64_t *all = mem_zero((size_t)comm_size(group), sizeof *all);
    bool equal = true;
    comm_share(group, &value, sizeof value, all);
    for (int i = 1; i < comm_size(group); i++)
        equal = equal && all[i] == all[0];
    free(all);
    return equal;
}

bool store_replicas_equal(struct store *store)
{
    const struct layout *l = store->r.layout;
    const struct mesh *mesh = store->r.mesh;
    uint64_t dense = 0, experts = 0, everywhere = 0, table = 0;
    for (size_t t = 0; t < l->n_tensors; t++) {
        const struct layout_unit *u = &l->units[l->tensors[t].unit];
        if (u->kind == UNIT_EXPERTS)
            experts = hash_tensor(store, t, experts);
        else
            dense = hash_tensor(store, t, dense);
        if (l->tensors[t].everywhere)
            everywhere = hash_tensor(store, t, everywhere);
        if (u->shared_by_ends)
            table = hash_tensor(store, t, table);
    }
    bool equal = all_equal(mesh->dp_group, dense);
    equal = all_equal(mesh->tp_group, everywhere) && equal;
    equal = all_equal(mesh->expert_dp_group, experts) && equal;
    if (mesh->ends_group)
        equal = all_equal(mesh->ends_group, table) && equal;
    return comm_max_int(mesh->world, !equal) == 0;
}
