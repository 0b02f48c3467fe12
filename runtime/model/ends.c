/* ends: the embedding where the model begins, and the last norm, the head and the loss where it ends.
 *
 * Both tables are cut by rows of the vocabulary over the TP group. The loss needs of other ranks only two numbers a token: the logarithm of
 * their part of the softmax's denominator, and the logit of the target where it is theirs. Logits are computed for some rows at a time and
 * turned into their gradients at once, because the scale of the loss is known ahead: they are never kept, and never gathered. */
#include "runtime/model/model_private.h"

/* Rows of logits at a time, however large the vocabulary is. */
#define PIECE_LEAST 64

size_t head_piece(const struct model *m)
{
    size_t rows = m->k->logits / m->vocab, wanted = m->cache ? m->r.sequences : m->n;
    rows = rows < PIECE_LEAST ? PIECE_LEAST : rows;
    return rows < wanted ? rows : wanted;
}

/* ---- embedding ---- */

static size_t first_row(const struct model *m)
{
    return m->sequence ? (size_t)m->mesh->tp * m->rows : 0;
}

static int32_t first_token(const struct model *m)
{
    return (int32_t)m->layout->vocab_from;
}

static size_t own_tokens(const struct model *m)
{
    return m->layout->vocab_to - m->layout->vocab_from;
}

void embed_forward(struct model *m, const struct model_batch *b, const struct slot *slot, act *out)
{
    size_t unit = model_unit_of(m, UNIT_EMBED, LAYOUT_NONE);
    struct kernel_dropout drop = stream_dropout(m, b, slot, 0, PLACE_EMBEDDING);
    bool alone = m->mesh->size.tp == 1;
    act *partial = alone ? out : m->s.partial;
    model_need(m, unit, false);
    m->k->embedding_forward(partial, slot->tokens, model_weight(m, unit, "embed.weight"), first_token(m),
                            own_tokens(m), m->n, m->hidden);
    model_done(m, unit);
    const act *sum = stream_reduce(m, partial, out);
    if (sum != out)
        m->k->copy(out, sum, m->rows * m->hidden * m->k->act_size);
    if (model_gpt2(m)) {
        unit = model_unit_of(m, UNIT_POSITION, LAYOUT_NONE);
        model_need(m, unit, false);
        m->k->position_forward(out, model_weight(m, unit, "position.weight"), m->positions + first_row(m),
                               m->rows, m->hidden);
        model_done(m, unit);
    }
    if (drop.rate > 0)
        m->k->dropout(out, out, &drop, m->rows, m->hidden);
}

static void position_backward(const struct model *m, const act *d)
{
    size_t unit = model_unit_of(m, UNIT_POSITION, LAYOUT_NONE);
    model_need(m, unit, true);
    m->k->position_backward(model_gradient(m, unit, "position.weight"), d, m->positions + first_row(m),
                            (size_t)m->config.context, m->rows, m->hidden);
    model_gradients_in(m, unit);
    model_done(m, unit);
}

void embed_backward(struct model *m, const struct model_batch *b, const struct slot *slot, act *d)
{
    size_t unit = model_unit_of(m, UNIT_EMBED, LAYOUT_NONE);
    struct kernel_dropout drop = stream_dropout(m, b, slot, 0, PLACE_EMBEDDING);
    if (drop.rate > 0)
        m->k->dropout(d, d, &drop, m->rows, m->hidden);
    if (model_gpt2(m))
        position_backward(m, d);
    model_need(m, unit, true);
    m->k->embedding_backward(model_gradient(m, unit, "embed.weight"), stream_gather(m, d, m->s.full),
                             slot->tokens, first_token(m), own_tokens(m), m->n, m->hidden);
    model_gradients_in(m, unit);
    model_done(m, unit);
}

/* ---- head ---- */

struct head {
    size_t unit;
    const act *weight;
    real *gradient; /* NULL when not training */
};

static const char *head_name(const struct model *m)
{
    return m->config.tied ? "embed.weight" : "head.weight";
}

static struct head head_of(const struct model *m, bool train)
{
    size_t unit = model_unit_of(m, m->config.tied ? UNIT_EMBED : UNIT_HEAD, LAYOUT_NONE);
    model_need(m, unit, train);
    return (struct head){.unit = unit,
                         .weight = model_weight(m, unit, head_name(m)),
                         .gradient = train ? model_gradient(m, unit, head_name(m)) : NULL};
}

/* Adds the losses of `n` rows, whose logits are there, to s.loss; statistics: own lse and chosen, then those of all */
static void piece_loss(const struct model *m, const int32_t *targets, size_t n, real *lse)
{
    real *own = m->s.statistics, *all = own;
    size_t tp = (size_t)m->mesh->size.tp;
    m->k->cross_entropy_local(own, own + n, m->s.logits, targets, first_token(m), n, own_tokens(m), m->vocab);
    if (tp > 1) {
        all = own + 2 * n;
        comm_all_gather(m->mesh->tp_group, own, all, 2 * n, COMM_REAL);
    }
    m->k->cross_entropy_combine(m->s.loss, m->s.losses, lse, all, targets, tp, n);
}

