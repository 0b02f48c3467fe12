/* model_new: making a model: its sizes checked and set, and all its memory.
 *
 * All activations are allocated once: for each slot what a micro-batch keeps, and scratch that every pass writes anew. Where recomputation is on,
 * the fields of a layer that are not kept point to one set shared by all layers. */
#include <limits.h>
#include <stdlib.h>

#include "common/mem.h"
#include "runtime/model/model_private.h"

/* ---- memory ---- */

void *model_alloc(struct model *m, size_t bytes)
{
    void *block = m->short_of > 0 ? NULL : m->k->alloc(bytes); /* once one is missing, only count */
    if (!block) {
        m->short_of += bytes;
        return NULL;
    }
    m->blocks = mem_grow(m->blocks, m->n_blocks + 1, sizeof *m->blocks);
    m->blocks[m->n_blocks++] = block;
    m->bytes += bytes;
    return block;
}

act *model_alloc_act(struct model *m, size_t count)
{
    return model_alloc(m, count * m->k->act_size);
}

real *model_alloc_real(struct model *m, size_t count)
{
    return model_alloc(m, count * sizeof(real));
}

/* ---- checks ---- */

static int check_cuts(const struct model_request *r, struct err *err)
{
    const struct job_model *c = r->config;
    int64_t tp = r->mesh->size.tp, cp = r->mesh->size.cp;
    if (c->heads % tp != 0 || c->kv_heads % tp != 0 || c->ffn % tp != 0)
        return err_set(
            err,
            "model: heads %lld, kv_heads %lld and ffn %lld must be multiples of tp %lld; choose another tp",
            (long long)c->heads, (long long)c->kv_heads, (long long)c->ffn, (long long)tp);
    if (cp > 1 && r->context % (2 * (size_t)cp) != 0)
        return err_set(
            err, "model: sequences of %zu tokens cannot be cut into 2 x cp = %lld chunks; choose another cp",
            r->context, (long long)2 * cp);
    if (r->sequence && r->batch * r->context / (size_t)cp % (size_t)tp != 0)
        return err_set(err,
                       "model: %zu tokens of a micro-batch cannot be shared by tp %lld ranks; write "
                       "parallel.sequence: false",
                       r->batch * r->context / (size_t)cp, (long long)tp);
    if (c->experts % r->mesh->size.ep != 0)
        return err_set(err, "model: %lld experts cannot be shared by ep %d ranks", (long long)c->experts,
                       r->mesh->size.ep);
    return 0;
}

static int check_heads(const struct job_model *c, struct err *err)
{
    if (c->hidden % c->heads != 0)
        return err_set(err, "model: hidden %lld is not a multiple of heads %lld", (long long)c->hidden,
                       (long long)c->heads);
    if (c->heads % c->kv_heads != 0)
        return err_set(err, "model: heads %lld is not a multiple of kv_heads %lld", (long long)c->heads,
                       (long long)c->kv_heads);
    if (c->arch == ARCH_GPT2 && c->kv_heads != c->heads)
        return err_set(err, "model: gpt2 has no grouped-query heads: leave kv_heads out, or use arch: llama");
    if (c->arch == ARCH_GPT2 && c->experts > 0)
        return err_set(err, "model: gpt2 is dense; use arch: llama for experts");
    if (c->arch == ARCH_LLAMA && c->hidden / c->heads % 2 != 0)
        return err_set(err, "model: llama turns pairs within a head, but hidden/heads is %lld, an odd number",
                       (long long)(c->hidden / c->heads));
    return 0;
}

