/* loss: softmax cross-entropy over the vocabulary, one row of logits at a time. The largest logit is taken off first, so that any finite
 * logits give a finite loss; NaN or +Inf among them gives NaN. */
#include <math.h>

#include "kernels/cpu/parts.h"
#include "kernels/cpu/vmath.h"
#include "kernels/kernels.h"

#define BLOCK 1024

/* NaN is passed over here and found by the sum. */
static real largest(const real *x, size_t v)
{
    real most = x[0];
#pragma omp simd reduction(max : most)
    for (size_t j = 0; j < v; j++)
        most = x[j] > most ? x[j] : most;
    return most;
}

static real sum_exp(const real *x, size_t n, real most)
{
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < n; j++)
        sum += real_exp(x[j] - most);
    return sum;
}

/* Blocks are added in double, so that a large vocabulary costs no precision. */
static real log_sum_exp(const real *x, size_t v)
{
    real most = largest(x, v);
    double sum = 0;
    for (size_t j = 0; j < v; j += BLOCK)
        sum += (double)sum_exp(x + j, v - j < BLOCK ? v - j : BLOCK, most);
    /* v > 0, and the largest logit adds 1 to the sum */
    /* cppcheck-suppress invalidFunctionArg */
    return most + (real)log(sum);
}

double kernel_cross_entropy_forward(real *losses, real *lse, const real *logits, const int32_t *targets,
                                    size_t n, size_t v, size_t stride)
{
#pragma omp parallel for schedule(static) if (n * v > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++) {
        const real *row = logits + i * stride;
        lse[i] = targets[i] < 0 ? 0 : log_sum_exp(row, v);
        losses[i] = targets[i] < 0 ? 0 : lse[i] - row[targets[i]];
    }
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)losses[i];
    return sum;
}

static void softmax_row(real *x, real lse, real scale, size_t v, size_t stride)
{
#pragma omp simd
    for (size_t j = 0; j < v; j++)
        x[j] = real_exp(x[j] - lse) * scale;
    for (size_t j = v; j < stride; j++)
        x[j] = 0;
}

void kernel_cross_entropy_backward(real *logits, const real *lse, const int32_t *targets, real scale,
                                   size_t n, size_t v, size_t stride)
{
#pragma omp parallel for schedule(static) if (n * v > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++) {
        real *row = logits + i * stride;
        softmax_row(row, lse[i], scale, targets[i] < 0 ? 0 : v, stride);
        if (targets[i] >= 0)
            row[targets[i]] -= scale;
    }
}
