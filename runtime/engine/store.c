/* store: see store.h. A unit's life in a step: need (weights are there, gradients have room) … gradients (complete for this pass) … done. */
#include "runtime/engine/store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"

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
    struct lease *leases;
    size_t n_leases;
    struct reduction queue[REDUCTIONS_MAX];
    size_t queued;
    int micro_batches;
    struct store_bytes bytes;
};

static bool wide_numbers(const struct store *s)
{
    return s->k->act_size == sizeof(real);
}

static enum comm_type act_type(const struct store *s)
{
    return s->k->type == KERNEL_BF16 ? COMM_BF16 : COMM_REAL;
}

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
static void count_elements(const struct store *s, size_t *all, size_t *owned)
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
    count_elements(s, &all, &owned);
    if (s->r.zero < 3)
        s->weights = take_memory(s, all * width, &b->weights, &failed);
    else if (!wide_numbers(s))
        s->parts = take_memory(s, owned * width, &b->weights, &failed);
    bool own_master = s->r.zero == 3 || !wide_numbers(s);
    if (own_master)
        s->master =
            take_memory(s, owned * sizeof(real), wide_numbers(s) ? &b->weights : &b->optimizer, &failed);
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
    if (!allocate(s) || !s->packed) {
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
    void *const blocks[] = {store->weights, store->parts,   store->master,  store->gradients,
                            store->sums,    store->moment1, store->moment2, store->packed};
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

/* ---- leases ---- */

/* In the middle of a collective step nothing can be undone. */
static void no_memory(size_t bytes)
{
    log_error("no memory for %zu bytes of one unit's gathered weights or gradients; use more tp or pp, or "
              "nodes with "
              "more memory",
              bytes);
    abort();
}

/* A free buffer of at least `bytes`: the smallest that is there, or a new one. */
static void *take_lease(struct store *s, size_t bytes)
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

static void give_back(struct store *s, const void *data)
{
    for (size_t i = 0; i < s->n_leases; i++)
        if (s->leases[i].data == data)
            s->leases[i].taken = false;
}

/* ---- weights ---- */

static void start_gather(struct store *s, size_t i)
{
    struct unit *u = &s->units[i];
    if (s->lent[i].weights)
        return;
    s->lent[i].weights = take_lease(s, u->layout->elements * s->k->act_size);
    u->gathering = comm_all_gather_start(u->group, u->part, s->lent[i].weights, u->shard, act_type(s));
}

static void need_gradients(struct store *s, size_t i)
{
    size_t bytes = s->units[i].layout->elements * sizeof(real);
    if (s->lent[i].gradients)
        return;
    s->lent[i].gradients = take_lease(s, bytes);
    s->k->zero(s->lent[i].gradients, bytes);
}

static void hook_need(void *owner, size_t i, bool gradients)
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

static void hook_ahead(void *owner, size_t i)
{
    start_gather(owner, i);
}

static void hook_done(void *owner, size_t i)
{
    struct store *s = owner;
    struct unit *u = &s->units[i];
    if (--u->users > 0 || s->r.zero < 3)
        return;
    give_back(s, s->lent[i].weights);
    s->lent[i].weights = NULL;
}

void store_spread(struct store *store)
{
    struct store *s = store;
    for (size_t i = 0; i < s->n; i++) {
        struct unit *u = &s->units[i];
        comm_wait(u->gathering); /* of an update before */
        u->gathering = NULL;
        act *own = s->r.zero == 3 ? u->part : act_at(s->k, s->lent[i].weights, u->first);
        if (!wide_numbers(s))
            s->k->act_from_real(own, u->master, u->owned);
        if (s->r.zero == 1 || s->r.zero == 2)
            comm_all_gather(u->group, own, s->lent[i].weights, u->shard, act_type(s));
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

/* ---- gradients ---- */

/* Waits for the oldest reduction and adds it to the sums. */
static void finish_oldest(struct store *s)
{
    struct reduction r = s->queue[0];
    struct unit *u = &s->units[r.unit];
    memmove(s->queue, s->queue + 1, --s->queued * sizeof *s->queue);
    comm_wait(r.request);
    s->k->add_real(u->sum, r.part, u->owned);
    give_back(s, r.whole);
    give_back(s, r.part);
}

static void reduce_pass(struct store *s, size_t i)
{
    struct unit *u = &s->units[i];
    if (s->queued == REDUCTIONS_MAX)
        finish_oldest(s);
    struct reduction *r = &s->queue[s->queued++];
    *r = (struct reduction){.unit = i, .whole = s->lent[i].gradients};
    r->part = take_lease(s, u->shard * sizeof(real));
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

static void hook_gradients(void *owner, size_t i)
{
    struct store *s = owner;
    struct unit *u = &s->units[i];
    u->complete++;
    if (s->r.zero >= 2)
        reduce_pass(s, i);
    else if (u->complete == s->micro_batches)
        reduce_step(s, i);
}

static void hook_idle(void *owner)
{
    const struct store *s = owner;
    (void)comm_progress(s->r.mesh->comm);
}

struct model_hooks store_hooks(struct store *store)
{
    return (struct model_hooks){.owner = store,
                                .need = hook_need,
                                .ahead = hook_ahead,
                                .done = hook_done,
                                .gradients = hook_gradients,
                                .idle = hook_idle};
}

void store_begin(struct store *store, int micro_batches)
{
    size_t all, owned;
    count_elements(store, &all, &owned);
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

/* ---- the update ---- */

double store_norm(struct store *store)
{
    double sum = 0;
    for (size_t t = 0; t < store->r.layout->n_tensors; t++) {
        struct store_range r = store_written(store, t, STORE_GRADIENT);
        if (r.end > r.begin)
            sum += store->k->sum_of_squares(r.data, r.end - r.begin);
    }
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
    if (!wide_numbers(s))
        weights = s->r.zero == 3 ? act_at(s->k, u->part, at)
                                 : act_at(s->k, s->lent[tensor->unit].weights, tensor->offset + r.begin);
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
                                             s->lent[i].weights, u->shard, act_type(s));
    }
}

/* ---- replicas ---- */

static uint64_t hash(uint64_t h, const unsigned char *x, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ x[i]) * 0x100000001b3u;
    return h;
}

static uint64_t hash_tensor(struct store *s, size_t t, uint64_t h)
{
    const struct layout_tensor *tensor = &s->r.layout->tensors[t];
    size_t bytes = tensor->rows * tensor->columns * s->k->act_size;
    unsigned char *host = mem_grow(NULL, bytes + 1, 1);
    hook_need(s, tensor->unit, false);
    s->k->to_host(host, act_in(s->k, s->lent[tensor->unit].weights, tensor->offset), bytes);
    hook_done(s, tensor->unit);
    h = hash(h, host, bytes);
    free(host);
    return h;
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
    uint64_t dense = 0xcbf29ce484222325u, experts = dense, everywhere = dense, table = dense;
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
