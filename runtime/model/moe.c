/* moe: the second block of a layer with experts: mid + the sum over a token's chosen experts of weight * expert(norm(mid)).
 *
 * Rows go to the ranks of the EP group that hold their experts and come back (all-to-all; GShard, arXiv 2006.16668); within an expert, TP cuts
 * the matrices as in a dense layer, so that what an expert gives is a partial sum, and with it the gradients of the router's weights.
 *
 * The balance loss (Switch, arXiv 2101.03961, equation 4) and capacity are taken over each sequence by itself: neither micro-batches nor meshes
 * enter into them. f_e = experts/(K T) * number of the sequence's choices of e; P_e = mean probability; loss = balance_loss * sum of f_e P_e. The
 * z-loss (arXiv 2202.08906, equation 5) is the mean over the sequence of the squared logarithm of the softmax's denominator. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "runtime/model/model_private.h"
#include "runtime/model/route.h"

/* Memory whose size depends on what tokens choose. */
struct buffer {
    void *data;
    size_t bytes;
};

#define MOE_BUFFERS 9
/* One layer's part in one micro-batch. */
struct moe_acts {
    struct route route;
    real *probabilities, *weights, *lse; /* (N,E), (N,K), (N) */
    real *dprobabilities;                /* (N,E) of the balance loss, not yet scaled */
    int32_t *experts, *slots;            /* (N,K) */
    struct buffer tokens, order, back;   /* of the route, for kernels */
    struct buffer in, wide, active;      /* (receives, C), (., 2F), (., F) by expert */
    struct buffer rows;                  /* (sends, C) what came back */
    struct buffer drows, dwide;          /* gradients of what experts gave, and of wide: for the weights */
};

struct moe_scratch {
    struct buffer sent, arrived, sorted, narrow; /* rows of C under way */
    struct buffer active;                        /* (receives, F) */
    real *logits, *dlogits, *dweights;           /* (N,E), (N,E), (N,K) */
    act *dlogits_act;
    int32_t *host_experts; /* (N,K) */
    real *host;            /* (N,E) */
    int64_t *counts, *all; /* (2,B,E) of this rank; of all ranks of CP or EP */
};

static void *reserve(const struct model *m, struct buffer *b, size_t bytes)
{
    if (bytes <= b->bytes)
        return b->data;
    m->k->free(b->data);
    b->bytes = bytes + bytes / 8;
    b->data = m->k->alloc(b->bytes);
    if (b->data)
        return b->data;
    log_error("no memory for the %zu bytes that the experts of one layer were sent; set "
              "train.model.capacity, or use "
              "more ep, a smaller batch.micro or recompute: full",
              b->bytes);
    abort(); /* in the middle of a collective step nothing can be undone */
}

static act *reserve_act(const struct model *m, struct buffer *b, size_t count)
{
    return reserve(m, b, count * m->k->act_size);
}

static void release(const struct model *m, struct buffer *b)
{
    m->k->free(b->data);
}

/* ---- life ---- */

struct moe_acts *moe_acts_new(struct model *m)
{
    size_t e = (size_t)m->config.experts, k = (size_t)m->config.top_k;
    struct moe_acts *a = mem_zero(1, sizeof *a);
    a->probabilities = model_alloc_real(m, m->n * e);
    a->dprobabilities = model_alloc_real(m, m->n * e);
    a->weights = model_alloc_real(m, m->n * k);
    a->lse = model_alloc_real(m, m->n);
    a->experts = model_alloc(m, m->n * k * sizeof *a->experts);
    a->slots = model_alloc(m, m->n * k * sizeof *a->slots);
    return a;
}

void moe_acts_free(const struct model *m, struct moe_acts *a)
{
    if (!a)
        return;
    struct buffer *const buffers[MOE_BUFFERS] = {&a->tokens, &a->order, &a->back,  &a->in,   &a->wide,
                                                 &a->active, &a->rows,  &a->drows, &a->dwide};
    for (size_t i = 0; i < MOE_BUFFERS; i++)
        release(m, buffers[i]);
    route_free(&a->route);
    free(a);
}

