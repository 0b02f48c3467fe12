/* attention: the first block of a layer: in + projection(attention(norm(in))). Heads are shared by the TP group, positions by the CP group. */
#include "runtime/model/model_private.h"

static struct kernel_linear qkv_of(const struct model *m, const struct layer *y)
{
    return (struct kernel_linear){.weight =
                                      model_weight(m, y->unit, "attn.q.weight"), /* keys and values follow */
                                  .bias = model_bias(m, y->unit, "attn.q.bias"),
                                  .in = m->hidden,
                                  .out = m->qkv,
                                  .fp8 = model_fp8_of(m, y, LINEAR_QKV)};
}

static struct kernel_linear out_of(const struct model *m, const struct layer *y)
{
    return (struct kernel_linear){.weight = model_weight(m, y->unit, "attn.out.weight"),
                                  .bias = model_bias(m, y->unit, "attn.out.bias"),
                                  .in = m->queries,
                                  .out = m->hidden,
                                  .fp8 = model_fp8_of(m, y, LINEAR_OUT)};
}

/* Queries and keys follow each other, so that they are turned as one row of heads. */
static void turn(const struct model *m, act *qkv, bool back)
{
    if (!model_gpt2(m))
        m->k->rope(qkv, m->cosine, m->sine, m->positions, back, m->heads + m->kv_heads, m->size, m->qkv,
                   m->n);
}

static struct kernel_norm norm1_of(const struct model *m, const struct layer *y)
{
    struct kernel_norm norm = norm_of(m, y->unit, "norm1.weight", "norm1.bias");
    norm.out = y->a->norm1;
    norm.mean = y->a->mean1;
    norm.rstd = y->a->rstd1;
    return norm;
}

static void norm1(const struct model *m, const struct layer *y)
{
    struct kernel_norm norm = norm1_of(m, y);
    norm_forward(m, &norm, y->a->in, m->rows);
}

void attention_forward(struct model *m, const struct layer *y)
{
    struct kernel_linear qkv = qkv_of(m, y), out = out_of(m, y);
    struct kernel_norm norm2 = norm2_of(m, y);
    norm1(m, y);
    m->k->linear_forward(y->a->qkv, NULL, stream_gather(m, y->a->norm1, m->s.full), &qkv, m->n);
    turn(m, y->a->qkv, false);
    if (m->cache)
        cache_forward(m, y);
    else
        ring_forward(m, y);
    projection_forward(m, y, &out, PLACE_ATTENTION, y->a->attention, y->a->in, y->a->mid, &norm2);
}

void attention_recompute(struct model *m, const struct layer *y)
{
    norm1(m, y);
    ring_forward(m, y);
}

/* Gradients of the projection's weights; dy (R,C), dy_full (N,C) gathered */
static void out_weights(const struct model *m, const struct layer *y, const act *dy, const act *dy_full)
{
    struct kernel_linear out = out_of(m, y);
    m->k->linear_weights(model_gradient(m, y->unit, "attn.out.weight"), NULL, dy_full, y->a->attention, &out,
                         m->n);
    if (out.bias)
        m->k->bias_backward(model_gradient(m, y->unit, "attn.out.bias"), dy, m->rows, m->hidden);
}

static void qkv_weights(const struct model *m, const struct layer *y, const act *x)
{
    struct kernel_linear qkv = qkv_of(m, y);
    m->k->linear_weights(model_gradient(m, y->unit, "attn.q.weight"),
                         model_bias_gradient(m, y->unit, "attn.q.bias"), y->g->dqkv, x, &qkv, m->n);
}

void attention_backward(struct model *m, const struct layer *y, act *d)
{
    struct kernel_linear qkv = qkv_of(m, y), out = out_of(m, y);
    struct kernel_norm norm = norm1_of(m, y);
    const act *dy = projection_gradient(m, y, PLACE_ATTENTION, d, y->g->dmid);
    const act *dy_full = stream_gather(m, dy, m->s.full);
    m->k->linear_backward(m->s.queries, false, dy_full, &out, m->n);
    if (!m->r.split_weights)
        out_weights(m, y, dy, dy_full);
    ring_backward(m, y, m->s.queries, y->g->dqkv);
    turn(m, y->g->dqkv, true);
    if (!m->r.split_weights)
        qkv_weights(m, y, stream_gather(m, y->a->norm1, m->s.full));
    m->k->linear_backward(m->s.partial, false, y->g->dqkv, &qkv, m->n);
    norm_backward(m, &norm, model_gradient(m, y->unit, "norm1.weight"),
                  model_bias_gradient(m, y->unit, "norm1.bias"), stream_reduce(m, m->s.partial, m->s.narrow),
                  y->a->in, d);
}

void attention_weights(struct model *m, const struct layer *y)
{
    out_weights(m, y, y->g->dmid, stream_gather(m, y->g->dmid, m->s.full));
    qkv_weights(m, y, stream_gather(m, y->a->norm1, m->s.full));
}
