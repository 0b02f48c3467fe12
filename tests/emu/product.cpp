/* product: see product.h.
 *
 * Both operands are first turned into floats in panels: of op(a) PANEL rows beside each other for each k, of op(b) COLUMNS columns. Then
 * a tile of PANEL x COLUMNS sums stays in registers while k runs (Goto, van de Geijn, "Anatomy of High-Performance Matrix
 * Multiplication", 2008, without its blocking for caches: matrices are small here). */
#include "tests/emu/product.h"

#include <string.h>

#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#define PANEL   16
#define COLUMNS 4

namespace emu
{
size_t element_size(cudaDataType type)
{
    return type == CUDA_R_32F ? 4 : type == CUDA_R_16BF ? 2 : 1;
}

size_t matrix_bytes(const matrix &m)
{
    return m.rows && m.cols ? ((m.cols - 1) * m.ld + m.rows) * element_size(m.type) : 0;
}

float load(cudaDataType type, const void *from, size_t i)
{
    float wide;
    __nv_bfloat16 narrow;
    switch (type) {
    case CUDA_R_32F:
        memcpy(&wide, (const char *)from + i * 4, 4);
        return wide;
    case CUDA_R_16BF:
        memcpy(&narrow, (const char *)from + i * 2, 2);
        return __bfloat162float(narrow);
    case CUDA_R_8F_E4M3:
        return emu_fp8_to_float(((const unsigned char *)from)[i], __NV_E4M3);
    default:
        return emu_fp8_to_float(((const unsigned char *)from)[i], __NV_E5M2);
    }
}

void store(cudaDataType type, void *to, size_t i, float x)
{
    __nv_bfloat16 narrow;
    switch (type) {
    case CUDA_R_32F:
        memcpy((char *)to + i * 4, &x, 4);
        break;
    case CUDA_R_16BF:
        narrow = __float2bfloat16_rn(x);
        memcpy((char *)to + i * 2, &narrow, 2);
        break;
    case CUDA_R_8F_E4M3:
        ((unsigned char *)to)[i] = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
        break;
    default:
        ((unsigned char *)to)[i] = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2);
    }
}

/* A column as floats. */
__attribute__((optimize("O3"))) static void load_column(float *out, const matrix &m, size_t column)
{
    const char *from = (const char *)m.at + column * m.ld * element_size(m.type);
    const uint16_t *narrow = (const uint16_t *)(const void *)from;
    uint32_t wide;
    if (m.type == CUDA_R_32F)
        memcpy(out, from, m.rows * sizeof *out);
    else if (m.type == CUDA_R_16BF)
        for (size_t i = 0; i < m.rows; i++) {
            wide = (uint32_t)narrow[i] << 16;
            memcpy(&out[i], &wide, sizeof wide);
        }
    else
        for (size_t i = 0; i < m.rows; i++)
            out[i] = load(m.type, from, i);
}

/* Panels of `width` rows of op(m): out[row / width][k][row % width], zeros behind the last row. */
static std::vector<float> pack(const matrix &m, bool transposed, size_t width)
{
    size_t rows = transposed ? m.cols : m.rows, depth = transposed ? m.rows : m.cols;
    std::vector<float> out((rows + width - 1) / width * width * depth), column(m.rows);
    for (size_t j = 0; j < m.cols; j++) {
        load_column(column.data(), m, j);
        if (transposed) { /* the column is a row of op(m) */
            float *to = &out[j / width * width * depth + j % width];
            for (size_t k = 0; k < depth; k++)
                to[k * width] = column[k];
        } else
            for (size_t i = 0; i < rows; i += width)
                memcpy(&out[i * depth + j * width], &column[i],
                       (rows - i < width ? rows - i : width) * sizeof column[i]);
    }
    return out;
}

typedef float vector __attribute__((vector_size(32), aligned(4), may_alias));
#define LANES 8

/* sums[j][i] = the sum over k of a[k][i] b[k][j] */
__attribute__((target_clones("avx2", "default"), optimize("O3"))) static void
tile(float *sums, const float *a, const float *b, size_t depth)
{
    vector s[COLUMNS][PANEL / LANES] = {};
    for (size_t k = 0; k < depth; k++)
        for (size_t j = 0; j < COLUMNS; j++)
            for (size_t i = 0; i < PANEL / LANES; i++)
                s[j][i] += *(const vector *)(a + k * PANEL + i * LANES) * b[k * COLUMNS + j];
    memcpy(sums, s, sizeof s);
}

void multiply(float *out, const matrix &a, bool transpose_a, const matrix &b, bool transpose_b)
{
    size_t m = transpose_a ? a.cols : a.rows, depth = transpose_a ? a.rows : a.cols;
    size_t n = transpose_b ? b.rows : b.cols;
    std::vector<float> left = pack(a, transpose_a, PANEL), right = pack(b, !transpose_b, COLUMNS);
    float sums[COLUMNS * PANEL];
    for (size_t j = 0; j < n; j += COLUMNS)
        for (size_t i = 0; i < m; i += PANEL) {
            tile(sums, &left[i * depth], &right[j * depth], depth);
            for (size_t c = 0; c < COLUMNS && j + c < n; c++)
                memcpy(out + (j + c) * m + i, sums + c * PANEL,
                       (m - i < PANEL ? m - i : PANEL) * sizeof(float));
        }
}

void sum_rows(float *out, const matrix &a, bool transposed)
{
    size_t rows = transposed ? a.cols : a.rows;
    std::vector<float> column(a.rows);
    for (size_t i = 0; i < rows; i++)
        out[i] = 0;
    for (size_t j = 0; j < a.cols; j++) {
        load_column(column.data(), a, j);
        for (size_t i = 0; i < a.rows; i++)
            out[transposed ? j : i] += column[i];
    }
}
} // namespace emu
