/* gemm: matrix products through OpenBLAS. In fp32 an operand is what the library takes. bf16 operands become float block by block, are
 * multiplied as float, and the sums are rounded once, when a block of the result is whole. */
#include "kernels/cpu/blas.h"
#include "kernels/cpu/elem.h"
#include "kernels/cpu/fill.h"
#include "kernels/cpu/parts.h"
#include "kernels/cpu/room.h"

/* Logits at once: 32 Mi, large enough for the matrix library. */
#define LOGITS ((size_t)32 << 20)

#if ELEM_IS_REAL
static struct blas_matrix plain(struct kernel_matrix x)
{
    return (struct blas_matrix){elems_in(x.data), x.stride, x.transposed};
}

static void gemm_real(size_t m, size_t n, size_t k, struct kernel_matrix a, struct kernel_matrix b,
                      bool accumulate, real *c, size_t c_stride)
{
    blas_gemm(m, n, k, plain(a), plain(b), accumulate, c, c_stride);
}

static void gemm(size_t m, size_t n, size_t k, struct kernel_matrix a, struct kernel_matrix b,
                 bool accumulate, act *c, size_t c_stride)
{
    blas_gemm(m, n, k, plain(a), plain(b), accumulate, elems(c), c_stride);
}

#else

/* Rows, columns and depth of a block: three of 4 MiB, so large that making them float is little beside multiplying them. */
#define BLOCK 1024

struct room {
    real *a, *b, *c; /* (BLOCK, BLOCK) */
};

static struct room room_of_blocks(void)
{
    real *x = room_take(3 * (size_t)BLOCK * BLOCK);
    return (struct room){x, x + (size_t)BLOCK * BLOCK, x + 2 * (size_t)BLOCK * BLOCK};
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void load_rows(real *restrict out, size_t width, const elem *x, size_t stride, size_t rows)
{
#pragma omp parallel for schedule(static) if (rows * width > PARTS_SERIAL)
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < width; j++)
            out[i * width + j] = elem_load(x[i * stride + j]);
    }
}

/* The block (rows, columns) of x at (i,j) as reals, laid out as x is. */
static struct blas_matrix block(real *out, struct kernel_matrix x, size_t i, size_t j, size_t rows,
                                size_t columns)
{
    const elem *from = elems_in(x.data) + (x.transposed ? j * x.stride + i : i * x.stride + j);
    size_t height = x.transposed ? columns : rows, width = x.transposed ? rows : columns;
    load_rows(out, width, from, x.stride, height);
    return (struct blas_matrix){out, width, x.transposed};
}

/* One block of the result in c (rows, columns, c_stride). */
static void product(real *c, size_t c_stride, bool accumulate, struct kernel_matrix a, struct kernel_matrix b,
                    size_t i, size_t j, size_t rows, size_t columns, size_t k)
{
    struct room r = room_of_blocks();
    for (size_t p = 0; p < k; p += BLOCK) {
        size_t depth = smaller(BLOCK, k - p);
        struct blas_matrix x = block(r.a, a, i, p, rows, depth), y = block(r.b, b, p, j, depth, columns);
        blas_gemm(rows, columns, depth, x, y, accumulate || p > 0, c, c_stride);
    }
    if (k == 0)
        blas_gemm(rows, columns, 0, (struct blas_matrix){0}, (struct blas_matrix){0}, accumulate, c,
                  c_stride);
}

static void gemm_real(size_t m, size_t n, size_t k, struct kernel_matrix a, struct kernel_matrix b,
                      bool accumulate, real *c, size_t c_stride)
{
    for (size_t i = 0; i < m; i += BLOCK) {
        for (size_t j = 0; j < n; j += BLOCK)
            product(c + i * c_stride + j, c_stride, accumulate, a, b, i, j, smaller(BLOCK, m - i),
                    smaller(BLOCK, n - j), k);
    }
}

static void store_rows(elem *out, size_t stride, const real *x, size_t rows, size_t width)
{
#pragma omp parallel for schedule(static) if (rows * width > PARTS_SERIAL)
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < width; j++)
            out[i * stride + j] = elem_store(x[i * width + j]);
    }
}

static void gemm(size_t m, size_t n, size_t k, struct kernel_matrix a, struct kernel_matrix b,
                 bool accumulate, act *c, size_t c_stride)
{
    real *sums = room_of_blocks().c;
    for (size_t i = 0; i < m; i += BLOCK) {
        for (size_t j = 0; j < n; j += BLOCK) {
            size_t rows = smaller(BLOCK, m - i), columns = smaller(BLOCK, n - j);
            elem *out = elems(c) + i * c_stride + j;
            if (accumulate)
                load_rows(sums, columns, out, c_stride, rows);
            product(sums, columns, accumulate, a, b, i, j, rows, columns, k);
            store_rows(out, c_stride, sums, rows, columns);
        }
    }
}
#endif

void FILL(gemm)(struct kernels *table)
{
    table->logits = LOGITS;
    table->describe = blas_describe;
    table->gemm = gemm;
    table->gemm_real = gemm_real;
}
