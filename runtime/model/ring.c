/* ring: causal attention where keys and values are spread over the CP group (Liu et al., Ring Attention, arXiv 2310.01889).
 *
 * Each rank holds chunks r and 2 CP - 1 - r of the sequence. Keys and values go round the ring, one rank further in each turn, while the
 * rank works on those that it has; what is added up by the online softmax (forward) or by sums (backward) does not need them all at once.
 * Of each pair (chunk of queries, chunk of keys) the keys before the queries are seen in full, the same chunk causally, later ones not at all;
 * so every rank has the same work in every turn but the first. In the backward pass the sums for keys and values go round behind them, and
 * end where they belong. Without CP, a backend that has a way for whole sequences takes it. */
#include "runtime/model/model_private.h"

enum { TAG_KV = 1, TAG_DKV = 2 };

struct ring {
    struct model *m;
    const struct layer *y;
    struct kernel_dropout drop;
    /* keys and values at work, and how they lie */
    const act *k, *v;
    size_t kv_stride;
    /* forward */
    real *out;
    /* backward: dq with rows of qkv, dk and dv with rows of kv_stride */
    const act *dout;
    real *dq, *dk, *dv;
};

static real *as_real(act *x)
{
    return (real *)(void *)x;
}

static size_t chunks(const struct model *m)
{
    return m->mesh->size.cp > 1 ? 2 : 1;
}

/* Which chunk of the sequence is local chunk i of rank r? */
static size_t chunk_of(const struct model *m, size_t r, size_t i)
{
    size_t cp = (size_t)m->mesh->size.cp;
    return i == 0 ? r : 2 * cp - 1 - r;
}

static struct kernel_attention shape_of(const struct ring *g, size_t q_chunk, size_t k_chunk)
{
    const struct model *m = g->m;
    size_t part = m->tokens / chunks(m);
    return (struct kernel_attention){.batch = m->batch,
                                     .queries = part,
                                     .keys = part,
                                     .heads = m->heads,
                                     .kv_heads = m->kv_heads,
                                     .size = m->size,
                                     .q_stride = m->qkv,
                                     .q_batch = m->tokens * m->qkv,
                                     .kv_stride = g->kv_stride,
                                     .kv_batch = m->tokens * g->kv_stride,
                                     .out_stride = m->queries,
                                     .out_batch = m->tokens * m->queries,
                                     .lse_stride = m->tokens,
                                     .causal = q_chunk == k_chunk,
                                     .dropout = g->drop.rate > 0 ? &g->drop : NULL,
                                     .first_head = (size_t)m->mesh->tp * m->heads,
                                     .q_position = q_chunk * part,
                                     .k_position = k_chunk * part};
}

/* One pair: local chunk i of the queries and chunk j of the keys that came from rank `from`. */
static void pair_forward(const struct ring *g, size_t i, size_t j, size_t from, bool first)
{
    const struct model *m = g->m;
    struct kernel_attention s = shape_of(g, chunk_of(m, (size_t)m->mesh->cp, i), chunk_of(m, from, j));
    size_t q = i * s.queries, k = j * s.keys * g->kv_stride;
    m->k->attention_forward(g->out + q * m->queries, g->y->a->lse + q, first,
                            act_in(m->k, g->y->a->qkv, q * m->qkv), act_in(m->k, g->k, k),
                            act_in(m->k, g->v, k), &s);
}

static void pair_backward(const struct ring *g, size_t i, size_t j, size_t from)
{
    const struct model *m = g->m;
    struct kernel_attention s = shape_of(g, chunk_of(m, (size_t)m->mesh->cp, i), chunk_of(m, from, j));
    size_t q = i * s.queries, k = j * s.keys * g->kv_stride;
    m->k->attention_backward(g->dq + q * m->qkv, g->dk + k, g->dv + k, act_in(m->k, g->dout, q * m->queries),
                             act_in(m->k, g->y->a->attention, q * m->queries), g->y->a->lse + q,
                             act_in(m->k, g->y->a->qkv, q * m->qkv), act_in(m->k, g->k, k),
                             act_in(m->k, g->v, k), &s);
}

/* All pairs with the keys of rank `from`: in the first turn, those of the rank itself, each query meets its own chunk first. */
static void turn(const struct ring *g, size_t from, bool backward)
{
    const struct model *m = g->m;
    size_t rank = (size_t)m->mesh->cp;
    for (size_t i = 0; i < chunks(m); i++) {
        for (size_t n = chunks(m); n-- > 0;) {
            size_t j = i == 0 ? chunks(m) - 1 - n : n;
            bool own = from == rank && i == j;
            if (chunk_of(m, from, j) > chunk_of(m, rank, i))
                continue;
            if (backward)
                pair_backward(g, i, j, from);
            else
                pair_forward(g, i, j, from, own);
            model_idle(m);
        }
    }
}

/* Keys and values of this rank, packed: (N, 2 keys) */
static void pack(const struct model *m, const struct layer *y, act *kv)
{
    size_t width = m->k->act_size;
    m->k->copy_rows(kv, 2 * m->keys * width, act_in(m->k, y->a->qkv, m->queries), m->qkv * width, m->n,
                    2 * m->keys * width);
}

static int neighbour(const struct model *m, int step)
{
    int cp = m->mesh->size.cp;
    return (m->mesh->cp + step + cp) % cp;
}