void moe_scratch_new(struct model *m)
{
    size_t e = (size_t)m->config.experts, k = (size_t)m->config.top_k;
    size_t groups = (size_t)(m->mesh->size.cp > m->mesh->size.ep ? m->mesh->size.cp : m->mesh->size.ep);
    struct moe_scratch *s = mem_zero(1, sizeof *s);
    s->logits = model_alloc_real(m, m->n * e);
    s->dlogits = model_alloc_real(m, m->n * e);
    s->dweights = model_alloc_real(m, m->n * k);
    s->dlogits_act = model_alloc_act(m, m->n * e);
    s->host_experts = mem_zero(m->n * k, sizeof *s->host_experts);
    s->host = mem_zero(m->n * (e + 1), sizeof *s->host);
    s->counts = mem_zero(2 * m->batch * e, sizeof *s->counts);
    s->all = mem_zero(2 * m->batch * e * groups, sizeof *s->all);
    m->moe = s;
}

void moe_scratch_free(const struct model *m)
{
    struct moe_scratch *s = m->moe;
    if (!s)
        return;
    release(m, &s->sent);
    release(m, &s->arrived);
    release(m, &s->sorted);
    release(m, &s->narrow);
    release(m, &s->active);
    free(s->host_experts);
    free(s->host);
    free(s->counts);
    free(s->all);
    free(s);
}

/* ---- routing ---- */

static struct route_shape shape_of(const struct model *m)
{
    const struct job_model *c = &m->config;
    double limit = ceil(c->capacity * (double)m->r.context * (double)c->top_k / (double)c->experts);
    return (struct route_shape){.batch = m->batch,
                                .tokens = m->tokens,
                                .experts = (size_t)c->experts,
                                .top_k = (size_t)c->top_k,
                                .ranks = (size_t)m->mesh->size.ep,
                                .rank = (size_t)m->mesh->ep,
                                .limit = c->capacity > 0 ? (size_t)limit : 0,
                                .parts = m->mesh->size.cp > 1 ? 2 : 1};
}

/* Place in the sequence of part `part` of CP rank r. */
static size_t chunk_of(const struct model *m, size_t r, size_t part)
{
    return part == 0 ? r : 2 * (size_t)m->mesh->size.cp - 1 - r;
}

/* From every CP rank's counts (parts, B, E): whole (B,E) choices of each sequence, and before (parts,B,E) those of earlier parts. */
static void sum_counts(const struct model *m, const struct route_shape *s, int64_t *whole, int64_t *before)
{
    size_t cells = s->batch * s->experts;
    memset(whole, 0, cells * sizeof *whole);
    memset(before, 0, s->parts * cells * sizeof *before);
    for (size_t r = 0; r < (size_t)m->mesh->size.cp; r++)
        for (size_t p = 0; p < s->parts; p++) {
            const int64_t *counts = m->moe->all + (r * s->parts + p) * cells;
            for (size_t i = 0; i < cells; i++)
                whole[i] += counts[i];
            for (size_t own = 0; own < s->parts; own++)
                if (chunk_of(m, r, p) < chunk_of(m, (size_t)m->mesh->cp, own))
                    for (size_t i = 0; i < cells; i++)
                        before[own * cells + i] += counts[i];
        }
}

static void upload(const struct model *m, struct buffer *b, const int32_t *x, size_t count)
{
    m->k->from_host(reserve(m, b, count * sizeof *x), x, count * sizeof *x);
}

/* Who sends what to whom; whole (B,E) choices of each sequence */
static void route(const struct model *m, struct moe_acts *a, int64_t *whole)
{
    struct route_shape s = shape_of(m);
    struct moe_scratch *t = m->moe;
    size_t pairs = m->n * s.top_k, cells = s.parts * s.batch * s.experts;
    int64_t *before = mem_zero(cells, sizeof *before);
    m->k->to_host(t->host_experts, a->experts, pairs * sizeof *t->host_experts);
    route_count(&s, t->host_experts, t->counts);
    comm_share(m->mesh->cp_group, t->counts, cells * sizeof *t->counts, t->all);
    sum_counts(m, &s, whole, before);
    route_send(&a->route, &s, t->host_experts, before);
    comm_share(m->mesh->ep_group, a->route.counts, s.experts * sizeof *a->route.counts, t->all);
    route_receive(&a->route, &s, t->all);
    m->k->from_host(a->slots, a->route.slots, pairs * sizeof *a->slots);
    upload(m, &a->tokens, a->route.tokens, a->route.sends);
    upload(m, &a->order, a->route.order, a->route.receives);
    upload(m, &a->back, a->route.back, a->route.receives);
    free(before);
}

