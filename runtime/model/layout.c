/* layout: tables of rows, one for each kind of unit, say what there is; a walk over the pieces of this rank makes tensors of them. */
#include "runtime/model/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

/* Tables are filled up to a multiple of this many rows on each rank: whole vectors and cache lines in the largest product. */
#define VOCAB_MULTIPLE 16
#define ALIGNMENT      16 /* elements: a cache line of float */

enum size_name { ONE, HIDDEN, QUERIES, KEYS, FFN, VOCAB, CONTEXT, EXPERTS };
enum cut { WHOLE, ROWS, COLUMNS };

struct row {
    const char *suffix;
    enum size_name shape[2];
    enum cut cut;
    enum layout_fill fill;
    bool decay;
    bool joined; /* follows the tensor before it without a gap: both are one matrix to whoever multiplies */
    bool
        residual; /* added to the residual stream after the sum over TP: sees part of the tokens under sequence parallelism */
};

#define NORM(n)                                                                                              \
    {                                                                                                        \
        n ".weight", {HIDDEN, ONE}, WHOLE, FILL_ONE, false, false, true                                      \
    }
#define OFFSET(n)                                                                                            \
    {                                                                                                        \
        n ".bias", {HIDDEN, ONE}, WHOLE, FILL_ZERO, false, false, true                                       \
    }

static const struct row embed_rows[] = {
    {"embed.weight", {VOCAB, HIDDEN}, ROWS, FILL_NORMAL, true, false, false}};
static const struct row position_rows[] = {
    {"position.weight", {CONTEXT, HIDDEN}, WHOLE, FILL_NORMAL, false, false, true}};
static const struct row gpt2_rows[] = {
    NORM("norm1"),
    OFFSET("norm1"),
    {"attn.q.weight", {QUERIES, HIDDEN}, ROWS, FILL_NORMAL, true, false, false},
    {"attn.k.weight", {KEYS, HIDDEN}, ROWS, FILL_NORMAL, true, true, false},
    {"attn.v.weight", {KEYS, HIDDEN}, ROWS, FILL_NORMAL, true, true, false},
    {"attn.q.bias", {QUERIES, ONE}, ROWS, FILL_ZERO, false, false, false},
    {"attn.k.bias", {KEYS, ONE}, ROWS, FILL_ZERO, false, true, false},
    {"attn.v.bias", {KEYS, ONE}, ROWS, FILL_ZERO, false, true, false},
    {"attn.out.weight", {HIDDEN, QUERIES}, COLUMNS, FILL_RESIDUAL, true, false, false},
    OFFSET("attn.out"),
    NORM("norm2"),
    OFFSET("norm2"),
    {"ffn.up.weight", {FFN, HIDDEN}, ROWS, FILL_NORMAL, true, false, false},
    {"ffn.up.bias", {FFN, ONE}, ROWS, FILL_ZERO, false, false, false},
    {"ffn.down.weight", {HIDDEN, FFN}, COLUMNS, FILL_RESIDUAL, true, false, false},
    OFFSET("ffn.down"),
};
static const struct row llama_attention_rows[] = {
    NORM("norm1"),
    {"attn.q.weight", {QUERIES, HIDDEN}, ROWS, FILL_NORMAL, true, false, false},
    {"attn.k.weight", {KEYS, HIDDEN}, ROWS, FILL_NORMAL, true, true, false},
    {"attn.v.weight", {KEYS, HIDDEN}, ROWS, FILL_NORMAL, true, true, false},
    {"attn.out.weight", {HIDDEN, QUERIES}, COLUMNS, FILL_RESIDUAL, true, false, false},
    NORM("norm2"),
};
static const struct row ffn_rows[] = {
    {"gate.weight", {FFN, HIDDEN}, ROWS, FILL_NORMAL, true, false, false},
    {"up.weight", {FFN, HIDDEN}, ROWS, FILL_NORMAL, true, true, false},
    {"down.weight", {HIDDEN, FFN}, COLUMNS, FILL_RESIDUAL, true, false, false},
};
/* The router's gradients are sums over what each TP rank's part of the experts gave: partial, always. */
static const struct row router_rows[] = {
    {"router.weight", {EXPERTS, HIDDEN}, WHOLE, FILL_NORMAL, true, false, false}};
static const struct row norm_rows[] = {NORM("norm"), OFFSET("norm")};
static const struct row head_rows[] = {
    {"head.weight", {VOCAB, HIDDEN}, ROWS, FILL_NORMAL, true, false, false}};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static size_t size_of(enum size_name name, const struct job_model *m)
{
    size_t head = (size_t)(m->hidden / m->heads);
    switch (name) {
    case HIDDEN:
        return (size_t)m->hidden;
    case QUERIES:
        return (size_t)m->heads * head;
    case KEYS:
        return (size_t)m->kv_heads * head;
    case FFN:
        return (size_t)m->ffn;
    case VOCAB:
        return (size_t)m->vocab;
    case CONTEXT:
        return (size_t)m->context;
    case EXPERTS:
        return (size_t)m->experts;
    case ONE:
        break;
    }
    return 1;
}

