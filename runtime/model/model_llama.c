/* model_llama: one Llama layer (Touvron et al., arXiv 2302.13971): x + attention(RMSNorm(x)), then x + mlp(RMSNorm(x)), with rotary
 * positions, grouped-query heads, SwiGLU and no biases. q, k and v of a token lie side by side in one row of qkv. */
#include "runtime/model/model_private.h"

static size_t tensor(size_t l, size_t which)
{
    return LLAMA_LAYER + l * LLAMA_PER_LAYER + which;
}

static struct model_linear linear(size_t l, size_t weight, size_t in, size_t out)
{
    return (struct model_linear){tensor(l, weight), MODEL_NONE, in, out, false};
}

/* q, k or v: where it begins within a row of qkv, and how to get there. */
struct part {
    struct model_linear linear;
    size_t at;
};

static struct part part(const struct model *m, size_t l, size_t which)
{
    size_t c = m->hidden, kv = m->heads.kv_heads * m->heads.size;
    size_t at = which == LLAMA_Q ? 0 : which == LLAMA_K ? c : c + kv;
    return (struct part){linear(l, which, c, which == LLAMA_Q ? c : kv), at};
}

static void norm_forward(const struct model *m, size_t weight, const real *x, real *out, real *rstd)
{
    kernel_rmsnorm_forward(out, rstd, x, model_parameter(m, weight), MODEL_NORM_EPS, m->n, m->hidden);
}

static void norm_backward(const struct model *m, size_t weight, const real *x, const real *rstd)
{
    kernel_rmsnorm_backward(m->scratch.d, model_gradient(m, weight), m->scratch.narrow, x,
                            model_parameter(m, weight), rstd, m->n, m->hidden);
}

/* Turns q and k, which are neighbours, in one go. */
static void rope(const struct model *m, real *qkv, bool back)
{
    kernel_rope(qkv, m->cosine, m->sine, back, m->heads.heads + m->heads.kv_heads, &m->heads);
}

static void attention_forward(const struct model *m, size_t l)
{
    const struct model_layer *a = &m->layer[l];
    for (size_t which = LLAMA_Q; which <= LLAMA_V; which++) {
        struct part p = part(m, l, which);
        model_linear_forward(m, &p.linear, a->norm1, NULL, a->qkv + p.at, m->heads.stride);
    }
    rope(m, a->qkv, false);
    size_t k = part(m, l, LLAMA_K).at, v = part(m, l, LLAMA_V).at;
    kernel_attention_forward(a->attention, a->lse, a->qkv, a->qkv + k, a->qkv + v, &m->heads);
}

/* From scratch.narrow = d(attention) to scratch.narrow = d(norm1) */
static void attention_backward(const struct model *m, size_t l)
{
    const struct model_layer *a = &m->layer[l];
    const struct model_scratch *s = &m->scratch;
    size_t k = part(m, l, LLAMA_K).at, v = part(m, l, LLAMA_V).at;
    kernel_attention_backward(s->qkv, s->qkv + k, s->qkv + v, s->narrow, a->attention, a->lse, a->qkv,
                              a->qkv + k, a->qkv + v, &m->heads);
    rope(m, s->qkv, true);
    for (size_t which = LLAMA_Q; which <= LLAMA_V; which++) {
        struct part p = part(m, l, which);
        model_linear_backward(m, &p.linear, a->norm1, s->qkv + p.at, m->heads.stride, which != LLAMA_Q,
                              s->narrow);
    }
}

void model_llama_forward(const struct model *m, size_t l, real *out)
{
    const struct model_layer *a = &m->layer[l];
    size_t c = m->hidden, f = m->ffn;
    struct model_linear o = linear(l, LLAMA_O, c, c), gate = linear(l, LLAMA_GATE, c, f);
    struct model_linear up = linear(l, LLAMA_UP, c, f), down = linear(l, LLAMA_DOWN, f, c);
    norm_forward(m, tensor(l, LLAMA_NORM1), a->in, a->norm1, a->rstd1);
    attention_forward(m, l);
    model_linear_forward(m, &o, a->attention, a->in, a->mid, c);
    norm_forward(m, tensor(l, LLAMA_NORM2), a->mid, a->norm2, a->rstd2);
    model_linear_forward(m, &gate, a->norm2, NULL, a->wide, f);
    model_linear_forward(m, &up, a->norm2, NULL, a->up, f);
    kernel_swiglu_forward(a->act, a->wide, a->up, m->n * f);
    model_linear_forward(m, &down, a->act, a->mid, out, c);
}

void model_llama_backward(const struct model *m, size_t l)
{
    const struct model_layer *a = &m->layer[l];
    const struct model_scratch *s = &m->scratch;
    size_t c = m->hidden, f = m->ffn;
    struct model_linear o = linear(l, LLAMA_O, c, c), gate = linear(l, LLAMA_GATE, c, f);
    struct model_linear up = linear(l, LLAMA_UP, c, f), down = linear(l, LLAMA_DOWN, f, c);
    model_linear_backward(m, &down, a->act, s->d, c, false, s->wide);
    kernel_swiglu_backward(s->wide, s->up, s->wide, a->wide, a->up, m->n * f);
    model_linear_backward(m, &gate, a->norm2, s->wide, f, false, s->narrow);
    model_linear_backward(m, &up, a->norm2, s->up, f, true, s->narrow);
    norm_backward(m, tensor(l, LLAMA_NORM2), a->mid, a->rstd2);
    model_linear_backward(m, &o, a->attention, s->d, c, false, s->narrow);
    attention_backward(m, l);
    norm_backward(m, tensor(l, LLAMA_NORM1), a->in, a->rstd1);
}