/* Logits become their gradients where they lie; then those of the head's input (n,C) and weight. */
static void piece_backward(const struct model *m, const struct head *h, const struct model_batch *b,
                           const int32_t *targets, const real *lse, const act *x, size_t n, act *dx)
{
    act *dlogits = (act *)(void *)m->s.logits;
    size_t stride = m->vocab * sizeof(real) / m->k->act_size;
    struct kernel_matrix weight = {h->weight, m->hidden, false};
    m->k->cross_entropy_backward(dlogits, stride, m->s.logits, m->vocab, lse, targets, first_token(m),
                                 (real)b->scale, n, own_tokens(m));
    m->k->gemm(n, m->hidden, m->vocab, (struct kernel_matrix){dlogits, stride, false}, weight, false, dx,
               m->hidden);
    m->k->gemm_real(m->vocab, m->hidden, n, (struct kernel_matrix){dlogits, stride, true},
                    (struct kernel_matrix){x, m->hidden, false}, true, h->gradient, m->hidden);
}

/* s.logits (n, vocab) of rows x (n,C) behind the last norm */
static void piece_logits(const struct model *m, const struct head *h, const act *x, size_t n)
{
    m->k->gemm_real(n, m->vocab, m->hidden, (struct kernel_matrix){x, m->hidden, false},
                    (struct kernel_matrix){h->weight, m->hidden, true}, false, m->s.logits, m->vocab);
}

static void pieces(const struct model *m, const struct head *h, const struct model_batch *b,
                   const struct slot *slot, const act *x, act *dx)
{
    real *lse = m->s.losses + head_piece(m);
    for (size_t at = 0; at < m->n; at += head_piece(m)) {
        size_t n = m->n - at < head_piece(m) ? m->n - at : head_piece(m);
        const act *rows = act_in(m->k, x, at * m->hidden);
        piece_logits(m, h, rows, n);
        piece_loss(m, slot->targets + at, n, lse);
        if (b->train)
            piece_backward(m, h, b, slot->targets + at, lse, rows, n, act_at(m->k, dx, at * m->hidden));
        model_idle(m);
    }
}

static struct kernel_norm last_norm_of(const struct model *m, const struct slot *slot, size_t unit)
{
    struct kernel_norm norm = norm_of(m, unit, "norm.weight", "norm.bias");
    norm.out = m->s.narrow;
    norm.mean = slot->mean;
    norm.rstd = slot->rstd;
    return norm;
}

/* The last norm of x (rows, C), in s.narrow. */
static void last_norm(const struct model *m, const struct slot *slot, const act *x, size_t rows)
{
    size_t unit = model_unit_of(m, UNIT_NORM, LAYOUT_NONE);
    model_need(m, unit, false);
    struct kernel_norm norm = last_norm_of(m, slot, unit);
    norm_forward(m, &norm, x, rows);
    model_done(m, unit);
}

void head_logits(struct model *m, const struct slot *slot, const int32_t *index, size_t count, real *logits)
{
    size_t vocab = own_tokens(m);
    m->k->from_host(slot->targets, index, count * sizeof *index); /* there are no targets in such a pass */
    m->k->rows_gather(m->s.partial, slot->out, slot->targets, count, m->hidden);
    last_norm(m, slot, m->s.partial, count);
    struct head head = head_of(m, false);
    for (size_t at = 0; at < count; at += head_piece(m)) {
        size_t n = count - at < head_piece(m) ? count - at : head_piece(m);
        piece_logits(m, &head, act_in(m->k, m->s.narrow, at * m->hidden), n);
        for (size_t i = 0; i < n; i++)
            m->k->to_host(logits + (at + i) * vocab, m->s.logits + i * m->vocab, vocab * sizeof *logits);
    }
    model_done(m, head.unit);
}

void head_loss(struct model *m, const struct model_batch *b, const struct slot *slot)
{
    bool alone = m->mesh->size.tp == 1;
    last_norm(m, slot, slot->out, m->rows);
    struct head head = head_of(m, b->train);
    const act *x = stream_gather(m, m->s.narrow, m->s.head);
    act *dx = alone ? slot->dnorm : m->s.dhead;
    pieces(m, &head, b, slot, x, dx);
    if (b->train && !alone) {
        const act *own = stream_reduce(m, dx, slot->dnorm);
        if (own != slot->dnorm)
            m->k->copy(slot->dnorm, own, m->rows * m->hidden * m->k->act_size);
    }
    if (b->train && (!m->config.tied || m->mesh->size.pp > 1)) /* else the embedding adds to it, too */
        model_gradients_in(m, head.unit);
    model_done(m, head.unit);
}

void head_backward(struct model *m, const struct slot *slot, act *d)
{
    size_t unit = model_unit_of(m, UNIT_NORM, LAYOUT_NONE);
    model_need(m, unit, true);
    struct kernel_norm norm = last_norm_of(m, slot, unit);
    m->k->zero(d, m->rows * m->hidden * m->k->act_size);
    norm_backward(m, &norm, model_gradient(m, unit, "norm.weight"), model_bias_gradient(m, unit, "norm.bias"),
                  slot->dnorm, slot->out, d);
    model_gradients_in(m, unit);
    model_done(m, unit);
}
