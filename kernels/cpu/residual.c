/* residual: what a block gives joins the stream, in one pass over it. The sum is rounded after each of its steps, as the functions for one
 * step each would do it: what a rank with all rows computes and what several do with theirs is the same, bit by bit. */
#include "kernels/cpu/drop.h"
#include "kernels/cpu/elem.h"
#include "kernels/cpu/fill.h"
#include "kernels/cpu/parts.h"

static const struct kernels *k; /* the table that this is part of: its norms */

/* One step, rounded. */
static inline real rounded(real x)
{
    return elem_load(elem_store(x));
}

/* sum may be in or x; bias may be NULL */
static void join_row(elem *sum, const elem *in, const elem *x, const elem *bias, size_t c)
{
    if (!bias) {
#pragma omp simd
        for (size_t j = 0; j < c; j++)
            sum[j] = elem_store(elem_load(in[j]) + elem_load(x[j]));
        return;
    }
#pragma omp simd
    for (size_t j = 0; j < c; j++)
        sum[j] = elem_store(elem_load(in[j]) + rounded(elem_load(x[j]) + elem_load(bias[j])));
}

/* The same with dropout. */
static void join_row_dropped(elem *sum, const elem *in, const elem *x, const elem *bias, struct drop drop,
                             uint64_t row, size_t c)
{
    uint32_t low = (uint32_t)row, high = (uint32_t)(row >> 32);
#pragma omp simd
    for (size_t j = 0; j < c; j++) {
        real added = bias ? rounded(elem_load(x[j]) + elem_load(bias[j])) : elem_load(x[j]);
        sum[j] = elem_store(elem_load(in[j]) + rounded(added * drop_factor(&drop, low, high, j)));
    }
}

static void normalise(const elem *sum, const struct kernel_norm *norm, size_t n, size_t c)
{
    const act *x = (const act *)(const void *)sum;
    if (norm->bias)
        k->layernorm_forward(norm->out, norm->mean, norm->rstd, x, norm->weight, norm->bias, norm->eps, n, c);
    else
        k->rmsnorm_forward(norm->out, norm->rstd, x, norm->weight, norm->eps, n, c);
}

static void residual_forward(act *sum, const act *in, const act *x, const act *bias,
                             const struct kernel_dropout *dropout, const struct kernel_norm *norm, size_t n,
                             size_t c)
{
    struct drop drop = drop_of(dropout);
    const elem *b = bias ? elems_in(bias) : NULL;
#pragma omp parallel for schedule(static) if (n * c > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++) {
        elem *to = elems(sum) + i * c;
        const elem *from = elems_in(in) + i * c, *added = elems_in(x) + i * c;
        if (drop.any)
            join_row_dropped(to, from, added, b, drop, hash_row(dropout->key, dropout->rows[i]), c);
        else
            join_row(to, from, added, b, c);
    }
    if (norm)
        normalise(elems(sum), norm, n, c);
}

void FILL(residual)(struct kernels *table)
{
    k = table;
    table->residual_forward = residual_forward;
}
