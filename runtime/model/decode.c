/* decode: see decode.h. There is room for the keys and values of T tokens of every sequence in each layer: (layers, B, T, 2 keys), a token's
 * values behind its keys. A pass appends to it runs of rows, each a piece of one sequence, and attention takes each run against all that its
 * sequence has by then: the last query sees the last key. */
#include "runtime/model/decode.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "runtime/model/model_private.h"

/* Rows of a pass: enough for the matrix library, and few enough that activations are small beside the weights. */
#define ROWS 512

/* Rows [first, first+rows) of a pass: tokens past.. of a sequence. */
struct run {
    size_t sequence, past, first, rows;
};

struct cache {
    act *kv;
    struct run *runs;
    size_t n_runs;
};

struct decode {
    struct model *m;
    size_t sequences, context, rows, vocab;
    size_t *lengths;             /* (B) tokens so far */
    int32_t *tokens, *positions; /* (rows) of a pass */
    int32_t *last;               /* (B) rows that end what was fed, and of which sequence */
    size_t *whose, n_last;
    real *logits; /* (B, vocab) of these */
};

/* ---- keys and values ---- */

/* Elements of the cache before a token of a sequence in a layer. */
static size_t place_of(const struct model *m, size_t layer, size_t sequence, size_t token)
{
    return ((layer * m->r.sequences + sequence) * m->r.context + token) * 2 * m->keys;
}

void cache_new(struct model *m)
{
    m->cache = mem_zero(1, sizeof *m->cache);
    m->cache->runs = mem_zero(m->r.sequences, sizeof *m->cache->runs);
    m->cache->kv = model_alloc_act(m, place_of(m, (size_t)m->config.layers, 0, 0));
}

void cache_free(struct cache *cache)
{
    if (!cache)
        return;
    free(cache->runs);
    free(cache);
}

static void keep(const struct model *m, const struct run *r, const struct layer *y)
{
    size_t width = m->k->act_size;
    m->k->copy_rows(act_at(m->k, m->cache->kv, place_of(m, y->l, r->sequence, r->past)), 2 * m->keys * width,
                    act_in(m->k, y->a->qkv, r->first * m->qkv + m->queries), m->qkv * width, r->rows,
                    2 * m->keys * width);
}

/* Sequences side by side with as many tokens each are one call. */
static size_t alike(const struct cache *c, size_t i)
{
    const struct run *a = &c->runs[i];
    size_t n = 1;
    for (; i + n < c->n_runs; n++) {
        const struct run *b = a + n;
        if (b->sequence != a->sequence + n || b->past != a->past || b->rows != a->rows)
            break;
    }
    return n;
}

/* out: attention's sums, where they are not its result */
static void look_back(const struct model *m, const struct layer *y, const struct run *r, size_t batch,
                      real *out)
{
    const act *q = act_in(m->k, y->a->qkv, r->first * m->qkv);
    const act *kv = act_in(m->k, m->cache->kv, place_of(m, y->l, r->sequence, 0));
    const act *v = act_in(m->k, kv, m->keys);
    real *lse = y->a->lse + r->first * m->heads;
    struct kernel_attention shape = {.batch = batch,
                                     .queries = r->rows,
                                     .keys = r->past + r->rows,
                                     .heads = m->heads,
                                     .kv_heads = m->kv_heads,
                                     .size = m->size,
                                     .q_stride = m->qkv,
                                     .q_batch = r->rows * m->qkv,
                                     .kv_stride = 2 * m->keys,
                                     .kv_batch = m->r.context * 2 * m->keys,
                                     .out_stride = m->queries,
                                     .out_batch = r->rows * m->queries,
                                     .lse_stride = r->rows,
                                     .causal = true};
    if (model_whole(m))
        m->k->attention_whole(act_at(m->k, y->a->attention, r->first * m->queries), lse, q, kv, v, &shape);
    else
        m->k->attention_forward(out + r->first * m->queries, lse, true, q, kv, v, &shape);
}

void cache_forward(struct model *m, const struct layer *y)
{
    const struct cache *c = m->cache;
    real *out = model_wide(m) ? (real *)(void *)y->a->attention : m->s.out;
    for (size_t i = 0; i < c->n_runs; i++)
        keep(m, &c->runs[i], y);
    for (size_t i = 0; i < c->n_runs; i += alike(c, i))
        look_back(m, y, &c->runs[i], alike(c, i), out);
    if (!model_wide(m) && !model_whole(m))
        m->k->act_from_real(y->a->attention, out, m->n * m->queries);
}

/* ---- life ---- */

