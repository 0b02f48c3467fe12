/* dtype: the number types of tensor files, and the way from and to float.
 *
 * To a narrower type numbers are rounded to the nearest, ties to even; what is too large for F16 becomes infinite, NaN stays NaN. */
#ifndef BELAY_CHECKPOINT_DTYPE_H
#define BELAY_CHECKPOINT_DTYPE_H

#include <stdbool.h>
#include <stddef.h>

enum dtype {
    DTYPE_F32,
    DTYPE_BF16,
    DTYPE_F16,
    DTYPE_F64,
    DTYPE_OTHER /* a type that is known by its size only: integers, truth values, 8-bit floats */
};

/* The type called so in safetensors files ("F32", "I64", …) and the bytes of one number; false when there is no such type. */
bool dtype_of_name(const char *name, enum dtype *type, size_t *bytes);
/* "F32", "BF16", "F16" or "F64". */
const char *dtype_name(enum dtype type);
/* Bytes of one number of F32, BF16, F16 or F64. */
size_t dtype_bytes(enum dtype type);

/* n numbers of type F32, BF16, F16 or F64, little endian and of any alignment, from and to float. */
void dtype_to_float(enum dtype type, const void *in, float *out, size_t n);
void dtype_from_float(enum dtype type, const float *in, void *out, size_t n);

#endif
