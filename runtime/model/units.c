/* units: asking the owner of the numbers, and finding a tensor among them. */
#include <assert.h>

#include "runtime/model/model_private.h"

size_t model_unit_of(const struct model *m, enum layout_unit_kind kind, size_t layer)
{
    size_t unit = layout_unit_of(m->layout, kind, layer);
    assert(unit != LAYOUT_NONE); /* the layout was made for these chunks */
    return unit;
}

static const struct layout_tensor *tensor_of(const struct model *m, size_t unit, const char *suffix)
{
    size_t t = layout_tensor_of(m->layout, unit, suffix);
    assert(t != LAYOUT_NONE); /* callers name tensors of the unit's kind */
    return &m->layout->tensors[t];
}

const act *model_weight(const struct model *m, size_t unit, const char *suffix)
{
    return act_in(m->k, m->r.units[unit].weights, tensor_of(m, unit, suffix)->offset);
}

real *model_gradient(const struct model *m, size_t unit, const char *suffix)
{
    return m->r.units[unit].gradients + tensor_of(m, unit, suffix)->offset;
}

const act *model_bias(const struct model *m, size_t unit, const char *suffix)
{
    return model_gpt2(m) ? model_weight(m, unit, suffix) : NULL;
}

real *model_bias_gradient(const struct model *m, size_t unit, const char *suffix)
{
    return model_gpt2(m) ? model_gradient(m, unit, suffix) : NULL;
}

void model_need(const struct model *m, size_t unit, bool gradients)
{
    m->r.hooks.need(m->r.hooks.owner, unit, gradients);
}

void model_gradients_in(const struct model *m, size_t unit)
{
    m->r.hooks.gradients(m->r.hooks.owner, unit);
}

void model_done(const struct model *m, size_t unit)
{
    m->r.hooks.done(m->r.hooks.owner, unit);
}

void model_idle(const struct model *m)
{
    m->r.hooks.idle(m->r.hooks.owner);
}