static int check(const struct model_request *r, struct err *err)
{
    const struct mesh_sizes *s = &r->mesh->size;
    if (s->tp * s->pp * s->cp * s->dp * s->ep != 1)
        return err_set(err, "decode: one rank must have the whole model");
    if (r->sequences < 1)
        return err_set(err, "decode: there must be a sequence");
    return 0;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

struct decode *decode_new(const struct model_request *request, struct err *err)
{
    struct model_request r = *request;
    if (check(&r, err) != 0)
        return NULL;
    r.batch = larger(r.batch ? r.batch : ROWS, r.sequences); /* each has its row, at least */
    r.inference = true;
    r.slots = 1;
    struct model *m = model_new(&r, err);
    if (!m)
        return NULL;
    struct decode *d = mem_zero(1, sizeof *d);
    *d = (struct decode){.m = m, .sequences = r.sequences, .context = r.context, .rows = r.batch};
    d->vocab = (size_t)m->config.vocab;
    d->lengths = mem_zero(d->sequences, sizeof *d->lengths);
    d->tokens = mem_zero(d->rows, sizeof *d->tokens);
    d->positions = mem_zero(d->rows, sizeof *d->positions);
    d->last = mem_zero(d->sequences, sizeof *d->last);
    d->whose = mem_zero(d->sequences, sizeof *d->whose);
    d->logits = mem_zero(d->sequences * d->vocab, sizeof *d->logits);
    return d;
}

void decode_free(struct decode *decode)
{
    if (!decode)
        return;
    model_free(decode->m);
    free(decode->lengths);
    free(decode->tokens);
    free(decode->positions);
    free(decode->last);
    free(decode->whose);
    free(decode->logits);
    free(decode);
}

size_t decode_length(const struct decode *decode, size_t sequence)
{
    return decode->lengths[sequence];
}

void decode_forget(struct decode *decode, size_t sequence)
{
    decode->lengths[sequence] = 0;
}

size_t decode_bytes(const struct decode *decode)
{
    return model_activation_bytes(decode->m);
}

/* ---- reading ---- */

static int check_feed(const struct decode *d, const int32_t *tokens, const size_t *counts, struct err *err)
{
    size_t sum = 0;
    for (size_t b = 0; b < d->sequences; b++) {
        if (counts[b] > d->context - d->lengths[b])
            return err_set(err, "decode: %zu tokens and %zu more do not fit into %zu", d->lengths[b],
                           counts[b], d->context);
        sum += counts[b];
    }
    for (size_t i = 0; i < sum; i++)
        if (tokens[i] < 0 || (size_t)tokens[i] >= d->vocab)
            return err_set(err, "decode: token %d is outside of the model's vocabulary of %zu", tokens[i],
                           d->vocab);
    return 0;
}

/* Appends rows of sequence b to the pass, as many as fit, at most `left`. Returns how many. */
static size_t add_run(struct decode *d, size_t b, const int32_t *tokens, size_t left, size_t at)
{
    struct cache *c = d->m->cache;
    size_t rows = left < d->rows - at ? left : d->rows - at, past = d->lengths[b];
    if (rows == 0)
        return 0;
    c->runs[c->n_runs++] = (struct run){b, past, at, rows};
    memcpy(d->tokens + at, tokens, rows * sizeof *tokens);
    for (size_t i = 0; i < rows; i++)
        d->positions[at + i] = (int32_t)(past + i);
    d->lengths[b] += rows;
    if (rows == left) {
        d->last[d->n_last] = (int32_t)(at + rows - 1);
        d->whose[d->n_last++] = b;
    }
    return rows;
}

static void run_pass(struct decode *d, size_t rows, real *logits)
{
    struct model *m = d->m;
    const struct slot *slot = &m->slots[0];
    struct model_batch batch = {.train = false};
    m->n = m->rows = m->batch = rows;
    m->k->from_host(slot->tokens, d->tokens, rows * sizeof *d->tokens);
    m->k->from_host(m->positions, d->positions, rows * sizeof *d->positions);
    stream_forward(m, &batch);
    if (d->n_last > 0)
        head_logits(m, slot, d->last, d->n_last, d->logits);
    for (size_t i = 0; i < d->n_last; i++)
        memcpy(logits + d->whose[i] * d->vocab, d->logits + i * d->vocab, d->vocab * sizeof *logits);
}

int decode_feed(struct decode *decode, const int32_t *tokens, const size_t *counts, real *logits,
                struct err *err)
{
    struct decode *d = decode;
    size_t b = 0, done = 0; /* of the tokens of sequence b */
    if (check_feed(d, tokens, counts, err) != 0)
        return -1;
    while (b < d->sequences) {
        size_t rows = 0;
        d->m->cache->n_runs = d->n_last = 0;
        while (b < d->sequences && rows < d->rows) {
            size_t taken = add_run(d, b, tokens, counts[b] - done, rows);
            rows += taken;
            tokens += taken;
            done += taken;
            if (done == counts[b]) {
                b++;
                done = 0;
            }
        }
        if (rows > 0)
            run_pass(d, rows, logits);
    }
    return 0;
}
