/* adamw: one pass over parameters, moments and gradients. It moves 7 numbers a parameter, so memory sets its speed. */
#include <math.h>

#include "kernels/cpu/parts.h"
#include "kernels/cpu/vmath.h"
#include "kernels/kernels.h"

void kernel_adamw(real *parameters, real *m, real *v, const real *gradients, size_t count,
                  const struct kernel_adamw *config)
{
    real beta1 = (real)config->beta1, beta2 = (real)config->beta2;
    real fresh1 = (real)(1 - config->beta1), fresh2 = (real)(1 - config->beta2);
    real scale = (real)config->gradient_scale, eps = (real)config->eps;
    /* m_hat / (sqrt(v_hat) + eps) with the two bias corrections taken out of the loop */
    real rate = (real)(config->lr / (1 - pow(config->beta1, (double)config->step)));
    real unbias = (real)(1 / sqrt(1 - pow(config->beta2, (double)config->step)));
    real keep = (real)(1 - config->lr * config->weight_decay);
#pragma omp parallel for simd schedule(static) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < count; i++) {
        real g = gradients[i] * scale;
        m[i] = beta1 * m[i] + fresh1 * g;
        v[i] = beta2 * v[i] + fresh2 * g * g;
        parameters[i] = keep * parameters[i] - rate * m[i] / (real_sqrt(v[i]) * unbias + eps);
    }
}