/* Sizes that the matrix library cannot count, or that mean nothing, are refused. */
static int check(const struct model_request *r, struct err *err)
{
    const struct job_model *c = r->config;
    const int64_t sizes[] = {c->layers, c->hidden, c->heads, c->kv_heads, c->ffn, c->vocab, c->context};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i] < 1 || sizes[i] > INT_MAX / 4)
            return err_set(err,
                           "model: layers, hidden, heads, kv_heads, ffn, vocab and context must be 1 to %d; "
                           "one of them is %lld",
                           INT_MAX / 4, (long long)sizes[i]);
    }
    if (r->context < 1 || r->context > (size_t)c->context)
        return err_set(err, "model: sequences of %zu tokens do not fit its context of %lld", r->context,
                       (long long)c->context);
    if (r->batch < 1 || r->batch > INT_MAX / r->context)
        return err_set(err, "model: a micro-batch of %zu sequences of %zu tokens: make it 1 to %zu", r->batch,
                       r->context, INT_MAX / r->context);
    if (r->split_weights && r->recompute != RECOMPUTE_NONE)
        return err_set(
            err, "model: passes for weight gradients of their own need the activations, which recomputation "
                 "does not keep; use recompute: none, or another schedule");
    if (r->fp8 && !r->kernels->fp8_step)
        return err_set(
            err, "model: precision fp8 needs a GPU of compute capability 8.9 or newer (Ada, Hopper); use "
                 "precision: bf16");
    return check_heads(c, err) != 0 || check_cuts(r, err) != 0 ? -1 : 0;
}

/* ---- making ---- */

static void set_sizes(struct model *m)
{
    const struct job_model *c = &m->config;
    size_t tp = (size_t)m->mesh->size.tp;
    m->batch = m->r.batch;
    m->tokens = m->r.sequences > 0 ? 1 : m->r.context / (size_t)m->mesh->size.cp;
    m->n = m->batch * m->tokens;
    m->sequence = m->r.sequence && tp > 1;
    m->rows = m->sequence ? m->n / tp : m->n;
    m->hidden = (size_t)c->hidden;
    m->ffn = (size_t)c->ffn / tp;
    m->wide = model_gpt2(m) ? m->ffn : 2 * m->ffn;
    m->vocab = m->layout->vocab;
    m->heads = (size_t)c->heads / tp;
    m->kv_heads = (size_t)c->kv_heads / tp;
    m->size = (size_t)(c->hidden / c->heads);
    m->queries = m->heads * m->size;
    m->keys = m->kv_heads * m->size;
    m->qkv = m->queries + 2 * m->keys;
    for (size_t i = 0; i < m->layout->n_chunks; i++)
        if (m->layout->chunks[i].count > m->max_layers)
            m->max_layers = m->layout->chunks[i].count;
}

/* What full recomputation computes again, in any case. */
static void alloc_inner(struct model *m, struct layer_acts *a)
{
    size_t stream = m->rows * m->hidden;
    bool keeps_means = model_gpt2(m);
    a->mean1 = keeps_means ? model_alloc_real(m, m->rows) : NULL;
    a->rstd1 = model_alloc_real(m, m->rows);
    a->qkv = model_alloc_act(m, m->n * m->qkv);
    a->mid = model_alloc_act(m, stream);
    a->mean2 = keeps_means ? model_alloc_real(m, m->rows) : NULL;
    a->rstd2 = model_alloc_real(m, m->rows);
    if (m->config.experts > 0)
        a->moe = moe_acts_new(m);
    else
        a->wide = model_alloc_act(m, m->n * m->wide);
}

/* What selective recomputation computes again. */
static void alloc_cheap(struct model *m, struct layer_acts *a)
{
    size_t stream = m->rows * m->hidden;
    a->norm1 = model_alloc_act(m, stream);
    a->attention = model_alloc_act(m, m->n * m->queries);
    a->lse = model_alloc_real(m, m->n * m->heads);
    a->norm2 = model_alloc_act(m, stream);
    if (m->config.experts == 0)
        a->active = model_alloc_act(m, m->n * m->ffn);
}

static void alloc_layer(struct model *m, struct layer_acts *a)
{
    *a = m->shared;
    if (m->r.inference) /* each layer writes over what the one before it had */
        return;
    a->in = model_alloc_act(m, m->rows * m->hidden);
    if (m->r.recompute != RECOMPUTE_FULL)
        alloc_inner(m, a);
    if (m->r.recompute == RECOMPUTE_NONE)
        alloc_cheap(m, a);
}

