/* embedding: rows of a table by token, plus rows of a table by position. Backward, each thread owns some columns of the tables and goes
 * through the tokens in order: two tokens with one row never meet. */
#include "kernels/cpu/elem.h"
#include "kernels/cpu/fill.h"
#include "kernels/cpu/parts.h"

/* Is the token's row in this part of the table? In 64 bits: no token, not even a broken one, wraps into the part. */
static bool inside(int32_t token, int32_t first, size_t rows)
{
    int64_t row = (int64_t)token - first;
    return row >= 0 && (uint64_t)row < rows;
}

static void embedding_forward(act *out, const int32_t *tokens, const act *table, int32_t first, size_t rows,
                              size_t n, size_t c)
{
#pragma omp parallel for schedule(static) if (n * c > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++) {
        elem *row = elems(out) + i * c;
        if (inside(tokens[i], first, rows))
            memcpy(row, elems_in(table) + (size_t)(tokens[i] - first) * c, c * sizeof *row);
        else
            memset(row, 0, c * sizeof *row);
    }
}

static void add_to(real *restrict out, const elem *restrict x, size_t width)
{
    for (size_t j = 0; j < width; j++)
        out[j] += elem_load(x[j]);
}

static void embedding_backward(real *dtable, const act *dout, const int32_t *tokens, int32_t first,
                               size_t rows, size_t n, size_t c)
{
#pragma omp parallel for schedule(static) if (n * c > PARTS_SERIAL)
    for (size_t j = 0; j < c; j += PARTS_COLUMNS) {
        size_t width = c - j < PARTS_COLUMNS ? c - j : PARTS_COLUMNS;
        for (size_t i = 0; i < n; i++) {
            if (inside(tokens[i], first, rows))
                add_to(dtable + (size_t)(tokens[i] - first) * c + j, elems_in(dout) + i * c + j, width);
        }
    }
}

static void add_row(elem *restrict x, const elem *restrict row, size_t c)
{
    for (size_t j = 0; j < c; j++)
        x[j] = elem_store(elem_load(x[j]) + elem_load(row[j]));
}

static void position_forward(act *x, const act *table, const int32_t *positions, size_t n, size_t c)
{
#pragma omp parallel for schedule(static) if (n * c > PARTS_SERIAL)
    for (size_t i = 0; i < n; i++)
        add_row(elems(x) + i * c, elems_in(table) + (size_t)positions[i] * c, c);
}

static void position_backward(real *dtable, const act *dout, const int32_t *positions, size_t rows, size_t n,
                              size_t c)
{
    embedding_backward(dtable, dout, positions, 0, rows, n, c);
}

void FILL(embedding)(struct kernels *table)
{
    table->embedding_forward = embedding_forward;
    table->embedding_backward = embedding_backward;
    table->position_forward = position_forward;
    table->position_backward = position_backward;
}
