/* flops: see flops.h. Flash attention computes the scores again in its backward pass: 2.5 times the forward instead of twice
 * (Dao, arXiv 2307.08691, section 4.1). */
#include "planner/flops.h"

#include "planner/params.h"

/* Weights of matrices that one token meets in a block. */
static double block_weights(const struct job_model *m)
{
    double attention = 2.0 * (double)m->hidden * (double)(m->hidden + params_kv_width(m));
    double ffn = (m->arch == ARCH_LLAMA ? 3.0 : 2.0) * (double)m->hidden * (double)m->ffn;
    double experts = m->experts > 0 ? (double)m->top_k : 1;
    return attention + ffn * experts + (double)(m->experts * m->hidden);
}

void flops_count(const struct job_model *m, enum job_recompute recompute, struct flops *out)
{
    struct params p;
    double layers = (double)m->layers;
    params_count(m, &p);
    *out = (struct flops){
        .six_n = 6 * (double)p.active,
        .blocks = 6 * layers * block_weights(m),
        .head = 6 * (double)m->hidden * (double)m->vocab,
        .attention_full = 12 * layers * (double)m->hidden * (double)m->context,
    };
    out->attention_causal = out->attention_full / 2;
    out->model = out->blocks + out->head + out->attention_causal;
    out->model_full = out->blocks + out->head + out->attention_full;
    out->hardware = out->model + out->attention_causal / 6; /* half a forward */
    if (recompute == RECOMPUTE_FULL)
        out->hardware += (out->blocks + out->attention_causal) / 3;
}