static void alloc_grads(struct model *m, struct layer_grads *g)
{
    size_t stream = m->rows * m->hidden;
    g->dout = model_alloc_act(m, stream);
    g->dmid = model_alloc_act(m, stream);
    g->dqkv = model_alloc_act(m, m->n * m->qkv);
    if (m->config.experts == 0)
        g->dwide = model_alloc_act(m, m->n * m->wide);
}

static bool ends_here(const struct model *m)
{
    for (size_t i = 0; i < m->layout->n_chunks; i++)
        if (m->layout->chunks[i].ends)
            return true;
    return false;
}

static void alloc_slot(struct model *m, struct slot *s)
{
    s->layers = mem_zero(m->max_layers, sizeof *s->layers);
    s->grads = mem_zero(m->max_layers, sizeof *s->grads);
    for (size_t i = 0; i < m->max_layers; i++) {
        alloc_layer(m, &s->layers[i]);
        s->grads[i] = m->grads;
        if (m->r.split_weights && !m->r.inference)
            alloc_grads(m, &s->grads[i]);
    }
    s->tokens = model_alloc(m, m->n * sizeof *s->tokens);
    s->targets = model_alloc(m, m->n * sizeof *s->targets);
    s->rows = model_alloc(m, m->n * sizeof *s->rows);
    s->row_starts = model_alloc(m, m->batch * sizeof *s->row_starts);
    if (!ends_here(m))
        return;
    s->out = model_alloc_act(m, m->rows * m->hidden);
    s->mean = model_alloc_real(m, m->rows);
    s->rstd = model_alloc_real(m, m->rows);
    if (!m->r.inference)
        s->dnorm = model_alloc_act(m, m->rows * m->hidden);
}

static void alloc_ring(struct model *m)
{
    for (int i = 0; i < 2; i++) {
        m->s.kv[i] = model_alloc_act(m, m->n * 2 * m->keys);
        m->s.dkv[i] = model_alloc_real(m, m->n * 2 * m->keys);
    }
}

/* What the backward pass alone writes. */
static void alloc_scratch_back(struct model *m)
{
    struct scratch *s = &m->s;
    s->queries = model_alloc_act(m, m->n * m->queries);
    if (m->config.experts == 0 && !model_gpt2(m))
        s->active = model_alloc_act(m, m->n * m->ffn);
    if (!model_wide(m) && !model_whole(m))
        s->dqkv = model_alloc_real(m, m->n * m->qkv);
    if (ends_here(m))
        s->dhead = model_alloc_act(m, m->n * m->hidden);
}

static void alloc_scratch(struct model *m)
{
    struct scratch *s = &m->s;
    size_t tp = (size_t)m->mesh->size.tp;
    s->full = model_alloc_act(m, m->n * m->hidden);
    s->partial = model_alloc_act(m, m->n * m->hidden);
    s->narrow = model_alloc_act(m, m->rows * m->hidden);
    if (m->config.experts > 0)
        moe_scratch_new(m);
    if (!model_wide(m) && !model_whole(m))
        s->out = model_alloc_real(m, m->n * m->queries);
    if (m->mesh->size.cp > 1)
        alloc_ring(m);
    if (!m->r.inference)
        alloc_scratch_back(m);
    if (!ends_here(m))
        return;
    s->logits = model_alloc_real(m, head_piece(m) * m->vocab);
    s->statistics = model_alloc_real(m, 2 * (tp + 1) * head_piece(m));
    s->losses = model_alloc_real(m, 2 * head_piece(m));
    s->loss = model_alloc(m, sizeof *s->loss);
    s->head = model_alloc_act(m, m->n * m->hidden);
}

