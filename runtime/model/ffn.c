/* ffn: the second block of a dense layer: mid + down(active(up(norm(mid)))), GELU for GPT-2, SwiGLU for Llama. */
#include "runtime/model/model_private.h"

static struct kernel_linear up_of(const struct model *m, const struct layer *y)
{
    return (struct kernel_linear){
        .weight = model_weight(m, y->unit, model_gpt2(m) ? "ffn.up.weight" : "ffn.gate.weight"),
        .bias = model_bias(m, y->unit, "ffn.up.bias"),
        .in = m->hidden,
        .out = m->wide, /* Llama's up follows its gate */
        .fp8 = model_fp8_of(m, y, LINEAR_UP)};
}

static struct kernel_linear down_of(const struct model *m, const struct layer *y)
{
    return (struct kernel_linear){.weight = model_weight(m, y->unit, "ffn.down.weight"),
                                  .bias = model_bias(m, y->unit, "ffn.down.bias"),
                                  .in = m->ffn,
                                  .out = m->hidden,
                                  .fp8 = model_fp8_of(m, y, LINEAR_DOWN)};
}

static void activate(const struct model *m, const struct layer *y)
{
    if (model_gpt2(m))
        m->k->gelu_forward(y->a->active, y->a->wide, m->n * m->ffn);
    else
        m->k->swiglu_forward(y->a->active, y->a->wide, m->n, m->ffn);
}

/* wide, active (N,F) of x (N,C). GELU with the product, but where it will be computed again without: the bits are to be the same. */
static void up_forward(const struct model *m, const struct layer *y, const act *x)
{
    struct kernel_linear up = up_of(m, y);
    if (model_gpt2(m) && m->r.recompute != RECOMPUTE_SELECTIVE) {
        m->k->linear_gelu_forward(y->a->active, y->a->wide, x, &up, m->n);
        return;
    }
    m->k->linear_forward(y->a->wide, NULL, x, &up, m->n);
    activate(m, y);
}

void ffn_forward(struct model *m, const struct layer *y, act *out)
{
    struct kernel_linear down = down_of(m, y);
    up_forward(m, y, stream_gather(m, y->a->norm2, m->s.full));
    if (out)
        projection_forward(m, y, &down, PLACE_FFN, y->a->active, y->a->mid, out, NULL);
}

void ffn_recompute(struct model *m, const struct layer *y)
{
    struct kernel_norm norm = norm2_of(m, y);
    norm_forward(m, &norm, y->a->mid, m->rows);
    activate(m, y);
}

static void down_weights(const struct model *m, const struct layer *y, const act *dy, const act *dy_full)
{
    struct kernel_linear down = down_of(m, y);
    m->k->linear_weights(model_gradient(m, y->unit, "ffn.down.weight"), NULL, dy_full, y->a->active, &down,
                         m->n);
    if (down.bias)
        m->k->bias_backward(model_gradient(m, y->unit, "ffn.down.bias"), dy, m->rows, m->hidden);
}

static void up_weights(const struct model *m, const struct layer *y, const act *x)
{
    struct kernel_linear up = up_of(m, y);
    const char *weight = model_gpt2(m) ? "ffn.up.weight" : "ffn.gate.weight";
    m->k->linear_weights(model_gradient(m, y->unit, weight), model_bias_gradient(m, y->unit, "ffn.up.bias"),
                         y->g->dwide, x, &up, m->n);
}

/* dwide from dy (N,C) gathered */
static void down_backward(const struct model *m, const struct layer *y, const act *dy)
{
    struct kernel_linear down = down_of(m, y);
    if (model_gpt2(m)) {
        m->k->linear_gelu_backward(y->g->dwide, dy, y->a->wide, &down, m->n);
        return;
    }
    m->k->linear_backward(m->s.active, false, dy, &down, m->n);
    m->k->swiglu_backward(y->g->dwide, m->s.active, y->a->wide, m->n, m->ffn);
}

void ffn_backward(struct model *m, const struct layer *y, act *d)
{
    struct kernel_linear up = up_of(m, y);
    const act *dy = projection_gradient(m, y, PLACE_FFN, d, y->g->dout);
    const act *dy_full = stream_gather(m, dy, m->s.full);
    if (!m->r.split_weights)
        down_weights(m, y, dy, dy_full);
    down_backward(m, y, dy_full);
    if (!m->r.split_weights)
        up_weights(m, y, stream_gather(m, y->a->norm2, m->s.full));
    m->k->linear_backward(m->s.partial, false, y->g->dwide, &up, m->n);
    norm2_backward(m, y, stream_reduce(m, m->s.partial, m->s.narrow), d);
}

void ffn_weights(struct model *m, const struct layer *y)
{
    down_weights(m, y, y->g->dout, stream_gather(m, y->g->dout, m->s.full));
    up_weights(m, y, stream_gather(m, y->a->norm2, m->s.full));
}
