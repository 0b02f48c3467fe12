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

void projection_forward(const struct model *m, const struct layer *y, const struct kernel_linear *l,
                        enum place place, const act *x, const act *in, act *out,
                        const struct kernel_norm *norm)
{
    struct kernel_dropout drop = stream_dropout(m, y->b, y->slot, y->l, place);
    if (m->mesh->size.tp == 1 && drop.rate <= 0) { /* straight onto the stream */
        m->k->linear_forward(out, in, x, l, m->n);
        if (norm)
            norm_forward(m, norm, out, m->rows);
        return;
    }
    struct kernel_linear bare = *l;
    bare.bias = NULL;
    m->k->linear_forward(m->s.partial, NULL, x, &bare, m->n);
    projection_join(m, y, l->bias, place, m->s.partial, in, out, norm);
}

void projection_join(const struct model *m, const struct layer *y, const act *bias, enum place place,
                     act *partial, const act *in, act *out, const struct kernel_norm *norm)
{
    struct kernel_dropout drop = stream_dropout(m, y->b, y->slot, y->l, place);
    const act *sum = stream_reduce(m, partial, m->s.narrow);
    m->k->residual_forward(out, in, sum, bias, drop.rate > 0 ? &drop : NULL, norm, m->rows, m->hidden);
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

struct kernel_norm norm_of(const struct model *m, size_t unit, const char *weight, const char *bias)
{
    return (struct kernel_norm){.weight = model_weight(m, unit, weight),
                                .bias = model_bias(m, unit, bias),
                                .eps = (real)m->config.norm_eps};
}

void norm_forward(const struct model *m, const struct kernel_norm *norm, const act *x, size_t rows)
{
    if (norm->bias)
        m->k->layernorm_forward(norm->out, norm->mean, norm->rstd, x, norm->weight, norm->bias, norm->eps,
                                rows, m->hidden);
    else
        m->k->rmsnorm_forward(norm->out, norm->rstd, x, norm->weight, norm->eps, rows, m->hidden);
}

void norm_backward(const struct model *m, const struct kernel_norm *norm, real *dweight, real *dbias,
                   const act *dout, const act *x, act *dx)
{
    if (norm->bias)
        m->k->layernorm_backward(dx, dweight, dbias, dout, x, norm->weight, norm->mean, norm->rstd, m->rows,
                                 m->hidden);
    else
        m->k->rmsnorm_backward(dx, dweight, dout, x, norm->weight, norm->rstd, m->rows, m->hidden);
}

struct kernel_norm norm2_of(const struct model *m, const struct layer *y)
{
    struct kernel_norm norm = norm_of(m, y->unit, "norm2.weight", "norm2.bias");
    norm.out = y->a->norm2;
    norm.mean = y->a->mean2;
    norm.rstd = y->a->rstd2;
    return norm;
}

void norm2_backward(const struct model *m, const struct layer *y, const act *dout, act *d)
{
    struct kernel_norm norm = norm2_of(m, y);
    norm_backward(m, &norm, model_gradient(m, y->unit, "norm2.weight"),
                  model_bias_gradient(m, y->unit, "norm2.bias"), dout, y->a->mid, d);
}