/* Losses of the router over this rank's tokens; fills dprobabilities. They are few numbers, and the host has just waited for the choices. */
static double router_losses(const struct model *m, struct moe_acts *a, const int64_t *whole)
{
    const struct job_model *c = &m->config;
    size_t e = (size_t)c->experts;
    double context = (double)m->r.context, balance = 0, z = 0;
    real *p = m->moe->host, *lse = p + m->n * e;
    m->k->to_host(p, a->probabilities, m->n * e * sizeof *p);
    m->k->to_host(lse, a->lse, m->n * sizeof *lse);
    for (size_t i = 0; i < m->n; i++) {
        const int64_t *counts = whole + i / m->tokens * e;
        z += (double)lse[i] * (double)lse[i];
        for (size_t j = 0; j < e; j++) {
            double f = (double)e / ((double)c->top_k * context) * (double)counts[j];
            balance += f * (double)p[i * e + j];
            p[i * e + j] = (real)(c->balance_loss * f / context);
        }
    }
    m->k->from_host(a->dprobabilities, p, m->n * e * sizeof *p);
    return (c->balance_loss * balance + c->router_z_loss * z) / context;
}

static double choose(const struct model *m, const struct layer *y, const act *x)
{
    struct moe_acts *a = y->a->moe;
    size_t e = (size_t)m->config.experts, k = (size_t)m->config.top_k;
    const act *weight = model_weight(m, y->unit, "router.weight");
    int64_t *whole = mem_zero(m->batch * e, sizeof *whole);
    m->k->gemm_real(m->n, e, m->hidden, (struct kernel_matrix){x, m->hidden, false},
                    (struct kernel_matrix){weight, m->hidden, true}, false, m->moe->logits, e);
    m->k->router_forward(a->probabilities, a->weights, a->experts, a->lse, m->moe->logits, k > 1, m->n, e, k);
    route(m, a, whole);
    double loss = y->b->train ? router_losses(m, a, whole) : 0;
    free(whole);
    return loss;
}

/* ---- rows to their experts and back ---- */

/* rows (sends, C) in the order of sending -> (receives, C) by expert, in `out` or where they are */
static const act *scatter(const struct model *m, struct moe_acts *a, const act *rows, struct buffer *out)
{
    const struct route *r = &a->route;
    if (m->mesh->size.ep == 1)
        return rows;
    act *arrived = reserve_act(m, &m->moe->arrived, r->receives * m->hidden);
    comm_all_to_all(m->mesh->ep_group, rows, r->send_rows, arrived, r->receive_rows,
                    m->hidden * m->k->act_size);
    act *sorted = reserve_act(m, out, r->receives * m->hidden);
    m->k->rows_gather(sorted, arrived, a->order.data, r->receives, m->hidden);
    return sorted;
}

/* And back: rows (receives, C) by expert -> (sends, C), in `out` or where they are */
static const act *gather(const struct model *m, struct moe_acts *a, const act *rows, struct buffer *out)
{
    const struct route *r = &a->route;
    if (m->mesh->size.ep == 1)
        return rows;
    act *leaving = reserve_act(m, &m->moe->arrived, r->receives * m->hidden);
    m->k->rows_gather(leaving, rows, a->back.data, r->receives, m->hidden);
    act *returned = reserve_act(m, out, r->sends * m->hidden);
    comm_all_to_all(m->mesh->ep_group, leaving, r->receive_rows, returned, r->send_rows,
                    m->hidden * m->k->act_size);
    return returned;
}

/* ---- experts ---- */

/* One expert's rows [at, at+n) and matrices. */
struct expert {
    struct kernel_linear up, down;
    real *dup, *ddown;
    size_t at, n;
};

