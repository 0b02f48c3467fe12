/* params: counting. One block first, then the model, then the part of it that falls to one device. */
#include "planner/params.h"

int64_t params_kv_width(const struct job_model *m)
{
    return m->hidden / m->heads * m->kv_heads;
}

static bool has_biases(const struct job_model *m)
{
    return m->arch == ARCH_GPT2;
}

/* Queries, keys, values, and the projection back. */
static int64_t attention_of(const struct job_model *m)
{
    int64_t kv = params_kv_width(m);
    return 2 * m->hidden * (m->hidden + kv) + (has_biases(m) ? 2 * m->hidden + 2 * kv : 0);
}

/* One feed-forward network: gpt2 has two matrices, llama three (SwiGLU, arXiv 2002.05202). */
static int64_t expert_of(const struct job_model *m)
{
    int64_t matrices = m->arch == ARCH_LLAMA ? 3 : 2;
    return matrices * m->hidden * m->ffn + (has_biases(m) ? m->ffn + m->hidden : 0);
}

/* A gain, and with gpt2 a bias. */
static int64_t norm_of(const struct job_model *m)
{
    return m->arch == ARCH_LLAMA ? m->hidden : 2 * m->hidden;
}

static void count_block(const struct job_model *m, struct params *p)
{
    p->attention_block = attention_of(m);
    p->ffn_block = expert_of(m) * (m->experts > 0 ? m->experts : 1);
    p->norms_block = 2 * norm_of(m);
    p->router_block = m->experts * m->hidden;
}

void params_count(const struct job_model *m, struct params *out)
{
    *out = (struct params){.embedding = m->vocab * m->hidden};
    count_block(m, out);
    out->positions = m->arch == ARCH_LLAMA ? 0 : m->context * m->hidden;
    out->attention = m->layers * out->attention_block;
    out->ffn = m->layers * out->ffn_block;
    out->norms = m->layers * out->norms_block + norm_of(m);
    out->router = m->layers * out->router_block;
    out->head = m->tied ? 0 : m->vocab * m->hidden;
    out->total =
        out->embedding + out->positions + out->attention + out->ffn + out->norms + out->router + out->head;
    out->active = out->total - (m->experts > 0 ? m->layers * (m->experts - m->top_k) * expert_of(m) : 0);
}

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Blocks of one pipeline rank. Notes the largest of its pieces. */
static int64_t layers_of_rank(const struct job_spec *spec, int64_t rank, int64_t *piece)
{
    int64_t sum = 0;
    for (int64_t chunk = 0; chunk < spec->virtual_stages; chunk++) {
        int64_t layers = job_stage_layers(spec, chunk * spec->pp + rank);
        *piece = max(*piece, layers);
        sum += layers;
    }
    return sum;
}

/* The usual case, at once: a search asks often. */
static bool all_alike(const struct job_spec *spec, struct params_stages *out)
{
    int64_t layers = spec->train.model.layers, pieces = spec->pp * spec->virtual_stages;
    int64_t each = layers / spec->pp;
    if (spec->n_stages > 0 || layers % pieces != 0)
        return false;
    *out = (struct params_stages){each, each, each, each, layers / pieces};
    return true;
}

struct params_stages params_stages(const struct job_spec *spec)
{
    struct params_stages s = {.mid = 0};
    if (all_alike(spec, &s))
        return s;
    s.first = layers_of_rank(spec, 0, &s.piece);
    s.last = layers_of_rank(spec, spec->pp - 1, &s.piece);
    for (int64_t rank = 1; rank < spec->pp - 1; rank++)
        s.mid = max(s.mid, layers_of_rank(spec, rank, &s.piece));
    s.mid = spec->pp > 2 ? s.mid : s.first;
    s.most = max(s.mid, max(s.first, s.last));
    return s;
}

static int64_t layers_at(const struct job_spec *spec, enum params_place place)
{
    struct params_stages s = params_stages(spec);
    if (spec->pp == 1)
        return spec->train.model.layers;
    return place == PLACE_FIRST ? s.first : place == PLACE_LAST ? s.last : s.mid;
}

/* Numbers of one block on one device that are not in experts. */
static double dense_block(const struct job_spec *spec, const struct params *p)
{
    double tp = (double)spec->tp;
    double ffn = spec->train.model.experts > 0 ? 0 : (double)p->ffn_block;
    return ((double)p->attention_block + ffn) / tp + (double)(p->norms_block + p->router_block);
}

static double expert_block(const struct job_spec *spec, const struct params *p)
{
    return spec->train.model.experts > 0 ? (double)p->ffn_block / (double)(spec->tp * spec->ep) : 0;
}

/* Tied tables are held by both ends of a pipeline; on one rank they are one. */
static double tables(const struct job_spec *spec, const struct params *p, const struct params_share *s)
{
    const struct job_model *m = &spec->train.model;
    double table = (double)p->embedding / (double)spec->tp;
    double copies = s->embedding && s->head ? (m->tied ? 1 : 2) : s->embedding || s->head ? 1 : 0;
    return copies * table + (s->embedding ? (double)p->positions : 0) + (s->head ? (double)norm_of(m) : 0);
}

struct params_share params_share(const struct job_spec *spec, enum params_place place)
{
    struct params p;
    struct params_share s = {.layers = layers_at(spec, place),
                             .embedding = place == PLACE_FIRST || spec->pp == 1,
                             .head = place == PLACE_LAST || spec->pp == 1};
    params_count(&spec->train.model, &p);
    s.dense = (double)s.layers * dense_block(spec, &p) + tables(spec, &p, &s);
    s.expert = (double)s.layers * expert_block(spec, &p);
    return s;
}

struct params_share params_largest_share(const struct job_spec *spec)
{
    struct params_share largest = params_share(spec, PLACE_FIRST);
    for (enum params_place place = PLACE_MID; place < PLACE_COUNT; place++) {
        bool there = place != PLACE_MID || spec->pp > 2;
        struct params_share s = params_share(spec, place);
        if (there && s.dense + s.expert > largest.dense + largest.expert)
            largest = s;
    }
    return largest;
}

int64_t params_perceptron(const int64_t *widths, size_t n)
{
    int64_t total = 0;
    for (size_t i = 1; i < n; i++)
        total += (widths[i - 1] + 1) * widths[i];
    return total;
}
