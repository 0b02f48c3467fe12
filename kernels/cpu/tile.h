/* tile: the product of small blocks that fit the registers: what attention is made of, where a call of the matrix library would take longer
 * to begin than to compute. Operands lie in scratch, padded to whole blocks. */
#ifndef BELAY_KERNELS_CPU_TILE_H
#define BELAY_KERNELS_CPU_TILE_H

#include <stdbool.h>

#include "kernels/cpu/vec.h"

/* A block of the result: 16 (or 8) vectors of sums, which keep both multipliers busy and leave registers for the operands. */
#define TILE_ROWS    (VEC_BYTES == 64 ? (size_t)8 : (size_t)4)
#define TILE_COLUMNS (2 * VEC_LANES)

/* c (TILE_ROWS, TILE_COLUMNS; rows c_stride apart) = a b, or += when accumulate: the sum over p < depth of a[i*a_row + p*a_step] *
 * b[p*b_step + j]. Sums go in the order of p. Inline, so that where a_row and a_step are constants one register points at all of a, and
 * unrolled, so that the sums are registers. */
static inline __attribute__((always_inline)) void tile_block(real *c, size_t c_stride, bool accumulate,
                                                             const real *a, size_t a_row, size_t a_step,
                                                             const real *b, size_t b_step, size_t depth)
{
    vec low[TILE_ROWS], high[TILE_ROWS];
#pragma GCC unroll 8
    for (size_t i = 0; i < TILE_ROWS; i++) {
        low[i] = accumulate ? vec_load(c + i * c_stride) : vec_all(0);
        high[i] = accumulate ? vec_load(c + i * c_stride + VEC_LANES) : vec_all(0);
    }
    for (size_t p = 0; p < depth; p++) {
        vec first = vec_load(b + p * b_step), second = vec_load(b + p * b_step + VEC_LANES);
        const real *column = a + p * a_step;
#pragma GCC unroll 8
        for (size_t i = 0; i < TILE_ROWS; i++) {
            vec x = vec_all(column[i * a_row]);
            low[i] += x * first;
            high[i] += x * second;
        }
    }
#pragma GCC unroll 8
    for (size_t i = 0; i < TILE_ROWS; i++) {
        vec_store(c + i * c_stride, low[i]);
        vec_store(c + i * c_stride + VEC_LANES, high[i]);
    }
}

#endif
