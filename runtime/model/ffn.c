/* ffn: the second block of a dense layer: mid + down(active(up(norm(mid)))), GELU for GPT-2, SwiGLU for Llama. */
#include "runtime/model/model_private.h"

static struct linear up_of(const struct model *m, const struct layer *y)
{
    bool gpt2 = model_gpt2(m);
    return (struct linear){.weight = model_weight(m, y->unit, gpt2 ? "ffn.up.weight" : "ffn.gate.weight"),
                           .bias = gpt2 ? model_weight(m, y->unit, "ffn.up.bias") : NULL,
                           .in = m->hidden,
                           .out = m->wide}; /* Llama's up follows its gate */
}

static struct linear down_of(const struct model *m, const struct layer *y)
{
    return (struct linear){.weight = model_weight(m, y->unit, "ffn.down.weight"),
                           .bias = model_gpt2(m) ? model_weight(m, y->unit, "ffn.down.bias") : NULL,
                           .in = m->ffn,
                           .out = m->hidden};
}

static void norm2(const struct model *m, const struct layer *y)
{
    struct norm norm = norm_of(m, y->unit, "norm2.weight", "norm2.bias", false);
    norm_forward(m, &norm, y->a->mid, y->a->norm2, y->a->mean2, y->a->rstd2, m->rows);
}

static void activate(const struct model *m, const struct layer *y)
{
    if (model_gpt2(m))
        m->k->gelu_forward(y->a->active, y->a->wide, m->n * m->ffn);
    else
        m->k->swiglu_forward(y->a->active, y->a->wide, m->n, m->ffn);
}

void ffn_forward(struct model *m, const struct layer *y, act *out)
{
    struct linear up = up_of(m, y), down = down_of(m, y);
    norm2(m, y);
    linear_forward(m, &up, stream_gather(m, y->a->norm2, m->s.full), m->n, false, y->a->wide);
    activate(m, y);
    if (out)
        projection_forward(m, y, &down, PLACE_FFN, y->a->active, y->a->mid, out);
}

void ffn_recompute(struct model *m, const struct layer *y)
{
    norm2(m, y);
    activate(m, y);
}

static void down_weights(const struct model *m, const struct layer *y, const act *dy, const act *dy_full)
{
    struct linear down = down_of(m, y);
    linear_weights(m, &down, y->a->active, dy_full, m->n, model_gradient(m, y->unit, "ffn.down.weight"),
                   NULL);
    if (down.bias)
        m->k->bias_backward(model_gradient(m, y->unit, "ffn.down.bias"), dy, m->rows, m->hidden);
}

static void up_weights(const struct model *m, const struct layer *y, const act *x)
{
    struct linear up = up_of(m, y);
    const char *weight = model_gpt2(m) ? "ffn.up.weight" : "ffn.gate.weight";
    linear_weights(m, &up, x, y->g->dwide, m->n, model_gradient(m, y->unit, weight),
                   up.bias ? model_gradient(m, y->unit, "ffn.up.bias") : NULL);
}

void ffn_backward(struct model *m, const struct layer *y, act *d)
{
    struct linear up = up_of(m, y), down = down_of(m, y);
    struct norm norm = norm_of(m, y->unit, "norm2.weight", "norm2.bias", true);
    const act *dy = projection_gradient(m, y, PLACE_FFN, d, y->g->dout);
    const act *dy_full = stream_gather(m, dy, m->s.full);
    linear_backward(m, &down, dy_full, m->n, false, m->s.active);
    if (!m->r.split_weights)
        down_weights(m, y, dy, dy_full);
    if (model_gpt2(m))
        m->k->gelu_backward(y->g->dwide, m->s.active, y->a->wide, m->n * m->ffn);
    else
        m->k->swiglu_backward(y->g->dwide, m->s.active, y->a->wide, m->n, m->ffn);
    if (!m->r.split_weights)
        up_weights(m, y, stream_gather(m, y->a->norm2, m->s.full));
    linear_backward(m, &up, y->g->dwide, m->n, false, m->s.partial);
    norm_backward(m, &norm, stream_reduce(m, m->s.partial, m->s.narrow), y->a->mid, y->a->mean2, y->a->rstd2,
                  d);
}

void ffn_weights(struct model *m, const struct layer *y)
{
    down_weights(m, y, y->g->dout, stream_gather(m, y->g->dout, m->s.full));
    up_weights(m, y, stream_gather(m, y->a->norm2, m->s.full));
}
