/* dropout: zeros by hash, so that nothing is kept for the backward pass. */
#include "kernels/cpu/drop.h"
#include "kernels/cpu/elem.h"
#include "kernels/cpu/fill.h"
#include "kernels/cpu/parts.h"

/* out may be x */
static void drop_row(elem *out, const elem *x, struct drop drop, uint64_t row, size_t c)
{
    uint32_t low = (uint32_t)row, high = (uint32_t)(row >> 32);
#pragma omp simd
    for (size_t j = 0; j < c; j++)
        out[j] = elem_store(elem_load(x[j]) * drop_factor(&drop, low, high, j));
}

static void dropout(act *out, const act *x, const struct kernel_dropout *dropout, size_t n, size_t c)
{
    struct drop drop = drop_of(dropout);
#pragma omp parallel for schedule(static) if (n * c > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++) {
        elem *to = elems(out) + i * c;
        const elem *from = elems_in(x) + i * c;
        if (drop.any)
            drop_row(to, from, drop, hash_row(dropout->key, dropout->rows[i]), c);
        else if (to != from)
            memcpy(to, from, c * sizeof *to);
    }
}

void FILL(dropout)(struct kernels *table)
{
    table->dropout = dropout;
}