/* Local token i is at position first + i of its chunk; chunks r and 2 CP - 1 - r. */
static void set_positions(struct model *m)
{
    size_t cp = (size_t)m->mesh->size.cp, r = (size_t)m->mesh->cp, half = m->tokens / 2;
    m->host_positions = mem_zero(m->tokens, sizeof *m->host_positions);
    for (size_t i = 0; i < m->tokens; i++) {
        size_t at = cp == 1 ? i : i < half ? r * half + i : (2 * cp - 1 - r) * half + i - half;
        m->host_positions[i] = (int32_t)at;
    }
    for (size_t b = 0; b < m->batch; b++)
        m->k->from_host(m->positions + b * m->tokens, m->host_positions,
                        m->tokens * sizeof *m->host_positions);
}

static void set_rope(struct model *m)
{
    size_t count = m->r.context * (m->size / 2);
    real *host = mem_zero(2 * count, sizeof *host);
    kernel_rope_tables(host, host + count, m->config.rope_theta, m->r.context, m->size);
    m->k->from_host(m->cosine, host, count * sizeof *host);
    m->k->from_host(m->sine, host + count, count * sizeof *host);
    free(host);
}

static void allocate(struct model *m)
{
    if (m->r.inference)
        m->shared.in = model_alloc_act(m, m->rows * m->hidden);
    if (m->r.inference || m->r.recompute == RECOMPUTE_FULL)
        alloc_inner(m, &m->shared);
    if (m->r.inference || m->r.recompute != RECOMPUTE_NONE)
        alloc_cheap(m, &m->shared);
    if (!m->r.split_weights && !m->r.inference)
        alloc_grads(m, &m->grads);
    for (int i = 0; i < m->r.slots; i++)
        alloc_slot(m, &m->slots[i]);
    alloc_scratch(m);
    if (m->r.fp8)
        m->fp8 = model_alloc_real(m, (size_t)m->config.layers * LINEARS * KERNEL_FP8_STATE);
    m->positions = model_alloc(m, m->n * sizeof *m->positions);
    if (!model_gpt2(m)) {
        m->cosine = model_alloc_real(m, m->r.context * (m->size / 2));
        m->sine = model_alloc_real(m, m->r.context * (m->size / 2));
    }
}

struct model *model_new(const struct model_request *request, struct err *err)
{
    if (check(request, err) != 0)
        return NULL;
    static uint64_t models;
    struct model *m = mem_zero(1, sizeof *m);
    m->number = ++models;
    m->r = *request;
    m->config = *request->config;
    m->k = request->kernels;
    m->mesh = request->mesh;
    m->layout = request->layout;
    m->slots = mem_zero((size_t)request->slots, sizeof *m->slots);
    set_sizes(m);
    if (request->sequences > 0)
        cache_new(m);
    allocate(m);
    if (m->short_of > 0) {
        err_set(err,
                "model: no memory for the activations of micro-batches of %zu sequences (%.2f GiB and more): "
                "use a "
                "smaller batch.micro, recompute: full, more tp, cp or pp, or nodes with more memory",
                m->batch, (double)(m->bytes + m->short_of) / (1 << 30));
        model_free(m);
        return NULL;
    }
    set_positions(m);
    if (!model_gpt2(m))
        set_rope(m);
    return m;
}

static void free_layers(struct model *m, struct slot *s)
{
    for (size_t i = 0; s->layers && i < m->max_layers; i++)
        if (s->layers[i].moe != m->shared.moe)
            moe_acts_free(m, s->layers[i].moe);
    free(s->layers);
    free(s->grads);
}

void model_free(struct model *model)
{
    if (!model)
        return;
    model->k->forget();
    for (int i = 0; i < model->r.slots; i++)
        free_layers(model, &model->slots[i]);
    moe_acts_free(model, model->shared.moe);
    moe_scratch_free(model);
    cache_free(model->cache);
    for (size_t i = 0; i < model->n_blocks; i++)
        model->k->free(model->blocks[i]);
    free(model->blocks);
    free(model->slots);
    free(model->host_positions);
    free(model);
}
