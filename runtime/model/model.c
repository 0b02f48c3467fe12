/* model: the way through a chunk of a model: embedding, layers, head, and back. What the forward pass does not keep the backward pass fills in again,
 * with the very functions of the forward pass, so that the bits are the same. */
#include "runtime/model/model.h"

#include <math.h>
#include <stdlib.h>

#include "common/mem.h"
#include "runtime/model/model_private.h"

size_t model_boundary(const struct model *model)
{
    return model->rows * model->hidden;
}

size_t model_activation_bytes(const struct model *model)
{
    return model->bytes;
}

const int32_t *model_positions(const struct model *model)
{
    return model->host_positions;
}

act *model_input(const struct model *model, int slot, size_t chunk)
{
    (void)chunk;
    return model->slots[slot].layers[0].in;
}

void model_begin(const struct model *model)
{
    if (model->fp8)
        model->k->fp8_step(model->fp8, (size_t)model->config.layers * LINEARS);
}

real *model_fp8(const struct model *model, size_t *count)
{
    *count = model->fp8 ? (size_t)model->config.layers * LINEARS * KERNEL_FP8_STATE : 0;
    return model->fp8;
}

real *model_fp8_of(const struct model *m, const struct layer *y, enum linear which)
{
    return m->fp8 && y->b->train ? m->fp8 + (y->l * LINEARS + (size_t)which) * KERNEL_FP8_STATE : NULL;
}

/* ---- passes ---- */

static struct layer layer_at(const struct model *m, const struct model_batch *b, size_t i)
{
    const struct slot *slot = &m->slots[b->slot];
    size_t l = m->layout->chunks[b->chunk].first + i;
    return (struct layer){.l = l,
                          .unit = model_unit_of(m, UNIT_LAYER, l),
                          .experts = m->config.experts > 0 ? model_unit_of(m, UNIT_EXPERTS, l) : LAYOUT_NONE,
                          .a = &slot->layers[i],
                          .g = &slot->grads[i],
                          .b = b,
                          .slot = slot};
}

static void need_layer(const struct model *m, const struct layer *y, bool gradients)
{
    model_need(m, y->unit, gradients);
    if (y->experts != LAYOUT_NONE)
        model_need(m, y->experts, gradients);
}

/* Layer i of the chunk will come next, if there is one. */
static void ahead_layer(const struct model *m, const struct model_batch *b, size_t i)
{
    if (i >= m->layout->chunks[b->chunk].count) /* also below 0 */
        return;
    struct layer y = layer_at(m, b, i);
    m->r.hooks.ahead(m->r.hooks.owner, y.unit);
    if (y.experts != LAYOUT_NONE)
        m->r.hooks.ahead(m->r.hooks.owner, y.experts);
}

static void done_layer(const struct model *m, const struct layer *y, bool gradients)
{
    if (gradients && y->experts != LAYOUT_NONE)
        model_gradients_in(m, y->experts);
    if (gradients)
        model_gradients_in(m, y->unit);
    if (y->experts != LAYOUT_NONE)
        model_done(m, y->experts);
    model_done(m, y->unit);
    model_idle(m);
}

/* What the pass is about, as kernels see it. */
static void load_batch(const struct model *m, const struct model_batch *b)
{
    const struct slot *s = &m->slots[b->slot];
    const struct layout_chunk *c = &m->layout->chunks[b->chunk];
    if (c->begins)
        m->k->from_host(s->tokens, b->tokens, m->n * sizeof *b->tokens);
    if (c->ends)
        m->k->from_host(s->targets, b->targets, m->n * sizeof *b->targets);
    if (m->config.dropout <= 0 || !b->train)
        return;
    uint64_t *rows = mem_zero(m->n + m->batch, sizeof *rows);
    for (size_t i = 0; i < m->n; i++)
        rows[i] =
            (b->first_sample + i / m->tokens) * m->r.context + (uint64_t)m->host_positions[i % m->tokens];
    for (size_t i = 0; i < m->batch; i++)
        rows[m->n + i] = (b->first_sample + i) * m->r.context;
    m->k->from_host(s->rows, rows, m->n * sizeof *rows);
    m->k->from_host(s->row_starts, rows + m->n, m->batch * sizeof *rows);
    free(rows);
}

