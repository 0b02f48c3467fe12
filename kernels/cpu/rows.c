/* rows: tokens on their way to the experts and back. Each row of an output has one task, and a slot occurs once, so nothing meets. */
#include "kernels/cpu/elem.h"
#include "kernels/cpu/fill.h"
#include "kernels/cpu/parts.h"

#define BLOCK 64 /* elements summed at a time: they stay in registers */

static void rows_gather(act *out, const act *x, const int32_t *index, size_t n, size_t c)
{
#pragma omp parallel for schedule(static) if (n * c > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++) {
        elem *row = elems(out) + i * c;
        if (index[i] >= 0)
            memcpy(row, elems_in(x) + (size_t)index[i] * c, c * sizeof *row);
        else
            memset(row, 0, c * sizeof *row);
    }
}

/* out (width <= BLOCK), at column `at` of a row: rounded once, after the last of the k rows */
static void combine_block(elem *out, bool accumulate, const elem *rows, const int32_t *slots,
                          const real *weights, size_t k, size_t c, size_t width)
{
    real sum[BLOCK] = {0};
    for (size_t j = 0; accumulate && j < width; j++)
        sum[j] = elem_load(out[j]);
    for (size_t i = 0; i < k; i++) {
        if (slots[i] < 0)
            continue;
        const elem *row = rows + (size_t)slots[i] * c;
        real weight = weights ? weights[i] : 1;
#pragma omp simd
        for (size_t j = 0; j < width; j++)
            sum[j] += weight * elem_load(row[j]);
    }
    for (size_t j = 0; j < width; j++)
        out[j] = elem_store(sum[j]);
}

static void rows_combine(act *out, bool accumulate, const act *rows, const int32_t *slots,
                         const real *weights, size_t n, size_t k, size_t c)
{
#pragma omp parallel for schedule(static) if (n * c > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < c; j += BLOCK)
            combine_block(elems(out) + i * c + j, accumulate, elems_in(rows) + j, slots + i * k,
                          weights ? weights + i * k : NULL, k, c, c - j < BLOCK ? c - j : BLOCK);
    }
}

/* drow (c) = weight * dout; returns dout . row. drow may be row. */
static real backward_row(elem *drow, const elem *dout, const elem *row, real weight, size_t c)
{
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < c; j++) {
        real d = elem_load(dout[j]);
        sum += d * elem_load(row[j]);
        drow[j] = elem_store(weight * d);
    }
    return sum;
}

static void rows_combine_backward(act *drows, real *dweights, const act *dout, const act *rows,
                                  const int32_t *slots, const real *weights, size_t n, size_t k, size_t c)
{
#pragma omp parallel for schedule(static) if (n * k * c > PARTS_SERIAL)
    for (size_t i = 0; i < n * k; i++) {
        real dot = 0;
        if (slots[i] >= 0) {
            size_t at = (size_t)slots[i] * c;
            dot = backward_row(elems(drows) + at, elems_in(dout) + i / k * c, elems_in(rows) + at,
                               weights ? weights[i] : 1, c);
        }
        if (dweights)
            dweights[i] = dot;
    }
}

void FILL(rows)(struct kernels *table)
{
    table->rows_gather = rows_gather;
    table->rows_combine = rows_combine;
    table->rows_combine_backward = rows_combine_backward;
}