static struct expert expert_at(const struct model *m, const struct layer *y, size_t e, size_t at,
                               bool gradients)
{
    const struct layout_unit *unit = &m->layout->units[y->experts];
    const struct layout_tensor *gate = &m->layout->tensors[unit->first + 3 * e], *down = gate + 2;
    const struct model_unit *numbers = &m->r.units[y->experts];
    struct expert x = {.up = {act_in(m->k, numbers->weights, gate->offset), NULL, m->hidden, m->wide},
                       .down = {act_in(m->k, numbers->weights, down->offset), NULL, m->ffn, m->hidden},
                       .at = at,
                       .n = y->a->moe->route.expert_rows[e]};
    if (gradients) {
        x.dup = numbers->gradients + gate->offset;
        x.ddown = numbers->gradients + down->offset;
    }
    return x;
}

static size_t own_experts(const struct model *m)
{
    return (size_t)(m->config.experts / m->mesh->size.ep);
}

/* SwiGLU's output is the cheap part that selective recomputation leaves out. */
static struct buffer *active_of(const struct model *m, const struct layer *y)
{
    return m->r.recompute == RECOMPUTE_SELECTIVE ? &m->moe->active : &y->a->moe->active;
}

static void activate(const struct model *m, const struct layer *y)
{
    size_t rows = y->a->moe->route.receives;
    m->k->swiglu_forward(reserve_act(m, active_of(m, y), rows * m->ffn), y->a->moe->wide.data, rows, m->ffn);
}

static void experts_forward(const struct model *m, const struct layer *y, const act *in, act *out)
{
    struct moe_acts *a = y->a->moe;
    size_t rows = a->route.receives;
    act *wide = reserve_act(m, &a->wide, rows * m->wide);
    for (size_t e = 0, at = 0; e < own_experts(m); at += a->route.expert_rows[e++]) {
        struct expert x = expert_at(m, y, e, at, false);
        m->k->linear_forward(act_at(m->k, wide, at * m->wide), NULL, act_in(m->k, in, at * m->hidden), &x.up,
                             x.n);
    }
    activate(m, y);
    act *active = active_of(m, y)->data;
    for (size_t e = 0, at = 0; out && e < own_experts(m); at += a->route.expert_rows[e++]) {
        struct expert x = expert_at(m, y, e, at, false);
        m->k->linear_forward(act_at(m->k, out, at * m->hidden), NULL, act_in(m->k, active, at * m->ffn),
                             &x.down, x.n);
        model_idle(m);
    }
}

/* din (receives, C) from drows (receives, C); dwide is kept for the weights */
static void experts_backward(const struct model *m, const struct layer *y, const act *drows, act *din)
{
    struct moe_acts *a = y->a->moe;
    size_t rows = a->route.receives;
    act *dactive = reserve_act(m, &m->moe->narrow, rows * m->ffn);
    act *dwide = reserve_act(m, &a->dwide, rows * m->wide);
    for (size_t e = 0, at = 0; e < own_experts(m); at += a->route.expert_rows[e++]) {
        struct expert x = expert_at(m, y, e, at, false);
        m->k->linear_backward(act_at(m->k, dactive, at * m->ffn), false, act_in(m->k, drows, at * m->hidden),
                              &x.down, x.n);
    }
    m->k->swiglu_backward(dwide, dactive, a->wide.data, rows, m->ffn);
    for (size_t e = 0, at = 0; e < own_experts(m); at += a->route.expert_rows[e++]) {
        struct expert x = expert_at(m, y, e, at, false);
        m->k->linear_backward(act_at(m->k, din, at * m->hidden), false, act_in(m->k, dwide, at * m->wide),
                              &x.up, x.n);
        model_idle(m);
    }
}

static void experts_weights(const struct model *m, const struct layer *y, const act *drows)
{
    struct moe_acts *a = y->a->moe;
    const act *active = active_of(m, y)->data;
    for (size_t e = 0, at = 0; e < own_experts(m); at += a->route.expert_rows[e++]) {
        struct expert x = expert_at(m, y, e, at, true);
        m->k->linear_weights(x.ddown, NULL, act_in(m->k, drows, at * m->hidden),
                             act_in(m->k, active, at * m->ffn), &x.down, x.n);
        m->k->linear_weights(x.dup, NULL, act_in(m->k, a->dwide.data, at * m->wide),
                             act_in(m->k, a->in.data, at * m->hidden), &x.up, x.n);
    }
}

/* ---- the block ---- */