static bool tokens_fit(const struct model *m, const struct model_batch *b)
{
    const struct layout_chunk *c = &m->layout->chunks[b->chunk];
    int64_t vocab = m->config.vocab;
    for (size_t i = 0; c->begins && i < m->n; i++)
        if (b->tokens[i] < 0 || b->tokens[i] >= vocab)
            return false;
    for (size_t i = 0; c->ends && i < m->n; i++)
        if (b->targets[i] >= vocab)
            return false;
    return true;
}

/* Fills again what the forward pass did not keep. */
static void recompute(struct model *m, const struct layer *y)
{
    if (m->r.recompute == RECOMPUTE_FULL) {
        attention_forward(m, y);
        if (y->experts != LAYOUT_NONE)
            (void)moe_forward(m, y, NULL); /* its loss was counted the first time */
        else
            ffn_forward(m, y, NULL);
    } else if (m->r.recompute == RECOMPUTE_SELECTIVE) {
        attention_recompute(m, y);
        if (y->experts != LAYOUT_NONE)
            moe_recompute(m, y);
        else
            ffn_recompute(m, y);
    }
}

/* ---- layers, and their repetition ---- */

enum pass { PASS_OUT, PASS_BACK, PASS_FOR_WEIGHTS, PASSES };

static const char *const pass_names[PASSES] = {"the forward pass of layer %lld",
                                               "the backward pass of layer %lld",
                                               "the weight gradients of layer %lld"};

/* One layer's part in one pass, x (R,C): where it goes, or the gradient that goes through it. */
struct stretch {
    struct model *m;
    struct layer y;
    act *x;
};

static void dense_forward(void *owner)
{
    const struct stretch *s = owner;
    attention_forward(s->m, &s->y);
    ffn_forward(s->m, &s->y, s->x);
}

static void dense_backward(void *owner)
{
    const struct stretch *s = owner;
    recompute(s->m, &s->y);
    ffn_backward(s->m, &s->y, s->x);
    attention_backward(s->m, &s->y, s->x);
}

static void dense_weights(void *owner)
{
    const struct stretch *s = owner;
    ffn_weights(s->m, &s->y);
    attention_weights(s->m, &s->y);
}

static void (*const dense_passes[PASSES])(void *owner) = {dense_forward, dense_backward, dense_weights};

/* Which of the arrays that callers bring is this? MODEL_SEEN: it is one too many to be told apart. */
static size_t seen(struct model *m, const act *x)
{
    size_t i = 0;
    while (i < MODEL_SEEN && m->seen[i] && m->seen[i] != x)
        i++;
    if (i < MODEL_SEEN)
        m->seen[i] = x;
    return i;
}

/* Does a dense layer's pass only enqueue, and the same each time? Not where ranks communicate within it, dropout follows the step, or numbers move. */
static bool repeats(const struct model *m, const struct model_batch *b, enum pass pass)
{
    return b->train && m->config.dropout <= 0 && m->mesh->size.tp == 1 && model_whole(m) &&
           m->r.fixed_weights && (pass == PASS_OUT || m->r.fixed_gradients);
}

/* place: of the caller's array among those that it brings; 0 when there is none */
static void dense_pass(struct model *m, enum pass pass, const struct layer *y, size_t i, act *x, size_t place)
{
    struct stretch s = {m, *y, x};
    uint64_t number = m->number;
    if (place >= MODEL_SEEN || !repeats(m, y->b, pass)) {
        dense_passes[pass](&s);
        return;
    }
    number = number * PASSES + pass;
    number = number * (uint64_t)m->r.slots + (uint64_t)y->b->slot;
    number = number * m->layout->n_chunks + y->b->chunk;
    number = number * m->max_layers + i;
    m->k->repeat(number * MODEL_SEEN + place, dense_passes[pass], &s);
}

/* Says what later errors are about. */
static void doing(const struct model *m, enum pass pass, const struct layer *y)
{
    m->k->doing(pass_names[pass], (int64_t)y->l, (int64_t)y->b->step);
}

