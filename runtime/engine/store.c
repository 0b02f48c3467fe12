/* store: see store.h. A unit's life in a step: need (weights are there, gradients have room) … gradients (complete for this pass) … done. */
#include <math.h>
#include <stdlib.h>

#include "common/mem.h"
#include "runtime/engine/store_private.h"

/* ---- making ---- */

static void set_unit(struct store *s, size_t i)
{
    struct unit *u = &s->units[i];
    const struct mesh *mesh = s->r.mesh;
    u->layout = &s->r.layout->units[i];
    u->group = u->layout->kind == UNIT_EXPERTS ? mesh->expert_dp_group : mesh->dp_group;
    u->shard = u->layout->elements / (size_t)u->layout->copies;
    u->owned = s->r.zero == 0 ? u->layout->elements : u->shard;
    u->first = s->r.zero == 0 ? 0 : (size_t)comm_rank(u->group) * u->shard;
}

static void *take_memory(struct store *s, size_t bytes, size_t *counter, bool *failed)
{
    void *x = s->k->alloc(bytes);
    *counter += bytes;
    *failed = *failed || !x;
    return x;
}

/* Elements of all units, and of what is owned of them. */
void store_count(const struct store *s, size_t *all, size_t *owned)
{
    *all = *owned = 0;
    for (size_t i = 0; i < s->n; i++) {
        *all += s->units[i].layout->elements;
        *owned += s->units[i].owned;
    }
}

static bool allocate(struct store *s)
{
    size_t all, owned, width = s->k->act_size;
    bool failed = false;
    struct store_bytes *b = &s->bytes;
    store_count(s, &all, &owned);
    if (s->r.zero < 3)
        s->weights = take_memory(s, all * width, &b->weights, &failed);
    else if (!store_wide(s))
        s->parts = take_memory(s, owned * width, &b->weights, &failed);
    bool own_master = s->r.zero == 3 || !store_wide(s);
    if (own_master)
        s->master =
            take_memory(s, owned * sizeof(real), store_wide(s) ? &b->weights : &b->optimizer, &failed);
    if (s->r.inference)
        return !failed;
    if (s->r.zero < 2)
        s->gradients = take_memory(s, all * sizeof(real), &b->gradients, &failed);
    else
        s->sums = take_memory(s, owned * sizeof(real), &b->gradients, &failed);
    s->moment1 = take_memory(s, owned * sizeof(real), &b->optimizer, &failed);
    s->moment2 = take_memory(s, owned * sizeof(real), &b->optimizer, &failed);
    return !failed;
}

/* Where each unit's numbers lie. In fp32 weights are their own master copy. */
static void point(struct store *s)
{
    size_t at = 0;
    for (size_t i = 0; i < s->n; i++) {
        struct unit *u = &s->units[i];
        size_t offset = u->layout->offset;
        if (s->weights)
            s->lent[i].weights = act_at(s->k, s->weights, offset);
        if (s->gradients)
            s->lent[i].gradients = s->gradients + offset;
        u->master = s->master ? s->master + at : (real *)(void *)act_at(s->k, s->lent[i].weights, u->first);
        if (s->r.zero == 3)
            u->part = s->parts ? act_at(s->k, s->parts, at) : (act *)(void *)u->master;
        if (s->moment1) {
            u->moment1 = s->moment1 + at;
            u->moment2 = s->moment2 + at;
        }
        if (s->gradients)
            u->sum = s->lent[i].gradients + u->first;
        else if (s->sums)
            u->sum = s->sums + at;
        at += u->owned;
    }
}

/* Elements that are partial sums over TP. */
static size_t count_partial(const struct store *s)
{
    size_t count = 0;
    for (size_t t = 0; t < s->r.layout->n_tensors; t++)
        if (s->r.layout->tensors[t].partial)
            count += s->r.layout->tensors[t].rows * s->r.layout->tensors[t].columns;
    return count;
}

struct store *store_new(const struct store_request *request, struct err *err)
{
    struct store *s = mem_zero(1, sizeof *s);
    s->r = *request;
    s->k = request->kernels;
    s->n = request->layout->n_units;
    s->units = mem_zero(s->n, sizeof *s->units);
    s->lent = mem_zero(s->n, sizeof *s->lent);
    for (size_t i = 0; i < s->n; i++)
        set_unit(s, i);
    s->packed_count = request->inference ? 0 : count_partial(s);
    s->packed = s->k->alloc(s->packed_count * sizeof *s->packed);
    s->squares = s->k->alloc(sizeof *s->squares);
    if (!allocate(s) || !s->packed || !s->squares) {
        err_set(err,
                "no memory for weights, gradients and optimizer state (%.2f GiB): use parallel.zero, more tp "
                "or pp, a "
                "smaller model, or nodes with more memory",
                (double)(s->bytes.weights + s->bytes.gradients + s->bytes.optimizer) / (1 << 30));
        store_free(s);
        return NULL;
    }
    point(s);
    return s;
}

void store_free(struct store *store)
{
    if (!store)
        return;
    for (size_t i = 0; i < store->n; i++)
        comm_wait(store->units[i].gathering); /* of the last update: its buffers go now */
    void *const blocks[] = {store->weights, store->parts,   store->master, store->gradients, store->sums,
                            store->moment1, store->moment2, store->packed, store->squares};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        store->k->free(blocks[i]);
    for (size_t i = 0; i < store->n_leases; i++)
        store->k->free(store->leases[i].data);
    free(store->leases);
    free(store->units);
    free(store->lent);
    free(store);
}

struct store_bytes store_bytes(const struct store *store)
{
    return store->bytes;
}

struct model_unit *store_units(struct store *store)
{
    return store->lent;
}

