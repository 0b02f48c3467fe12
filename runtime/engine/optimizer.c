/* optimizer: see optimizer.h. */
#include "runtime/engine/optimizer.h"

#include <stdlib.h>

#include "common/mem.h"
#include "kernels/kernels.h"

struct optimizer {
    size_t n_tensors;
    const struct model_tensor *tensors;
    float *first, *second;
};

struct optimizer *optimizer_new(size_t count, const struct model_tensor *tensors, size_t n_tensors,
                                struct err *err)
{
    struct optimizer *o = mem_zero(1, sizeof *o);
    o->tensors = tensors;
    o->n_tensors = n_tensors;
    o->first = kernel_alloc(count);
    o->second = kernel_alloc(count);
    if (o->first && o->second)
        return o;
    err_set(err, "no memory for the optimizer state of %zu parameters (%zu bytes); use a smaller model",
            count, 2 * count * sizeof *o->first);
    optimizer_free(o);
    return NULL;
}

void optimizer_free(struct optimizer *optimizer)
{
    if (!optimizer)
        return;
    kernel_free(optimizer->first);
    kernel_free(optimizer->second);
    free(optimizer);
}

float *optimizer_first(struct optimizer *optimizer)
{
    return optimizer->first;
}

float *optimizer_second(struct optimizer *optimizer)
{
    return optimizer->second;
}

double optimizer_clip_scale(double norm, double clip)
{
    return clip > 0 && norm > clip ? clip / norm : 1;
}

void optimizer_step(struct optimizer *optimizer, const struct job_optimizer *o, double lr, int64_t step,
                    double scale, float *parameters, const float *gradients)
{
    struct kernel_adamw config = {
        .lr = lr, .beta1 = o->beta1, .beta2 = o->beta2, .eps = o->eps, .gradient_scale = scale, .step = step};
    for (size_t i = 0; i < optimizer->n_tensors; i++) {
        const struct model_tensor *t = &optimizer->tensors[i];
        config.weight_decay = t->decay ? o->weight_decay : 0;
        kernel_adamw(parameters + t->offset, optimizer->first + t->offset, optimizer->second + t->offset,
                     gradients + t->offset, t->count, &config);
    }
}
