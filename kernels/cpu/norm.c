/* norm: LayerNorm and RMSNorm. Rows are independent, so dx goes by rows; dweight and dbias sum down the rows and go by columns. */
#include "kernels/cpu/elem.h"
#include "kernels/cpu/fill.h"
#include "kernels/cpu/parts.h"
#include "kernels/cpu/vmath.h"

static real sum_row(const elem *x, size_t c)
{
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < c; j++)
        sum += elem_load(x[j]);
    return sum;
}

/* sum of (x - center)^2 */
static real sum_square_row(const elem *x, real center, size_t c)
{
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < c; j++)
        sum += (elem_load(x[j]) - center) * (elem_load(x[j]) - center);
    return sum;
}

static void layernorm_row(elem *restrict out, const elem *x, const elem *weight, const elem *bias, real mean,
                          real rstd, size_t c)
{
    for (size_t j = 0; j < c; j++)
        out[j] = elem_store((elem_load(x[j]) - mean) * rstd * elem_load(weight[j]) + elem_load(bias[j]));
}

static void layernorm_forward(act *out, real *mean, real *rstd, const act *x, const act *weight,
                              const act *bias, real eps, size_t n, size_t c)
{
#pragma omp parallel for schedule(static) if (n * c > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++) {
        const elem *row = elems_in(x) + i * c;
        mean[i] = sum_row(row, c) / (real)c;
        rstd[i] = 1 / real_sqrt(sum_square_row(row, mean[i], c) / (real)c + eps);
        layernorm_row(elems(out) + i * c, row, elems_in(weight), elems_in(bias), mean[i], rstd[i], c);
    }
}

/* With y = (x - mean) * rstd and g = dout * weight: dx = rstd * (g - mean(g) - y * mean(g y)). */
static void layernorm_dx_row(elem *restrict dx, const elem *dout, const elem *x, const elem *weight,
                             real mean, real rstd, size_t c)
{
    real g_sum = 0, gy_sum = 0;
#pragma omp simd reduction(+ : g_sum, gy_sum)
    for (size_t j = 0; j < c; j++) {
        real g = elem_load(dout[j]) * elem_load(weight[j]);
        g_sum += g;
        gy_sum += g * (elem_load(x[j]) - mean) * rstd;
    }
    real g_mean = g_sum / (real)c, gy_mean = gy_sum / (real)c;
    for (size_t j = 0; j < c; j++) {
        real y = (elem_load(x[j]) - mean) * rstd, g = elem_load(dout[j]) * elem_load(weight[j]);
        dx[j] = elem_store(elem_load(dx[j]) + rstd * (g - g_mean - y * gy_mean));
    }
}

/* dweight, dbias (width) += for `width` <= PARTS_COLUMNS columns; mean and dbias are NULL for RMSNorm */
static void norm_columns(real *dweight, real *dbias, const elem *dout, const elem *x, const real *mean,
                         const real *rstd, size_t n, size_t c, size_t width)
{
    real weight_sum[PARTS_COLUMNS] = {0}, bias_sum[PARTS_COLUMNS] = {0};
    for (size_t i = 0; i < n; i++) {
        real center = mean ? mean[i] : 0;
#pragma omp simd
        for (size_t j = 0; j < width; j++) {
            real d = elem_load(dout[i * c + j]);
            weight_sum[j] += d * (elem_load(x[i * c + j]) - center) * rstd[i];
            bias_sum[j] += d;
        }
    }
    for (size_t j = 0; j < width; j++) {
        dweight[j] += weight_sum[j];
        if (dbias)
            dbias[j] += bias_sum[j];
    }
}

static void norm_weights(real *dweight, real *dbias, const elem *dout, const elem *x, const real *mean,
                         const real *rstd, size_t n, size_t c)
{
#pragma omp parallel for schedule(static) if (n * c > PARTS_SERIAL)
    for (size_t j = 0; j < c; j += PARTS_COLUMNS)
        norm_columns(dweight + j, dbias ? dbias + j : NULL, dout + j, x + j, mean, rstd, n, c,
                     c - j < PARTS_COLUMNS ? c - j : PARTS_COLUMNS);
}

static void layernorm_backward(act *dx, real *dweight, real *dbias, const act *dout, const act *x,
                               const act *weight, const real *mean, const real *rstd, size_t n, size_t c)
{
    norm_weights(dweight, dbias, elems_in(dout), elems_in(x), mean, rstd, n, c);
#pragma omp parallel for schedule(static) if (n * c > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++)
        layernorm_dx_row(elems(dx) + i * c, elems_in(dout) + i * c, elems_in(x) + i * c, elems_in(weight),
                         mean[i], rstd[i], c);
}

static void rmsnorm_row(elem *restrict out, const elem *x, const elem *weight, real rstd, size_t c)
{
    for (size_t j = 0; j < c; j++)
        out[j] = elem_store(elem_load(x[j]) * rstd * elem_load(weight[j]));
}

static void rmsnorm_forward(act *out, real *rstd, const act *x, const act *weight, real eps, size_t n,
                            size_t c)
{
#pragma omp parallel for schedule(static) if (n * c > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++) {
        const elem *row = elems_in(x) + i * c;
        rstd[i] = 1 / real_sqrt(sum_square_row(row, 0, c) / (real)c + eps);
        rmsnorm_row(elems(out) + i * c, row, elems_in(weight), rstd[i], c);
    }
}

/* With y = x * rstd and g = dout * weight: dx = rstd * (g - y * mean(g y)). */
static void rmsnorm_dx_row(elem *restrict dx, const elem *dout, const elem *x, const elem *weight, real rstd,
                           size_t c)
{
    real gy_sum = 0;
#pragma omp simd reduction(+ : gy_sum)
    for (size_t j = 0; j < c; j++)
        gy_sum += elem_load(dout[j]) * elem_load(weight[j]) * elem_load(x[j]) * rstd;
    real gy_mean = gy_sum / (real)c;
    for (size_t j = 0; j < c; j++) {
        real y = elem_load(x[j]) * rstd, g = elem_load(dout[j]) * elem_load(weight[j]);
        dx[j] = elem_store(elem_load(dx[j]) + rstd * (g - y * gy_mean));
    }
}

static void rmsnorm_backward(act *dx, real *dweight, const act *dout, const act *x, const act *weight,
                             const real *rstd, size_t n, size_t c)
{
    norm_weights(dweight, NULL, elems_in(dout), elems_in(x), NULL, rstd, n, c);
#pragma omp parallel for schedule(static) if (n * c > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++)
        rmsnorm_dx_row(elems(dx) + i * c, elems_in(dout) + i * c, elems_in(x) + i * c, elems_in(weight),
                       rstd[i], c);
}

void FILL(norm)(struct kernels *table)
{
    table->layernorm_forward = layernorm_forward;
    table->layernorm_backward = layernorm_backward;
    table->rmsnorm_forward = rmsnorm_forward;
    table->rmsnorm_backward = rmsnorm_backward;
}
