/* activation: GELU and SwiGLU. With the logistic function s(z) = 1/(1 + e^-z): (1 + tanh(u))/2 = s(2u), so both need only e^x. */
#include "kernels/cpu/parts.h"
#include "kernels/cpu/vmath.h"
#include "kernels/kernels.h"

#define GELU_SCALE R(0.79788456080286535588) /* sqrt(2/pi) */
#define GELU_CUBIC R(0.044715)

static inline real logistic(real z)
{
    return 1 / (1 + real_exp(-z));
}

void kernel_gelu_forward(real *out, const real *x, size_t count)
{
#pragma omp parallel for simd schedule(static) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < count; i++)
        out[i] = x[i] * logistic(2 * GELU_SCALE * (x[i] + GELU_CUBIC * x[i] * x[i] * x[i]));
}

void kernel_gelu_backward(real *dx, const real *dout, const real *x, size_t count)
{
#pragma omp parallel for simd schedule(static) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < count; i++) {
        real square = x[i] * x[i];
        real s = logistic(2 * GELU_SCALE * (x[i] + GELU_CUBIC * square * x[i]));
        real slope = 2 * GELU_SCALE * (1 + 3 * GELU_CUBIC * square);
        dx[i] = dout[i] * (s + x[i] * s * (1 - s) * slope);
    }
}

void kernel_swiglu_forward(real *out, const real *gate, const real *up, size_t count)
{
#pragma omp parallel for simd schedule(static) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < count; i++)
        out[i] = gate[i] * logistic(gate[i]) * up[i];
}

void kernel_swiglu_backward(real *dgate, real *dup, const real *dout, const real *gate, const real *up,
                            size_t count)
{
#pragma omp parallel for simd schedule(static) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < count; i++) {
        real d = dout[i], s = logistic(gate[i]), slope = s * (1 + gate[i] * (1 - s)) * up[i];
        dup[i] = d * gate[i] * s;
        dgate[i] = d * slope;
    }
}
