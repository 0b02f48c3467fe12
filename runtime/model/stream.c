/* stream: the residual stream between the blocks: its rows over the TP group, its norms, its dropout, and how a block's result joins it.
 *
 * Without sequence parallelism every TP rank has all rows and computes what is done to them alike, bit by bit. With it (Korthikanti et al.,
 * arXiv 2205.05198) each has its own rows: they are gathered before a block and reduced and scattered behind it, which moves the same bytes
 * as the all-reduce does. */
#include "common/mix.h"
#include "runtime/model/model_private.h"

static enum comm_type act_type(const struct model *m)
{
    return m->k->type == KERNEL_BF16 ? COMM_BF16 : COMM_REAL;
}

const act *stream_gather(const struct model *m, const act *x, act *full)
{
    if (!m->sequence)
        return x;
    comm_all_gather(m->mesh->tp_group, x, full, m->rows * m->hidden, act_type(m));
    return full;
}

act *stream_reduce(const struct model *m, act *partial, act *own)
{
    if (m->sequence) {
        comm_reduce_scatter(m->mesh->tp_group, partial, own, m->rows * m->hidden, act_type(m));
        return own;
    }
    if (m->mesh->size.tp > 1)
        comm_all_reduce(m->mesh->tp_group, partial, m->n * m->hidden, act_type(m));
    return partial;
}

uint64_t dropout_key(const struct model *m, uint64_t step, size_t layer, enum place place)
{
    uint64_t key = mix64(m->r.seed + MIX_GOLDEN);
    key = mix64(key + step * MIX_GOLDEN);
    return mix64(key + (layer * PLACES + (uint64_t)place) * MIX_GOLDEN);
}

struct kernel_dropout stream_dropout(const struct model *m, const struct model_batch *b,
                                     const struct slot *slot, size_t layer, enum place place)
{
    size_t first = m->sequence ? (size_t)m->mesh->tp * m->rows : 0;
    return (struct kernel_dropout){.rate = b->train ? m->config.dropout : 0,
                                   .key = dropout_key(m, b->step, layer, place),
                                   .rows = slot->rows + first};
}

void projection_forward(const struct model *m, const struct layer *y, const struct linear *l,
                        enum place place, const act *x, const act *in, act *out)
{
    struct kernel_dropout drop = stream_dropout(m, y->b, y->slot, y->l, place);
    size_t stream = m->rows * m->hidden;
    m->k->copy(out, in, stream * m->k->act_size);
    if (m->mesh->size.tp == 1 && drop.rate <= 0) { /* straight onto the stream */
        linear_forward(m, l, x, m->n, true, out);
        return;
    }
    struct linear bare = {.weight = l->weight, .in = l->in, .out = l->out};
    linear_forward(m, &bare, x, m->n, false, m->s.partial);
    projection_join(m, y, l->bias, place, m->s.partial, out);
}

void projection_join(const struct model *m, const struct layer *y, const act *bias, enum place place,
                     act *partial, act *out)
{
    struct kernel_dropout drop = stream_dropout(m, y->b, y->slot, y->l, place);
    act *sum = stream_reduce(m, partial, m->s.narrow);
    if (bias)
        m->k->bias_forward(sum, sum, bias, m->rows, m->hidden);
    if (drop.rate > 0)
        m->k->dropout(sum, sum, &drop, m->rows, m->hidden);
    m->k->add(out, sum, m->rows * m->hidden);
}

const act *projection_gradient(const struct model *m, const struct layer *y, enum place place, const act *d,
                               act *kept)
{
    struct kernel_dropout drop = stream_dropout(m, y->b, y->slot, y->l, place);
    if (drop.rate > 0)
        m->k->dropout(kept, d, &drop, m->rows, m->hidden);
    else if (m->r.split_weights)
        m->k->copy(kept, d, m->rows * m->hidden * m->k->act_size);
    else
        return d;
    return kept;
}

void norm_forward(const struct model *m, const struct norm *norm, const act *x, act *out, real *mean,
                  real *rstd, size_t rows)
{
    real eps = (real)m->config.norm_eps;
    if (norm->bias)
        m->k->layernorm_forward(out, mean, rstd, x, norm->weight, norm->bias, eps, rows, m->hidden);
    else
        m->k->rmsnorm_forward(out, rstd, x, norm->weight, eps, rows, m->hidden);
}

void norm_backward(const struct model *m, const struct norm *norm, const act *dout, const act *x,
                   const real *mean, const real *rstd, act *dx)
{
    if (norm->bias)
        m->k->layernorm_backward(dx, norm->dweight, norm->dbias, dout, x, norm->weight, mean, rstd, m->rows,
                                 m->hidden);
    else
        m->k->rmsnorm_backward(dx, norm->dweight, dout, x, norm->weight, rstd, m->rows, m->hidden);
}

/* "norm1.weight" and, with biases, "norm1.bias" of the unit */
struct norm norm_of(const struct model *m, size_t unit, const char *weight, const char *bias, bool gradients)
{
    bool has_bias = model_gpt2(m);
    return (struct norm){.weight = model_weight(m, unit, weight),
                         .bias = has_bias ? model_weight(m, unit, bias) : NULL,
                         .dweight = gradients ? model_gradient(m, unit, weight) : NULL,
                         .dbias = gradients && has_bias ? model_gradient(m, unit, bias) : NULL};
}
