/* norm: LayerNorm and RMSNorm. Rows are independent, so dx goes by rows; dweight and dbias sum down the rows and go by columns. */
#include "kernels/cpu/parts.h"
#include "kernels/cpu/vmath.h"
#include "kernels/kernels.h"

static real sum_row(const real *x, size_t c)
{
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < c; j++)
        sum += x[j];
    return sum;
}

/* sum of (x - center)^2 */
static real sum_square_row(const real *x, real center, size_t c)
{
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < c; j++)
        sum += (x[j] - center) * (x[j] - center);
    return sum;
}

static void layernorm_row(real *restrict out, const real *x, const real *weight, const real *bias, real mean,
                          real rstd, size_t c)
{
    for (size_t j = 0; j < c; j++)
        out[j] = (x[j] - mean) * rstd * weight[j] + bias[j];
}

void kernel_layernorm_forward(real *out, real *mean, real *rstd, const real *x, const real *weight,
                              const real *bias, real eps, size_t n, size_t c)
{
#pragma omp parallel for schedule(static) if (n * c > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++) {
        const real *row = x + i * c;
        mean[i] = sum_row(row, c) / (real)c;
        rstd[i] = 1 / real_sqrt(sum_square_row(row, mean[i], c) / (real)c + eps);
        layernorm_row(out + i * c, row, weight, bias, mean[i], rstd[i], c);
    }
}

/* With y = (x - mean) * rstd and g = dout * weight: dx = rstd * (g - mean(g) - y * mean(g y)). */
static void layernorm_dx_row(real *restrict dx, const real *dout, const real *x, const real *weight,
                             real mean, real rstd, size_t c)
{
    real g_sum = 0, gy_sum = 0;
#pragma omp simd reduction(+ : g_sum, gy_sum)
    for (size_t j = 0; j < c; j++) {
        real g = dout[j] * weight[j];
        g_sum += g;
        gy_sum += g * (x[j] - mean) * rstd;
    }
    real g_mean = g_sum / (real)c, gy_mean = gy_sum / (real)c;
    for (size_t j = 0; j < c; j++)
        dx[j] += rstd * (dout[j] * weight[j] - g_mean - (x[j] - mean) * rstd * gy_mean);
}

/* dweight, dbias (width) += for `width` <= PARTS_COLUMNS columns; mean and dbias are NULL for RMSNorm */
static void norm_columns(real *dweight, real *dbias, const real *dout, const real *x, const real *mean,
                         const real *rstd, size_t n, size_t c, size_t width)
{
    real weight_sum[PARTS_COLUMNS] = {0}, bias_sum[PARTS_COLUMNS] = {0};
    for (size_t i = 0; i < n; i++) {
        real center = mean ? mean[i] : 0;
#pragma omp simd
        for (size_t j = 0; j < width; j++) {
            weight_sum[j] += dout[i * c + j] * (x[i * c + j] - center) * rstd[i];
            bias_sum[j] += dout[i * c + j];
        }
    }
    for (size_t j = 0; j < width; j++) {
        dweight[j] += weight_sum[j];
        if (dbias)
            dbias[j] += bias_sum[j];
    }
}

static void norm_weights(real *dweight, real *dbias, const real *dout, const real *x, const real *mean,
                         const real *rstd, size_t n, size_t c)
{
#pragma omp parallel for schedule(static) if (n * c > PARTS_SERIAL)
    for (size_t j = 0; j < c; j += PARTS_COLUMNS)
        norm_columns(dweight + j, dbias ? dbias + j : NULL, dout + j, x + j, mean, rstd, n, c,
                     c - j < PARTS_COLUMNS ? c - j : PARTS_COLUMNS);
}

void kernel_layernorm_backward(real *dx, real *dweight, real *dbias, const real *dout, const real *x,
                               const real *weight, const real *mean, const real *rstd, size_t n, size_t c)
{
    norm_weights(dweight, dbias, dout, x, mean, rstd, n, c);
#pragma omp parallel for schedule(static) if (n * c > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++)
        layernorm_dx_row(dx + i * c, dout + i * c, x + i * c, weight, mean[i], rstd[i], c);
}

static void rmsnorm_row(real *restrict out, const real *x, const real *weight, real rstd, size_t c)
{
    for (size_t j = 0; j < c; j++)
        out[j] = x[j] * rstd * weight[j];
}

void kernel_rmsnorm_forward(real *out, real *rstd, const real *x, const real *weight, real eps, size_t n,
                            size_t c)
{
#pragma omp parallel for schedule(static) if (n * c > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++) {
        rstd[i] = 1 / real_sqrt(sum_square_row(x + i * c, 0, c) / (real)c + eps);
        rmsnorm_row(out + i * c, x + i * c, weight, rstd[i], c);
    }
}

/* With y = x * rstd and g = dout * weight: dx = rstd * (g - y * mean(g y)). */
static void rmsnorm_dx_row(real *restrict dx, const real *dout, const real *x, const real *weight, real rstd,
                           size_t c)
{
    real gy_sum = 0;
#pragma omp simd reduction(+ : gy_sum)
    for (size_t j = 0; j < c; j++)
        gy_sum += dout[j] * weight[j] * x[j] * rstd;
    real gy_mean = gy_sum / (real)c;
    for (size_t j = 0; j < c; j++)
        dx[j] += rstd * (dout[j] * weight[j] - x[j] * rstd * gy_mean);
}

void kernel_rmsnorm_backward(real *dx, real *dweight, const real *dout, const real *x, const real *weight,
                             const real *rstd, size_t n, size_t c)
{
    norm_weights(dweight, NULL, dout, x, NULL, rstd, n, c);
#pragma omp parallel for schedule(static) if (n * c > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++)
        rmsnorm_dx_row(dx + i * c, dout + i * c, x + i * c, weight, rstd[i], c);
}
