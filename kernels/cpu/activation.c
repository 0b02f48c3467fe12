/* activation: GELU and SwiGLU. With the logistic function s(z) = 1/(1 + e^-z): (1 + tanh(u))/2 = s(2u), so both need only e^x. */
#include "kernels/cpu/elem.h"
#include "kernels/cpu/fill.h"
#include "kernels/cpu/parts.h"
#include "kernels/cpu/vmath.h"

#define GELU_SCALE R(0.79788456080286535588) /* sqrt(2/pi) */
#define GELU_CUBIC R(0.044715)

static inline real logistic(real z)
{
    return 1 / (1 + real_exp(-z));
}

static void gelu_chunk(elem *restrict out, const elem *x, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        real a = elem_load(x[i]);
        out[i] = elem_store(a * logistic(2 * GELU_SCALE * (a + GELU_CUBIC * a * a * a)));
    }
}

static void gelu_forward(act *out, const act *x, size_t count)
{
    size_t chunks = parts_chunks(count);
#pragma omp parallel for schedule(static) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < chunks; i++)
        gelu_chunk(elems(out) + i * PARTS_CHUNK, elems_in(x) + i * PARTS_CHUNK, parts_chunk(count, i));
}

/* dx may be dout */
static void gelu_slopes(elem *dx, const elem *dout, const elem *x, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        real a = elem_load(x[i]), square = a * a;
        real s = logistic(2 * GELU_SCALE * (a + GELU_CUBIC * square * a));
        real slope = 2 * GELU_SCALE * (1 + 3 * GELU_CUBIC * square);
        dx[i] = elem_store(elem_load(dout[i]) * (s + a * s * (1 - s) * slope));
    }
}

static void gelu_backward(act *dx, const act *dout, const act *x, size_t count)
{
    size_t chunks = parts_chunks(count);
#pragma omp parallel for schedule(static) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < chunks; i++)
        gelu_slopes(elems(dx) + i * PARTS_CHUNK, elems_in(dout) + i * PARTS_CHUNK,
                    elems_in(x) + i * PARTS_CHUNK, parts_chunk(count, i));
}

static void swiglu_row(elem *restrict out, const elem *gate, const elem *up, size_t f)
{
    for (size_t i = 0; i < f; i++) {
        real g = elem_load(gate[i]);
        out[i] = elem_store(g * logistic(g) * elem_load(up[i]));
    }
}

static void swiglu_forward(act *out, const act *wide, size_t n, size_t f)
{
#pragma omp parallel for schedule(static) if (n * f > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++) {
        const elem *gate = elems_in(wide) + i * 2 * f;
        swiglu_row(elems(out) + i * f, gate, gate + f, f);
    }
}

static void swiglu_slopes(elem *restrict dgate, elem *restrict dup, const elem *dout, const elem *gate,
                          const elem *up, size_t f)
{
    for (size_t i = 0; i < f; i++) {
        real d = elem_load(dout[i]), g = elem_load(gate[i]), s = logistic(g);
        dup[i] = elem_store(d * g * s);
        dgate[i] = elem_store(d * (s * (1 + g * (1 - s)) * elem_load(up[i])));
    }
}

static void swiglu_backward(act *dwide, const act *dout, const act *wide, size_t n, size_t f)
{
#pragma omp parallel for schedule(static) if (n * f > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++) {
        elem *dgate = elems(dwide) + i * 2 * f;
        const elem *gate = elems_in(wide) + i * 2 * f;
        swiglu_slopes(dgate, dgate + f, elems_in(dout) + i * f, gate, gate + f, f);
    }
}

void FILL(activation)(struct kernels *table)
{
    table->gelu_forward = gelu_forward;
    table->gelu_backward = gelu_backward;
    table->swiglu_forward = swiglu_forward;
    table->swiglu_backward = swiglu_backward;
}
