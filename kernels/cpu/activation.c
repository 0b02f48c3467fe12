/* activation: GELU and SwiGLU. With the logistic function s(z) = 1/(1 + e^-z): (1 + tanh(u))/2 = s(2u), so both need only e^x. An element's
 * result does not depend on where it lies: the last elements of an array, too, are computed as a vector. */
#include "kernels/cpu/elemvec.h"
#include "kernels/cpu/fill.h"
#include "kernels/cpu/parts.h"

#define GELU_SCALE R(0.79788456080286535588) /* sqrt(2/pi) */
#define GELU_CUBIC R(0.044715)

static inline vec logistic(vec z)
{
    return vec_inverse(1 + vec_exp(-z));
}

static inline vec gelu(vec x)
{
    return x * logistic(2 * GELU_SCALE * (x + GELU_CUBIC * x * x * x));
}

static void gelu_chunk(elem *out, const elem *x, size_t count)
{
    size_t i = 0;
    for (; i + VEC_LANES <= count; i += VEC_LANES)
        elemvec_store(out + i, gelu(elemvec_load(x + i)));
    if (i < count)
        elemvec_store_some(out + i, gelu(elemvec_load_some(x + i, count - i)), count - i);
}

static void gelu_forward(act *out, const act *x, size_t count)
{
    size_t chunks = parts_chunks(count);
#pragma omp parallel for schedule(static) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < chunks; i++)
        gelu_chunk(elems(out) + i * PARTS_CHUNK, elems_in(x) + i * PARTS_CHUNK, parts_chunk(count, i));
}

static inline vec gelu_slope(vec x)
{
    vec square = x * x, s = logistic(2 * GELU_SCALE * (x + GELU_CUBIC * square * x));
    return s + x * s * (1 - s) * (2 * GELU_SCALE * (1 + 3 * GELU_CUBIC * square));
}

/* dx may be dout */
static void gelu_slopes(elem *dx, const elem *dout, const elem *x, size_t count)
{
    size_t i = 0;
    for (; i + VEC_LANES <= count; i += VEC_LANES)
        elemvec_store(dx + i, elemvec_load(dout + i) * gelu_slope(elemvec_load(x + i)));
    if (i < count) {
        size_t rest = count - i;
        vec slope = gelu_slope(elemvec_load_some(x + i, rest));
        elemvec_store_some(dx + i, elemvec_load_some(dout + i, rest) * slope, rest);
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

static void swiglu_row(elem *out, const elem *gate, const elem *up, size_t f)
{
    size_t i = 0;
    for (; i + VEC_LANES <= f; i += VEC_LANES) {
        vec g = elemvec_load(gate + i);
        elemvec_store(out + i, g * logistic(g) * elemvec_load(up + i));
    }
    if (i < f) {
        vec g = elemvec_load_some(gate + i, f - i);
        elemvec_store_some(out + i, g * logistic(g) * elemvec_load_some(up + i, f - i), f - i);
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

static inline vec swiglu_slope(vec gate, vec s)
{
    return s * (1 + gate * (1 - s));
}

static void swiglu_slopes(elem *dgate, elem *dup, const elem *dout, const elem *gate, const elem *up,
                          size_t f)
{
    size_t i = 0;
    for (; i + VEC_LANES <= f; i += VEC_LANES) {
        vec d = elemvec_load(dout + i), g = elemvec_load(gate + i), s = logistic(g);
        elemvec_store(dup + i, d * g * s);
        elemvec_store(dgate + i, d * (swiglu_slope(g, s) * elemvec_load(up + i)));
    }
    if (i < f) {
        size_t rest = f - i;
        vec d = elemvec_load_some(dout + i, rest), g = elemvec_load_some(gate + i, rest), s = logistic(g);
        elemvec_store_some(dup + i, d * g * s, rest);
        elemvec_store_some(dgate + i, d * (swiglu_slope(g, s) * elemvec_load_some(up + i, rest)), rest);
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
