/* attention: the first block of a layer: in + projection(attention(norm(in))). Heads are shared by the TP group, positions by the CP group. */
#include "runtime/model/model_private.h"

static struct linear qkv_of(const struct model *m, const struct layer *y)
{
    return (struct linear){.weight = model_weight(m, y->unit, "attn.q.weight"), /* keys and values follow */
                           .bias = model_gpt2(m) ? model_weight(m, y->unit, "attn.q.bias") : NULL,
                           .in = m->hidden,
                           .out = m->qkv};
}

static struct linear out_of(const struct model *m, const struct layer *y)
{
    return (struct linear){.weight = model_weight(m, y->unit, "attn.out.weight"),
                           .bias = model_gpt2(m) ? model_weight(m, y->unit, "attn.out.bias") : NULL,
                           .in = m->queries,
                           .out = m->hidden};
}

/* Queries and keys follow each other, so that they are turned as one row of heads. */
static void turn(const struct model *m, act *qkv, bool back)
{
    if (!model_gpt2(m))
        m->k->rope(qkv, m->cosine, m->sine, m->positions, back, m->heads + m->kv_heads, m->size, m->qkv,
                   m->n);
}

static void norm1(const struct model *m, const struct layer *y)
{
    struct norm norm = norm_of(m, y->unit, "norm1.weight", "norm1.bias", false);
    norm_forward(m, &norm, y->a->in, y->a->norm1, y->a->mean1, y->a->rstd1, m->rows);
}

void attention_forward(struct model *m, const struct layer *y)
{
    struct linear qkv = qkv_of(m, y), out = out_of(m, y);
    norm1(m, y);
    linear_forward(m, &qkv, stream_gather(m, y->a->norm1, m->s.full), m->n, false, y->a->qkv);
    turn(m, y->a->qkv, false);
    if (m->cache)
        cache_forward(m, y);
    else
        ring_forward(m, y);
    projection_forward(m, y, &out, PLACE_ATTENTION, y->a->attention, y->a->in, y->a->mid);
}

void attention_recompute(struct model *m, const struct layer *y)
{
    norm1(m, y);
    ring_forward(m, y);
}

/* Gradients of the projection's weights; dy (R,C), dy_full (N,C) gathered */
static void out_weights(const struct model *m, const struct layer *y, const act *dy, const act *dy_full)
{
    struct linear out = out_of(m, y);
    linear_weights(m, &out, y->a->attention, dy_full, m->n, model_gradient(m, y->unit, "attn.out.weight"),
                   NULL);
    if (out.bias)
        m->k->bias_backward(model_gradient(m, y->unit, "attn.out.bias"), dy, m->rows, m->hidden);
}

static void qkv_weights(const struct model *m, const struct layer *y, const act *x)
{
    struct linear qkv = qkv_of(m, y);
    linear_weights(m, &qkv, x, y->g->dqkv, m->n, model_gradient(m, y->unit, "attn.q.weight"),
                   qkv.bias ? model_gradient(m, y->unit, "attn.q.bias") : NULL);
}

void attention_backward(struct model *m, const struct layer *y, act *d)
{
    struct linear qkv = qkv_of(m, y), out = out_of(m, y);
    struct norm norm = norm_of(m, y->unit, "norm1.weight", "norm1.bias", true);
    const act *dy = projection_gradient(m, y, PLACE_ATTENTION, d, y->g->dmid);
    const act *dy_full = stream_gather(m, dy, m->s.full);
    linear_backward(m, &out, dy_full, m->n, false, m->s.queries);
    if (!m->r.split_weights)
        out_weights(m, y, dy, dy_full);
    ring_backward(m, y, m->s.queries, y->g->dqkv);
    turn(m, y->g->dqkv, true);
    if (!m->r.split_weights)
        qkv_weights(m, y, stream_gather(m, y->a->norm1, m->s.full));
    linear_backward(m, &qkv, y->g->dqkv, m->n, false, m->s.partial);
    norm_backward(m, &norm, stream_reduce(m, m->s.partial, m->s.narrow), y->a->in, y->a->mean1, y->a->rstd1,
                  d);
}

void attention_weights(struct model *m, const struct layer *y)
{
    out_weights(m, y, y->g->dmid, stream_gather(m, y->g->dmid, m->s.full));
    qkv_weights(m, y, stream_gather(m, y->a->norm1, m->s.full));
}
