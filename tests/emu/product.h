/* product: the matrix product that the emulated cuBLASLt computes. */
#ifndef BELAY_TESTS_EMU_PRODUCT_H
#define BELAY_TESTS_EMU_PRODUCT_H

#include <stddef.h>
#include <stdint.h>

#include <library_types.h>

namespace emu
{
/* A column-major matrix in memory. */
struct matrix {
    cudaDataType type;
    size_t rows, cols, ld;
    void *at;
};

size_t element_size(cudaDataType type);
/* Bytes from the first element to behind the last. */
size_t matrix_bytes(const matrix &m);
float load(cudaDataType type, const void *from, size_t i);
/* To nearest; numbers of 8 bits saturate. */
void store(cudaDataType type, void *to, size_t i, float x);

/* out (m,n; column-major, dense) = op(a) (m,k) op(b) (k,n), each sum in float in the order of k. */
void multiply(float *out, const matrix &a, bool transpose_a, const matrix &b, bool transpose_b);
/* out[i] = the sum over k of op(a)[i,k] */
void sum_rows(float *out, const matrix &a, bool transposed);
} // namespace emu

#endif
