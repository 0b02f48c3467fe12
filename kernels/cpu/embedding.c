/* embedding: rows of a table by token, plus rows of a table by position. Backward, each thread owns some columns of the tables and goes
 * through the tokens in order: two tokens with one row never meet. */
#include "kernels/cpu/parts.h"
#include "kernels/kernels.h"

static void embed_row(real *restrict out, const real *token, const real *position, size_t c)
{
    for (size_t j = 0; j < c; j++)
        out[j] = token[j] + (position ? position[j] : 0);
}

void kernel_embedding_forward(real *out, const int32_t *tokens, const real *wte, const real *wpe, size_t b,
                              size_t t, size_t c)
{
#pragma omp parallel for schedule(static) if (b * t * c > PARTS_SERIAL)
    for (size_t i = 0; i < b * t; i++)
        embed_row(out + i * c, wte + (size_t)tokens[i] * c, wpe ? wpe + i % t * c : NULL, c);
}

static void add_to(real *restrict out, const real *restrict x, size_t width)
{
    for (size_t j = 0; j < width; j++)
        out[j] += x[j];
}

void kernel_embedding_backward(real *dwte, real *dwpe, const real *dout, const int32_t *tokens, size_t b,
                               size_t t, size_t c)
{
#pragma omp parallel for schedule(static) if (b * t * c > PARTS_SERIAL)
    for (size_t j = 0; j < c; j += PARTS_COLUMNS) {
        size_t width = c - j < PARTS_COLUMNS ? c - j : PARTS_COLUMNS;
        for (size_t i = 0; i < b * t; i++) {
            add_to(dwte + (size_t)tokens[i] * c + j, dout + i * c + j, width);
            if (dwpe)
                add_to(dwpe + i % t * c + j, dout + i * c + j, width);
        }
    }
}
