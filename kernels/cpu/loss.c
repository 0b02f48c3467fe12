/* loss: softmax cross-entropy over the vocabulary, one row of logits at a time. The largest logit is taken off first, so that any finite
 * logits give a finite loss; NaN or +Inf among them gives NaN. */
#include <math.h>

#include "kernels/cpu/elemvec.h"
#include "kernels/cpu/fill.h"
#include "kernels/cpu/parts.h"

#define BLOCK 1024

/* NaN is passed over here and found by the sum. */
static real largest(const real *x, size_t v)
{
    vec most = vec_all(-INFINITY);
    size_t j = 0;
    for (; j + VEC_LANES <= v; j += VEC_LANES)
        most = vec_larger(vec_load(x + j), most);
    real out = vec_most(most);
    for (; j < v; j++)
        out = x[j] > out ? x[j] : out;
    return out;
}

static real sum_exp(const real *x, size_t n, real most)
{
    vec sum = vec_all(0);
    size_t j = 0;
    for (; j + VEC_LANES <= n; j += VEC_LANES)
        sum += vec_exp(vec_load(x + j) - most);
    real out = vec_sum(sum);
    for (; j < n; j++)
        out += real_exp(x[j] - most);
    return out;
}

/* Blocks are added in double, so that a large vocabulary costs no precision. */
static real log_sum_exp(const real *x, size_t v)
{
    if (v == 0)
        return -INFINITY;
    real most = largest(x, v);
    double sum = 0;
    for (size_t j = 0; j < v; j += BLOCK)
        sum += (double)sum_exp(x + j, v - j < BLOCK ? v - j : BLOCK, most);
    /* v > 0, and the largest logit adds 1 to the sum */
    /* cppcheck-suppress invalidFunctionArg */
    return most + (real)log(sum);
}

/* The target's column in this part of the vocabulary; v when it is in another. */
static size_t column_of(int32_t target, int32_t first, size_t v)
{
    int64_t column = (int64_t)target - first;
    return column >= 0 && (uint64_t)column < v ? (size_t)column : v;
}

static void cross_entropy_local(real *lse, real *chosen, const real *logits, const int32_t *targets,
                                int32_t first, size_t n, size_t v, size_t stride)
{
#pragma omp parallel for schedule(static) if (n * v > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++) {
        const real *row = logits + i * stride;
        size_t column = column_of(targets[i], first, v);
        bool counts = targets[i] >= 0;
        lse[i] = counts ? log_sum_exp(row, v) : 0;
        chosen[i] = counts && column < v ? row[column] : 0;
    }
}

/* log of the sum of e^x over `parts` numbers, `stride` apart */
static real combine_lse(const real *x, size_t parts, size_t stride)
{
    real most = -INFINITY;
    double sum = 0;
    for (size_t p = 0; p < parts; p++)
        most = x[p * stride] > most ? x[p * stride] : most;
    for (size_t p = 0; p < parts;
         p++) /* a part without columns adds nothing, even where the others are broken */
        sum += x[p * stride] == -INFINITY ? 0 : exp((double)x[p * stride] - (double)most);
    /* nothing anywhere: -Inf, as it should be */
    /* cppcheck-suppress invalidFunctionArg */
    return parts == 1 ? x[0] : most + (real)log(sum);
}

static void cross_entropy_combine(double *sum, real *losses, real *lse, const real *all,
                                  const int32_t *targets, size_t parts, size_t n)
{
    double total = 0;
    for (size_t i = 0; i < n; i++) {
        real chosen = 0;
        for (size_t p = 0; p < parts; p++)
            chosen += all[(2 * p + 1) * n + i];
        lse[i] = targets[i] < 0 ? 0 : combine_lse(all + i, parts, 2 * n);
        losses[i] = targets[i] < 0 ? 0 : lse[i] - chosen;
        total += (double)losses[i];
    }
    *sum += total;
}

/* out may begin where x does: an element is never written before it and those before it are read. */
static void softmax_row(elem *out, const real *x, real lse, real scale, size_t v)
{
    size_t j = 0;
    for (; j + VEC_LANES <= v; j += VEC_LANES)
        elemvec_store(out + j, vec_exp(vec_load(x + j) - lse) * scale);
    for (; j < v; j++)
        out[j] = elem_store(real_exp(x[j] - lse) * scale);
}

static void gradient_row(elem *out, size_t dstride, const real *x, real lse, size_t column, real scale,
                         size_t v)
{
    real target = column < v ? real_exp(x[column] - lse) - 1 : 0;
    softmax_row(out, x, lse, scale, v);
    if (column < v)
        out[column] = elem_store(target * scale);
    memset(out + v, 0, (dstride - v) * sizeof *out);
}

static void cross_entropy_backward(act *dlogits, size_t dstride, const real *logits, size_t stride,
                                   const real *lse, const int32_t *targets, int32_t first, real scale,
                                   size_t n, size_t v)
{
#pragma omp parallel for schedule(static) if (n * v > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++) {
        elem *out = elems(dlogits) + i * dstride;
        if (targets[i] < 0)
            memset(out, 0, dstride * sizeof *out);
        else
            gradient_row(out, dstride, logits + i * stride, lse[i], column_of(targets[i], first, v), scale,
                         v);
    }
}

void FILL(loss)(struct kernels *table)
{
    table->cross_entropy_local = cross_entropy_local;
    table->cross_entropy_combine = cross_entropy_combine;
    table->cross_entropy_backward = cross_entropy_backward;
}
