/* rope: rotary positions. A rotation's inverse is its transpose, so the backward pass turns the gradients back. */
#include <math.h>

#include "kernels/cpu/parts.h"
#include "kernels/kernels.h"

void kernel_rope_tables(real *cosine, real *sine, double theta, size_t t, size_t size)
{
    for (size_t position = 0; position < t; position++) {
        for (size_t i = 0; i < size / 2; i++) {
            double angle = (double)position * pow(theta, -2.0 * (double)i / (double)size);
            cosine[position * (size / 2) + i] = (real)cos(angle);
            sine[position * (size / 2) + i] = (real)sin(angle);
        }
    }
}

/* low, high (half): the two halves of one head */
static void turn(real *restrict low, real *restrict high, const real *cosine, const real *sine, real sign,
                 size_t half)
{
    for (size_t i = 0; i < half; i++) {
        real a = low[i], b = high[i];
        low[i] = a * cosine[i] - sign * b * sine[i];
        high[i] = b * cosine[i] + sign * a * sine[i];
    }
}

void kernel_rope(real *x, const real *cosine, const real *sine, bool back, size_t count,
                 const struct kernel_heads *shape)
{
    size_t n = shape->batch * shape->context, half = shape->size / 2;
#pragma omp parallel for schedule(static) if (n * count * half > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++) {
        size_t row = i % shape->context * half;
        for (size_t h = 0; h < count; h++) {
            real *head = x + i * shape->stride + h * shape->size;
            turn(head, head + half, cosine + row, sine + row, back ? -1 : 1, half);
        }
    }
}
