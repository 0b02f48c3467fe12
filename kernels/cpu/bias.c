/* bias: rows plus a vector, and its gradient, the sums of the columns. */
#include "kernels/cpu/parts.h"
#include "kernels/kernels.h"

static void bias_row(real *restrict out, const real *bias, size_t c)
{
    for (size_t j = 0; j < c; j++)
        out[j] = bias[j];
}

/* out may be x */
static void add_row(real *out, const real *x, const real *bias, size_t c)
{
#pragma omp simd
    for (size_t j = 0; j < c; j++)
        out[j] = x[j] + bias[j];
}

void kernel_bias_forward(real *out, const real *x, const real *bias, size_t n, size_t c)
{
#pragma omp parallel for schedule(static) if (n * c > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++) {
        if (x)
            add_row(out + i * c, x + i * c, bias, c);
        else
            bias_row(out + i * c, bias, c);
    }
}

/* dbias (width) += sums of `width` <= PARTS_COLUMNS columns */
static void sum_columns(real *dbias, const real *dout, size_t n, size_t c, size_t width)
{
    real sum[PARTS_COLUMNS] = {0};
    for (size_t i = 0; i < n; i++) {
#pragma omp simd
        for (size_t j = 0; j < width; j++)
            sum[j] += dout[i * c + j];
    }
    for (size_t j = 0; j < width; j++)
        dbias[j] += sum[j];
}

void kernel_bias_backward(real *dbias, const real *dout, size_t n, size_t c)
{
#pragma omp parallel for schedule(static) if (n * c > PARTS_SERIAL)
    for (size_t j = 0; j < c; j += PARTS_COLUMNS)
        sum_columns(dbias + j, dout + j, n, c, c - j < PARTS_COLUMNS ? c - j : PARTS_COLUMNS);
}