void layers_forward(struct model *m, const struct model_batch *b, act *out)
{
    const struct slot *s = &m->slots[b->slot];
    size_t count = m->layout->chunks[b->chunk].count;
    double router = 0;
    for (size_t i = 0; i < count; i++) {
        struct layer y = layer_at(m, b, i);
        bool last = i + 1 == count;
        act *to = last ? out : s->layers[i + 1].in;
        need_layer(m, &y, false);
        ahead_layer(m, b, i + 1);
        doing(m, PASS_OUT, &y);
        if (y.experts != LAYOUT_NONE) {
            attention_forward(m, &y);
            router += moe_forward(m, &y, to);
        } else {
            dense_pass(m, PASS_OUT, &y, i, to, last && out != s->out ? seen(m, out) : 0);
        }
        done_layer(m, &y, false);
    }
    m->router += router;
}

void stream_forward(struct model *m, const struct model_batch *b)
{
    const struct slot *s = &m->slots[b->slot];
    embed_forward(m, b, s, s->layers[0].in);
    layers_forward(m, b, s->out);
}

void model_logits(struct model *model, const struct model_batch *batch, const int32_t *rows, size_t count,
                  real *logits)
{
    const struct slot *s = &model->slots[batch->slot];
    model->k->from_host(s->tokens, batch->tokens, model->n * sizeof *batch->tokens);
    stream_forward(model, batch);
    head_logits(model, s, rows, count, logits);
}

void model_forward(struct model *model, const struct model_batch *batch, act *out)
{
    struct model *m = model;
    const struct slot *s = &m->slots[batch->slot];
    const struct layout_chunk *c = &m->layout->chunks[batch->chunk];
    m->strange = m->strange || !tokens_fit(m, batch);
    m->k->doing("the embedding", 0, (int64_t)batch->step);
    load_batch(m, batch);
    if (c->begins)
        embed_forward(m, batch, s, s->layers[0].in);
    layers_forward(m, batch, c->ends ? s->out : out);
    m->k->doing("the head and the loss", 0, (int64_t)batch->step);
    if (c->ends)
        head_loss(m, batch, s);
}

struct model_loss model_take_loss(struct model *model)
{
    struct model *m = model;
    struct model_loss loss = {0, m->router};
    if (m->s.loss) {
        m->k->to_host(&loss.cross_entropy, m->s.loss, sizeof loss.cross_entropy);
        m->k->zero(m->s.loss, sizeof *m->s.loss);
    }
    if (m->strange)
        loss.cross_entropy = NAN;
    m->router = 0;
    m->strange = false;
    return loss;
}

void model_backward(struct model *model, const struct model_batch *batch, act *d)
{
    struct model *m = model;
    const struct slot *s = &m->slots[batch->slot];
    const struct layout_chunk *c = &m->layout->chunks[batch->chunk];
    size_t place = seen(m, d);
    if (c->ends)
        head_backward(m, s, d);
    for (size_t i = c->count; i-- > 0;) {
        struct layer y = layer_at(m, batch, i);
        need_layer(m, &y, true);
        ahead_layer(m, batch, i - 1);
        doing(m, PASS_BACK, &y);
        if (y.experts != LAYOUT_NONE) {
            recompute(m, &y);
            moe_backward(m, &y, d);
            attention_backward(m, &y, d);
        } else {
            dense_pass(m, PASS_BACK, &y, i, d, place);
        }
        done_layer(m, &y, !m->r.split_weights);
    }
    m->k->doing("the embedding's gradients", 0, (int64_t)batch->step);
    if (c->begins)
        embed_backward(m, batch, s, d);
}

void model_weights(struct model *model, const struct model_batch *batch)
{
    struct model *m = model;
    for (size_t i = m->layout->chunks[batch->chunk].count; i-- > 0;) {
        struct layer y = layer_at(m, batch, i);
        need_layer(m, &y, true);
        ahead_layer(m, batch, i - 1);
        doing(m, PASS_FOR_WEIGHTS, &y);
        if (y.experts != LAYOUT_NONE) {
            moe_weights(m, &y);
            attention_weights(m, &y);
        } else {
            dense_pass(m, PASS_FOR_WEIGHTS, &y, i, NULL, 0);
        }
        done_layer(m, &y, true);
    }
}
