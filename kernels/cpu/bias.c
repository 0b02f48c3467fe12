/* bias: rows plus a vector, and its gradient, the sums of the columns. */
#include "kernels/cpu/elem.h"
#include "kernels/cpu/fill.h"
#include "kernels/cpu/parts.h"

/* out may be x */
static void add_row(elem *out, const elem *x, const elem *bias, size_t c)
{
#pragma omp simd
    for (size_t j = 0; j < c; j++)
        out[j] = elem_store(elem_load(x[j]) + elem_load(bias[j]));
}

static void bias_forward(act *out, const act *x, const act *bias, size_t n, size_t c)
{
#pragma omp parallel for schedule(static) if (n * c > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++) {
        if (x)
            add_row(elems(out) + i * c, elems_in(x) + i * c, elems_in(bias), c);
        else
            memcpy(elems(out) + i * c, bias, c * sizeof(elem));
    }
}

/* dbias (width) += sums of `width` <= PARTS_COLUMNS columns */
static void sum_columns(real *dbias, const elem *dout, size_t n, size_t c, size_t width)
{
    real sum[PARTS_COLUMNS] = {0};
    for (size_t i = 0; i < n; i++) {
#pragma omp simd
        for (size_t j = 0; j < width; j++)
            sum[j] += elem_load(dout[i * c + j]);
    }
    for (size_t j = 0; j < width; j++)
        dbias[j] += sum[j];
}

static void bias_backward(real *dbias, const act *dout, size_t n, size_t c)
{
#pragma omp parallel for schedule(static) if (n * c > PARTS_SERIAL)
    for (size_t j = 0; j < c; j += PARTS_COLUMNS)
        sum_columns(dbias + j, elems_in(dout) + j, n, c, c - j < PARTS_COLUMNS ? c - j : PARTS_COLUMNS);
}

void FILL(bias)(struct kernels *table)
{
    table->bias_forward = bias_forward;
    table->bias_backward = bias_backward;
}
