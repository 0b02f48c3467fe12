/* rope: rotary positions. A rotation's inverse is its transpose, so the backward pass turns the gradients back. */
#include "kernels/cpu/elem.h"
#include "kernels/cpu/fill.h"
#include "kernels/cpu/parts.h"

/* low, high (half): the two halves of one head */
static void turn(elem *restrict low, elem *restrict high, const real *cosine, const real *sine, real sign,
                 size_t half)
{
    for (size_t i = 0; i < half; i++) {
        real a = elem_load(low[i]), b = elem_load(high[i]);
        low[i] = elem_store(a * cosine[i] - sign * b * sine[i]);
        high[i] = elem_store(b * cosine[i] + sign * a * sine[i]);
    }
}

static void rope(act *x, const real *cosine, const real *sine, const int32_t *positions, bool back,
                 size_t count, size_t size, size_t stride, size_t n)
{
    size_t half = size / 2;
#pragma omp parallel for schedule(static) if (n * count * half > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++) {
        size_t row = (size_t)positions[i] * half;
        for (size_t h = 0; h < count; h++) {
            elem *head = elems(x) + i * stride + h * size;
            turn(head, head + half, cosine + row, sine + row, back ? -1 : 1, half);
        }
    }
}

void FILL(rope)(struct kernels *table)
{
    table->rope = rope;
}