static size_t round_up(size_t n, size_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* What one TP rank stores of the rows of a table of the vocabulary. */
static size_t vocab_rows(const struct layout_request *r)
{
    size_t tp = (size_t)r->size.tp;
    return round_up(((size_t)r->model->vocab + tp - 1) / tp, VOCAB_MULTIPLE);
}

static void cut_rows(struct layout_tensor *t, const struct layout_request *r, bool vocab)
{
    size_t tp = (size_t)r->size.tp, part = vocab ? vocab_rows(r) : t->shape[0] / tp;
    t->from[0] = smaller((size_t)r->tp * part, t->shape[0]);
    t->to[0] = smaller(t->from[0] + part, t->shape[0]);
    t->rows = part;
}

static void cut_tensor(struct layout_tensor *t, const struct row *row, const struct layout_request *r)
{
    size_t part = t->shape[1] / (size_t)r->size.tp;
    t->from[0] = t->from[1] = 0;
    t->to[0] = t->rows = t->shape[0];
    t->to[1] = t->columns = t->shape[1];
    if (row->cut == ROWS)
        cut_rows(t, r, row->shape[0] == VOCAB);
    if (row->cut == COLUMNS) {
        t->from[1] = (size_t)r->tp * part;
        t->to[1] = t->from[1] + part;
        t->columns = part;
    }
}

static void add_row(struct layout *l, const struct row *row, const char *prefix,
                    const struct layout_request *r)
{
    struct layout_unit *u = &l->units[l->n_units - 1];
    l->tensors = mem_grow(l->tensors, l->n_tensors + 1, sizeof *l->tensors);
    struct layout_tensor *t = &l->tensors[l->n_tensors++];
    *t = (struct layout_tensor){.dims = row->shape[1] == ONE ? 1 : 2,
                                .unit = l->n_units - 1,
                                .fill = row->fill,
                                .decay = row->decay,
                                .everywhere = row->cut == WHOLE,
                                .partial =
                                    r->size.tp > 1 && ((row->residual && r->sequence) || row == router_rows)};
    (void)snprintf(t->name, sizeof t->name, "%s%s", prefix,
                   row->suffix); /* 20 digits and the longest suffix fit */
    t->shape[0] = size_of(row->shape[0], r->model);
    t->shape[1] = size_of(row->shape[1], r->model);
    cut_tensor(t, row, r);
    t->offset = row->joined ? u->elements : round_up(u->elements, ALIGNMENT);
    u->elements = t->offset + t->rows * t->columns;
    u->count++;
}

static void add_rows(struct layout *l, const struct row *rows, size_t n, const char *prefix,
                     const struct layout_request *r)
{
    for (size_t i = 0; i < n; i++)
        add_row(l, &rows[i], prefix, r);
}

static void open_unit(struct layout *l, enum layout_unit_kind kind, size_t layer,
                      const struct layout_request *r)
{
    int copies = r->size.dp * r->size.cp;
    l->units = mem_grow(l->units, l->n_units + 1, sizeof *l->units);
    l->units[l->n_units++] =
        (struct layout_unit){.kind = kind,
                             .layer = layer,
                             .first = l->n_tensors,
                             .offset = l->elements,
                             .copies = kind == UNIT_EXPERTS ? copies / r->size.ep : copies,
                             .shared_by_ends = kind == UNIT_EMBED && r->model->tied && r->size.pp > 1};
}

static void close_unit(struct layout *l)
{
    struct layout_unit *u = &l->units[l->n_units - 1];
    u->elements = round_up(u->elements, ALIGNMENT * (size_t)u->copies);
    l->elements += u->elements;
}

static void add_table(struct layout *l, enum layout_unit_kind kind, const struct row *rows, size_t n,
                      const struct layout_request *r)
{
    open_unit(l, kind, LAYOUT_NONE, r);
    add_rows(l, rows, n, "", r);
    close_unit(l);
}

static void add_experts(struct layout *l, size_t layer, const struct layout_request *r)
{
    char prefix[LAYOUT_NAME_BYTES];
    size_t mine = (size_t)(r->model->experts / r->size.ep), first = (size_t)(r->replica % r->size.ep) * mine;
    open_unit(l, UNIT_EXPERTS, layer, r);
    for (size_t e = first; e < first + mine; e++) {
        (void)snprintf(prefix, sizeof prefix, "layers.%zu.experts.%zu.", layer, e);
        add_rows(l, ffn_rows, COUNT(ffn_rows), prefix, r);
    }
    close_unit(l);
}

static void add_layer(struct layout *l, size_t layer, const struct layout_request *r)
{
    char prefix[LAYOUT_NAME_BYTES], ffn[LAYOUT_NAME_BYTES + 4];
    (void)snprintf(prefix, sizeof prefix, "layers.%zu.", layer);
    (void)snprintf(ffn, sizeof ffn, "%sffn.", prefix);
    open_unit(l, UNIT_LAYER, layer, r);
    if (r->model->arch == ARCH_GPT2) {
        add_rows(l, gpt2_rows, COUNT(gpt2_rows), prefix, r);
    } else {
        add_rows(l, llama_attention_rows, COUNT(llama_attention_rows), prefix, r);
        if (r->model->experts > 0)
            add_rows(l, router_rows, 1, prefix, r);
        else
            add_rows(l, ffn_rows, COUNT(ffn_rows), ffn, r);
    }
    close_unit(l);
    if (r->model->experts > 0)
        add_experts(l, layer, r);
}

static void add_begin(struct layout *l, const struct layout_request *r)
{
    add_table(l, UNIT_EMBED, embed_rows, 1, r);
    if (r->model->arch == ARCH_GPT2)
        add_table(l, UNIT_POSITION, position_rows, 1, r);
}

static void add_end(struct layout *l, const struct layout_request *r)
{
    add_table(l, UNIT_NORM, norm_rows, r->model->arch == ARCH_GPT2 ? 2 : 1, r);
    if (!r->model->tied)
        add_table(l, UNIT_HEAD, head_rows, 1, r);
    else if (r->size.pp > 1)
        add_table(l, UNIT_EMBED, embed_rows, 1, r); /* the last stage's copy */
}

static void add_chunk(struct layout *l, int chunk, const struct layout_request *r)
{
    int pieces = r->size.pp * r->virtual_stages, piece = chunk * r->size.pp + r->pp;
    struct layout_chunk *c = &l->chunks[chunk];
    *c = (struct layout_chunk){.begins = piece == 0, .ends = piece == pieces - 1};
    for (int i = 0; i < piece; i++)
        c->first += (size_t)r->piece_layers[i];
    c->count = (size_t)r->piece_layers[piece];
    if (c->begins)
        add_begin(l, r);
    for (size_t i = 0; i < c->count; i++)
        add_layer(l, c->first + i, r);
    if (c->ends)
        add_end(l, r);
}

void layout_make(struct layout *layout, const struct layout_request *request)
{
    size_t vocab = vocab_rows(request), all = (size_t)request->model->vocab;
    *layout = (struct layout){.n_chunks = (size_t)request->virtual_stages, .vocab = vocab};
    layout->vocab_from = smaller((size_t)request->tp * vocab, all);
    layout->vocab_to = smaller(layout->vocab_from + vocab, all);
    layout->chunks = mem_zero(layout->n_chunks, sizeof *layout->chunks);
    for (int c = 0; c < request->virtual_stages; c++)
        add_chunk(layout, c, request);
}

void layout_free(struct layout *layout)
{
    free(layout->tensors);
    free(layout->units);
    free(layout->chunks);
    *layout = (struct layout){.n_tensors = 0};
}

size_t layout_unit_of(const struct layout *layout, enum layout_unit_kind kind, size_t layer)
{
    for (size_t i = 0; i < layout->n_units; i++)
        if (layout->units[i].kind == kind && layout->units[i].layer == layer)
            return i;
    return LAYOUT_NONE;
}

size_t layout_tensor_of(const struct layout *layout, size_t unit, const char *suffix)
{
    const struct layout_unit *u = &layout->units[unit];
    size_t len = strlen(suffix);
    for (size_t i = u->first; i < u->first + u->count; i++) {
        const char *name = layout->tensors[i].name;
        size_t n = strlen(name);
        if (n >= len && strcmp(name + n - len, suffix) == 0 && (n == len || name[n - len - 1] == '.'))
            return i;
    }
    return LAYOUT_NONE;
}

uint64_t layout_parameters(const struct job_model *model)
{
    struct layout l;
    int64_t layers = model->layers;
    struct layout_request r = {
        .model = model, .size = {1, 1, 1, 1, 1}, .piece_layers = &layers, .virtual_stages = 1};
    uint64_t sum = 0;
    layout_make(&l, &r);
    for (size_t i = 0; i < l.n_tensors; i++)
        sum += (uint64_t)l.tensors[i].shape[0] * l.tensors[i].shape[1];
    layout_free(&l);
    return sum;
}
