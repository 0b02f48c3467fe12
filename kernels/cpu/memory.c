/* memory: aligned arrays and the plain element-wise functions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/parts.h"
#include "kernels/kernels.h"

real *kernel_alloc(size_t count)
{
    if (count > (SIZE_MAX - 64) / sizeof(real))
        return NULL;
    size_t bytes = (count * sizeof(real) + 63) / 64 * 64;
    real *x = aligned_alloc(64, bytes ? bytes : 64);
    if (x)
        kernel_zero(x, bytes / sizeof(real)); /* by all threads: each page lands near who uses it */
    return x;
}

void kernel_free(real *x)
{
    free(x);
}

void kernel_zero(real *x, size_t count)
{
#pragma omp parallel for schedule(static) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < PARTS_SUM; i++) {
        size_t begin = parts_begin(count, PARTS_SUM, i);
        memset(x + begin, 0, (parts_begin(count, PARTS_SUM, i + 1) - begin) * sizeof *x);
    }
}

void kernel_copy(real *out, const real *x, size_t count)
{
#pragma omp parallel for schedule(static) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < PARTS_SUM; i++) {
        size_t begin = parts_begin(count, PARTS_SUM, i);
        memcpy(out + begin, x + begin, (parts_begin(count, PARTS_SUM, i + 1) - begin) * sizeof *x);
    }
}

void kernel_scale(real *x, size_t count, real factor)
{
#pragma omp parallel for simd schedule(static) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < count; i++)
        x[i] *= factor;
}

void kernel_add(real *out, const real *a, const real *b, size_t count)
{
#pragma omp parallel for simd schedule(static) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < count; i++)
        out[i] = a[i] + b[i];
}

static double squares(const real *x, size_t begin, size_t end)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = begin; i < end; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

double kernel_sum_of_squares(const real *x, size_t count)
{
    double part[PARTS_SUM];
#pragma omp parallel for schedule(static) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < PARTS_SUM; i++)
        part[i] = squares(x, parts_begin(count, PARTS_SUM, i), parts_begin(count, PARTS_SUM, i + 1));
    double sum = 0;
    for (size_t i = 0; i < PARTS_SUM; i++)
        sum += part[i];
    return sum;
}

bool kernel_all_finite(const real *x, size_t count)
{
    int bad = 0;
#pragma omp parallel for simd schedule(static) reduction(| : bad) if (count > PARTS_SERIAL)
    for (size_t i = 0; i < count; i++)
        bad |= !(x[i] - x[i] == 0);
    return !bad;
}
