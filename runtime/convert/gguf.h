/* gguf: writes files of GGUF version 3 (github.com/ggml-org/ggml, docs/gguf.md): a header, keys with values, the list of tensors, then the tensors,
 * each at a multiple of 32 bytes.
 *
 * In this order: gguf_new, any number of gguf_set_*, gguf_add_tensor for each tensor, gguf_open, gguf_put for all numbers of one tensor after the
 * other, gguf_finish. */
#ifndef BELAY_RUNTIME_GGUF_H
#define BELAY_RUNTIME_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint/dtype.h"
#include "common/err.h"

#define GGUF_ALIGNMENT 32
#define GGUF_NAME_MAX  63 /* bytes of a tensor's name that ggml keeps */

struct gguf;

struct gguf *gguf_new(void);

void gguf_set_u32(struct gguf *g, const char *key, uint32_t value);
void gguf_set_f32(struct gguf *g, const char *key, float value);
void gguf_set_bool(struct gguf *g, const char *key, bool value);
void gguf_set_str(struct gguf *g, const char *key, const char *value);
void gguf_set_i32s(struct gguf *g, const char *key, const int32_t *values, size_t count);
/* An array of strings that are told one by one: exactly `count` times gguf_add_str must follow. */
void gguf_set_strs(struct gguf *g, const char *key, size_t count);
void gguf_add_str(struct gguf *g, const char *value);

/* A row-major tensor of up to three dimensions, the last the innermost; F32, BF16, F16 or F64. */
void gguf_add_tensor(struct gguf *g, const char *name, enum dtype type, const size_t *shape, size_t dims);

/* Makes the file and writes all but the numbers. What fails is kept for gguf_finish. */
void gguf_open(struct gguf *g, const char *path);
/* The next n numbers, none beyond the end of the tensor that they begin in. 0 or -1. */
int gguf_put(struct gguf *g, const float *x, size_t n);
/* Ends the file, fsynced, and tells its size; frees g. When anything failed, or a number is missing, the file is removed. 0, or -1 with a
 * sentence. */
int gguf_finish(struct gguf *g, uint64_t *bytes, struct err *err);

#endif