static void at_work(struct ring *g, act *kv)
{
    g->k = kv;
    g->v = act_in(g->m->k, kv, g->m->keys);
}

struct exchange {
    struct comm_request *send, *receive;
};

static struct exchange pass_on(const struct model *m, const void *out, void *in, size_t bytes, int tag)
{
    struct comm_group *group = m->mesh->cp_group;
    struct exchange x = {.receive = comm_receive_start(group, in, bytes, neighbour(m, -1), tag)};
    x.send = comm_send_start(group, out, bytes, neighbour(m, 1), tag);
    return x;
}

static void passed(struct exchange x)
{
    comm_wait(x.receive);
    comm_wait(x.send);
}

/* CP turns; each but the last hands the keys on while it works. */
static void ring_turns(struct ring *g)
{
    struct model *m = g->m;
    size_t bytes = m->n * 2 * m->keys * m->k->act_size, cp = (size_t)m->mesh->size.cp;
    pack(m, g->y, m->s.kv[0]);
    for (size_t t = 0; t < cp; t++) {
        act *now = m->s.kv[t % 2], *next = m->s.kv[1 - t % 2];
        struct exchange x = {NULL, NULL};
        if (t + 1 < cp)
            x = pass_on(m, now, next, bytes, TAG_KV);
        at_work(g, now);
        turn(g, ((size_t)m->mesh->cp + cp - t) % cp, false);
        passed(x);
    }
}

static struct ring ring_of(struct model *m, const struct layer *y)
{
    struct ring g = {.m = m, .y = y};
    g.drop = (struct kernel_dropout){.rate = y->b->train ? m->config.dropout : 0,
                                     .key = dropout_key(m, y->b->step, y->l, PLACE_PROBABILITIES),
                                     .rows = y->slot->row_starts};
    g.k = act_in(m->k, y->a->qkv, m->queries);
    g.v = act_in(m->k, y->a->qkv, m->queries + m->keys);
    g.kv_stride = m->qkv;
    return g;
}

void ring_forward(struct model *m, const struct layer *y)
{
    struct ring g = ring_of(m, y);
    struct kernel_attention whole = shape_of(&g, 0, 0);
    if (model_whole(m)) {
        m->k->attention_whole(y->a->attention, y->a->lse, y->a->qkv, g.k, g.v, &whole);
        return;
    }
    g.out = model_wide(m) ? as_real(y->a->attention) : m->s.out;
    if (m->mesh->size.cp == 1) {
        turn(&g, 0, false);
    } else {
        g.kv_stride = 2 * m->keys;
        ring_turns(&g);
    }
    if (!model_wide(m))
        m->k->act_from_real(y->a->attention, g.out, m->n * m->queries);
}

/* The turns of the backward pass: the sums for keys and values follow one turn behind them, and need one more hop to be home. Returns them. */
static real *ring_turns_back(struct ring *g)
{
    struct model *m = g->m;
    size_t kv_bytes = m->n * 2 * m->keys * m->k->act_size, sums = m->n * 2 * m->keys * sizeof(real);
    size_t cp = (size_t)m->mesh->size.cp;
    pack(m, g->y, m->s.kv[0]);
    m->k->zero(m->s.dkv[0], sums);
    for (size_t t = 0; t < cp; t++) {
        act *now = m->s.kv[t % 2], *next = m->s.kv[1 - t % 2];
        real *mine = m->s.dkv[t % 2], *coming = m->s.dkv[1 - t % 2];
        struct exchange x = {NULL, NULL};
        if (t + 1 < cp)
            x = pass_on(m, now, next, kv_bytes, TAG_KV);
        at_work(g, now);
        g->dk = mine;
        g->dv = mine + m->keys;
        turn(g, ((size_t)m->mesh->cp + cp - t) % cp, true);
        passed(x);
        passed(pass_on(m, mine, coming, sums, TAG_DKV));
    }
    return m->s.dkv[cp % 2];
}

void ring_backward(struct model *m, const struct layer *y, const act *dattention, act *dqkv)
{
    struct ring g = ring_of(m, y);
    struct kernel_attention whole = shape_of(&g, 0, 0);
    if (model_whole(m)) {
        m->k->attention_whole_backward(dqkv, act_at(m->k, dqkv, m->queries),
                                       act_at(m->k, dqkv, m->queries + m->keys), dattention, y->a->attention,
                                       y->a->lse, y->a->qkv, g.k, g.v, &whole);
        return;
    }
    real *sums = model_wide(m) ? as_real(dqkv) : m->s.dqkv;
    m->k->zero(sums, m->n * m->qkv * sizeof(real));
    g.dout = dattention;
    g.dq = sums;
    g.dk = sums + m->queries;
    g.dv = sums + m->queries + m->keys;
    if (m->mesh->size.cp == 1) {
        turn(&g, 0, true);
    } else {
        g.kv_stride = 2 * m->keys;
        const real *home = ring_turns_back(&g);
        m->k->copy_rows(sums + m->queries, m->qkv * sizeof(real), home, 2 * m->keys * sizeof(real), m->n,
                        2 * m->keys * sizeof(real));
    }
    if (!model_wide(m))
        m->k->act_from_real(dqkv, sums, m->n * m->qkv);
}