/* x (N,C) to the experts: a->in (receives, C) */
static void dispatch(const struct model *m, struct moe_acts *a, const act *x)
{
    struct buffer *to = m->mesh->size.ep == 1 ? &a->in : &m->moe->sent;
    act *rows = reserve_act(m, to, a->route.sends * m->hidden);
    m->k->rows_gather(rows, x, a->tokens.data, a->route.sends, m->hidden);
    (void)scatter(m, a, rows, &a->in);
}

double moe_forward(struct model *m, const struct layer *y, act *out)
{
    struct moe_acts *a = y->a->moe;
    const act *x = stream_gather(m, y->a->norm2, m->s.full);
    double loss = choose(m, y, x);
    dispatch(m, a, x);
    /* what experts give must last as the route's rows: with one rank they are that already */
    struct buffer *given = m->mesh->size.ep == 1 ? &a->rows : &m->moe->sorted;
    act *results = reserve_act(m, given, a->route.receives * m->hidden);
    experts_forward(m, y, a->in.data, results);
    const act *rows = gather(m, a, results, &a->rows);
    if (!out)
        return loss;
    m->k->rows_combine(m->s.partial, false, rows, a->slots, a->weights, m->n, (size_t)m->config.top_k,
                       m->hidden);
    projection_join(m, y, NULL, PLACE_FFN, m->s.partial, y->a->mid, out, NULL);
    return loss;
}

void moe_recompute(struct model *m, const struct layer *y)
{
    struct kernel_norm norm = norm2_of(m, y);
    norm_forward(m, &norm, y->a->mid, m->rows);
    activate(m, y);
}

/* The router's part: partial (N,C) += through its logits; dweights is there */
static void router_backward(const struct model *m, const struct layer *y)
{
    struct moe_acts *a = y->a->moe;
    struct moe_scratch *t = m->moe;
    size_t e = (size_t)m->config.experts, k = (size_t)m->config.top_k;
    bool counts = m->mesh->tp == 0; /* the TP group adds up these gradients: the losses' own enter once */
    real z = counts ? (real)(m->config.router_z_loss * y->b->aux_scale / (double)m->r.context) : 0;
    if (counts)
        m->k->scale_real(a->dprobabilities, (real)y->b->aux_scale, m->n * e);
    m->k->router_backward(t->dlogits, t->dweights, counts ? a->dprobabilities : NULL, a->probabilities,
                          a->weights, a->experts, a->lse, z, k > 1, m->n, e, k);
    m->k->act_from_real(t->dlogits_act, t->dlogits, m->n * e);
    struct kernel_linear router = {
        .weight = model_weight(m, y->unit, "router.weight"), .in = m->hidden, .out = e};
    m->k->linear_backward(m->s.partial, true, t->dlogits_act, &router, m->n);
    m->k->linear_weights(model_gradient(m, y->unit, "router.weight"), NULL, t->dlogits_act,
                         stream_gather(m, y->a->norm2, m->s.full), &router, m->n);
}

void moe_backward(struct model *m, const struct layer *y, act *d)
{
    struct moe_acts *a = y->a->moe;
    const act *dy = stream_gather(m, projection_gradient(m, y, PLACE_FFN, d, y->g->dout), m->s.full);
    struct buffer *to = m->mesh->size.ep == 1 ? &a->drows : &m->moe->sent;
    act *sent = reserve_act(m, to, a->route.sends * m->hidden);
    m->k->rows_combine_backward(sent, m->moe->dweights, dy, a->rows.data, a->slots, a->weights, m->n,
                                (size_t)m->config.top_k, m->hidden);
    const act *drows = scatter(m, a, sent, &a->drows);
    act *din = reserve_act(m, &m->moe->sorted, a->route.receives * m->hidden);
    experts_backward(m, y, drows, din);
    if (!m->r.split_weights)
        experts_weights(m, y, drows);
    const act *dx = gather(m, a, din, &m->moe->sent);
    m->k->rows_combine(m->s.partial, false, dx, a->slots, NULL, m->n, (size_t)m->config.top_k, m->hidden);
    router_backward(m, y);
    norm2_backward(m, y, stream_reduce(m, m->s.partial, m->s.narrow), d);
}

void moe_weights(struct model *m, const struct layer *y)
{
    experts_weights(m, y, y->a->moe->drows.data);
}
