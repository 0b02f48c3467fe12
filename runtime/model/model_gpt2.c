/* model_gpt2: one GPT-2 layer (Radford et al. 2019): x + attention(LayerNorm(x)), then x + mlp(LayerNorm(x)), biases everywhere. */
#include "runtime/model/model_private.h"

static size_t tensor(size_t l, size_t which)
{
    return GPT2_LAYER + l * GPT2_PER_LAYER + which;
}

static struct model_linear linear(size_t l, size_t weight, size_t in, size_t out)
{
    return (struct model_linear){tensor(l, weight), tensor(l, weight) + 1, in, out, true};
}

static void norm_forward(const struct model *m, size_t weight, const real *x, real *out, real *mean,
                         real *rstd)
{
    kernel_layernorm_forward(out, mean, rstd, x, model_parameter(m, weight), model_parameter(m, weight + 1),
                             MODEL_NORM_EPS, m->n, m->hidden);
}

static void norm_backward(const struct model *m, size_t weight, const real *x, const real *mean,
                          const real *rstd)
{
    kernel_layernorm_backward(m->scratch.d, model_gradient(m, weight), model_gradient(m, weight + 1),
                              m->scratch.narrow, x, model_parameter(m, weight), mean, rstd, m->n, m->hidden);
}

void model_gpt2_forward(const struct model *m, size_t l, real *out)
{
    const struct model_layer *a = &m->layer[l];
    size_t c = m->hidden, f = m->ffn;
    struct model_linear qkv = linear(l, GPT2_ATTN_WEIGHT, c, 3 * c),
                        proj = linear(l, GPT2_ATTN_PROJ_WEIGHT, c, c);
    struct model_linear fc = linear(l, GPT2_FC_WEIGHT, c, f), down = linear(l, GPT2_PROJ_WEIGHT, f, c);
    norm_forward(m, tensor(l, GPT2_LN1_WEIGHT), a->in, a->norm1, a->mean1, a->rstd1);
    model_linear_forward(m, &qkv, a->norm1, NULL, a->qkv, qkv.out);
    kernel_attention_forward(a->attention, a->lse, a->qkv, a->qkv + c, a->qkv + 2 * c, &m->heads);
    model_linear_forward(m, &proj, a->attention, a->in, a->mid, c);
    norm_forward(m, tensor(l, GPT2_LN2_WEIGHT), a->mid, a->norm2, a->mean2, a->rstd2);
    model_linear_forward(m, &fc, a->norm2, NULL, a->wide, f);
    kernel_gelu_forward(a->act, a->wide, m->n * f);
    model_linear_forward(m, &down, a->act, a->mid, out, c);
}

void model_gpt2_backward(const struct model *m, size_t l)
{
    const struct model_layer *a = &m->layer[l];
    const struct model_scratch *s = &m->scratch;
    size_t c = m->hidden, f = m->ffn;
    struct model_linear qkv = linear(l, GPT2_ATTN_WEIGHT, c, 3 * c),
                        proj = linear(l, GPT2_ATTN_PROJ_WEIGHT, c, c);
    struct model_linear fc = linear(l, GPT2_FC_WEIGHT, c, f), down = linear(l, GPT2_PROJ_WEIGHT, f, c);
    model_linear_backward(m, &down, a->act, s->d, c, false, s->wide);
    kernel_gelu_backward(s->wide, s->wide, a->wide, m->n * f);
    model_linear_backward(m, &fc, a->norm2, s->wide, f, false, s->narrow);
    norm_backward(m, tensor(l, GPT2_LN2_WEIGHT), a->mid, a->mean2, a->rstd2);
    model_linear_backward(m, &proj, a->attention, s->d, c, false, s->narrow);
    kernel_attention_backward(s->qkv, s->qkv + c, s->qkv + 2 * c, s->narrow, a->attention, a->lse, a->qkv,
                              a->qkv + c, a->qkv + 2 * c, &m->heads);
    model_linear_backward(m, &qkv, a->norm1, s->qkv, qkv.out, false, s->narrow);
    norm_backward(m, tensor(l, GPT2_LN1_WEIGHT), a->in, a->mean1, a->rstd1);
}