const struct kernels *store_kernels(const struct store *store)
{
    return store->k;
}

/* ---- ranges ---- */

static real *base_of(const struct unit *u, enum store_part part)
{
    switch (part) {
    case STORE_MASTER:
        return u->master;
    case STORE_FIRST:
        return u->moment1;
    case STORE_SECOND:
        return u->moment2;
    case STORE_GRADIENT:
        break;
    }
    return u->sum;
}

/* Tensor `t` within elements [first, first+count) of its unit, of which the rank owns at least those. */
static struct store_range cut(const struct store *s, size_t t, enum store_part part, size_t first,
                              size_t count)
{
    const struct layout_tensor *tensor = &s->r.layout->tensors[t];
    const struct unit *u = &s->units[tensor->unit];
    size_t size = tensor->rows * tensor->columns;
    size_t begin = first > tensor->offset ? first - tensor->offset : 0;
    size_t end = first + count > tensor->offset ? first + count - tensor->offset : 0;
    struct store_range r = {.begin = begin < size ? begin : size, .end = end < size ? end : size};
    if (r.begin < r.end)
        r.data = base_of(u, part) + (tensor->offset + r.begin - u->first);
    else
        r.begin = r.end;
    return r;
}

struct store_range store_owned(struct store *store, size_t t, enum store_part part)
{
    const struct unit *u = &store->units[store->r.layout->tensors[t].unit];
    return cut(store, t, part, u->first, u->owned);
}

/* Does this rank speak for the tensor where several hold the same one? Among the copies of a unit that is settled by ranges. */
static bool speaks(const struct store *s, size_t t)
{
    const struct layout_tensor *tensor = &s->r.layout->tensors[t];
    return (!tensor->everywhere || s->r.mesh->tp == 0) &&
           (!s->units[tensor->unit].layout->shared_by_ends || s->r.mesh->pp == 0);
}

struct store_range store_written(struct store *store, size_t t, enum store_part part)
{
    const struct unit *u = &store->units[store->r.layout->tensors[t].unit];
    if (!speaks(store, t))
        return (struct store_range){0, 0, NULL};
    return cut(store, t, part, (size_t)comm_rank(u->group) * u->shard, u->shard);
}

/* ---- values ---- */

void store_spread(struct store *store)
{
    struct store *s = store;
    for (size_t i = 0; i < s->n; i++) {
        struct unit *u = &s->units[i];
        comm_wait(u->gathering); /* of an update before */
        u->gathering = NULL;
        act *own = s->r.zero == 3 ? u->part : act_at(s->k, s->lent[i].weights, u->first);
        if (!store_wide(s))
            s->k->act_from_real(own, u->master, u->owned);
        if (s->r.zero == 1 || s->r.zero == 2)
            comm_all_gather(u->group, own, s->lent[i].weights, u->shard, store_act_type(s));
    }
}

/* Copies what this rank owns of a tensor from whole (rows, columns) of it in host memory. */
static void set_owned(struct store *s, size_t t, const real *whole)
{
    struct store_range r = store_owned(s, t, STORE_MASTER);
    if (r.end > r.begin)
        s->k->from_host(r.data, whole + r.begin, (r.end - r.begin) * sizeof *whole);
}

void store_init(struct store *store, const struct job_model *config, uint64_t seed)
{
    for (size_t t = 0; t < store->r.layout->n_tensors; t++) {
        const struct layout_tensor *tensor = &store->r.layout->tensors[t];
        real *whole = mem_grow(NULL, tensor->rows * tensor->columns, sizeof *whole);
        model_init_tensor(tensor, config, seed, whole);
        set_owned(store, t, whole);
        free(whole);
    }
    store_spread(store);
}

/* ---- the update ---- */

double store_norm(struct store *store)
{
    double sum;
    store->k->zero(store->squares, sizeof *store->squares);
    for (size_t t = 0; t < store->r.layout->n_tensors; t++) {
        struct store_range r = store_written(store, t, STORE_GRADIENT);
        if (r.end > r.begin)
            store->k->sum_of_squares(store->squares, r.data, r.end - r.begin);
    }
    store->k->to_host(&sum, store->squares, sizeof sum);
    return sqrt(comm_sum_double(store->r.mesh->world, sum));
}

static void update_tensor(struct store *s, size_t t, const struct kernel_adamw *adamw)
{
    const struct layout_tensor *tensor = &s->r.layout->tensors[t];
    const struct unit *u = &s->units[tensor->unit];
    struct store_range r = store_owned(s, t, STORE_MASTER);
    size_t at = tensor->offset + r.begin - u->first;
    struct kernel_adamw config = *adamw;
    act *weights = NULL;
    if (r.begin == r.end)
        return;
    if (!store_wide(s))
        weights = s->r.zero == 3 ? act_at(s->k, u->part, at)
                                 : act_at(s->k, s->lent[tensor->unit].weights, tensor->offset + r.begin);
    s->k->doing(tensor->name, 0, adamw->step); /* names have no % */
    config.weight_decay = tensor->decay ? adamw->weight_decay : 0;
    s->k->adamw(r.data, u->moment1 + at, u->moment2 + at, u->sum + at, weights, r.end - r.begin, &config);
}

void store_update(struct store *store, const struct kernel_adamw *adamw)
{
    struct store *s = store;
    for (size_t t = 0; t < s->r.layout->n_tensors; t++)
        update_tensor(s, t, adamw);
    for (size_t i = 0; i < s->n && (s->r.zero == 1 || s->r.zero == 2); i++) {
        struct unit *u = &s->units[i];
        u->gathering = comm_all_gather_start(u->group, act_at(s->k, s->lent[i].weights, u->first),
                                             s->lent[i].weights, u->shard, store_act_type(s));
    }
}
