/* dropout: zeros by hash, so that nothing is kept for the backward pass. */
#include "kernels/cpu/elem.h"
#include "kernels/cpu/fill.h"
#include "kernels/cpu/hash.h"
#include "kernels/cpu/parts.h"

/* out may be x. What is dropped is multiplied by 0, not replaced: a NaN shows. */
static void drop_row(elem *out, const elem *x, uint64_t row, uint32_t threshold, real scale, size_t c)
{
    uint32_t low = (uint32_t)row, high = (uint32_t)(row >> 32);
#pragma omp simd
    for (size_t j = 0; j < c; j++) {
        real factor = hash_column(low, high, (uint32_t)j) >= threshold ? scale : 0;
        out[j] = elem_store(elem_load(x[j]) * factor);
    }
}

static void dropout(act *out, const act *x, const struct kernel_dropout *dropout, size_t n, size_t c)
{
    bool drops = dropout && dropout->rate > 0;
    uint32_t threshold = drops ? hash_threshold(dropout->rate) : 0;
    real scale = drops ? (real)(1 / (1 - dropout->rate)) : 1;
#pragma omp parallel for schedule(static) if (n * c > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++) {
        elem *to = elems(out) + i * c;
        const elem *from = elems_in(x) + i * c;
        if (drops)
            drop_row(to, from, hash_row(dropout->key, dropout->rows[i]), threshold, scale, c);
        else if (to != from)
            memcpy(to, from, c * sizeof *to);
    }
}

void FILL(dropout)(struct kernels *table)
{
    table->dropout = dropout;
}
