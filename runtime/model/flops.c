/* flops: what a training step costs by the usual count. */
#include "runtime/model/model.h"

static double table(const struct job_model *c)
{
    return (double)c->vocab * (double)c->hidden;
}

static double expert(const struct job_model *c)
{
    return 3.0 * (double)c->hidden * (double)c->ffn;
}

/* Parameters that every token is multiplied with: looking up a row of a table is no multiplication. */
static double met(const struct job_model *c)
{
    double all = (double)layout_parameters(c);
    if (c->arch == ARCH_GPT2)
        all -= (double)c->context * (double)c->hidden;
    if (!c->tied)
        all -= table(c);
    return all - (double)c->layers * (double)(c->experts - (c->experts > 0 ? c->top_k : 0)) * expert(c);
}

static double attention(const struct job_model *c, size_t context)
{
    return 12.0 * (double)c->layers * (double)c->hidden * (double)context;
}

double model_flops_per_token(const struct job_model *config, size_t context)
{
    return 6.0 * met(config) + attention(config, context);
}

double model_hardware_flops_per_token(const struct job_model *config, size_t context,
                                      enum job_recompute recompute)
{
    double model = model_flops_per_token(config, context), head = 6.0 * table(config);
    if (recompute == RECOMPUTE_FULL)
        return model + (model - head) / 3; /* the head is not computed again */
    if (recompute == RECOMPUTE_SELECTIVE)
        return model + attention(config, context) / 3;
    return model;
}
