/* safetensors: reads and writes the format of https://github.com/huggingface/safetensors: eight bytes of little endian header length, a
 * JSON header, then the tensors without gaps.
 *
 * A file that was opened has been checked as the reference implementation does: known types, sizes that fit shapes, and tensors that fill
 * the file without hole, overlap or rest. Numbers are floats in memory whatever they are in the file. */
#ifndef BELAY_CHECKPOINT_SAFETENSORS_H
#define BELAY_CHECKPOINT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "checkpoint/box.h"
#include "checkpoint/digest.h"
#include "checkpoint/dtype.h"
#include "common/err.h"

#define SAFETENSORS_DIMS     8
#define SAFETENSORS_NAME_MAX 127

struct safetensors_tensor {
    char name[SAFETENSORS_NAME_MAX + 1];
    enum dtype type;
    size_t shape[SAFETENSORS_DIMS], dims;
    uint64_t from,
        to; /* where its bytes lie behind the header; filled in by safetensors_create and safetensors_open */
};

/* ---- writing ---- */

/* Places the tensors one behind the other (from, to) and returns what stands before them in a file, *len bytes; free(). */
char *safetensors_layout(struct safetensors_tensor *tensors, size_t count, const char *key, const char *value,
                         size_t *len);

struct safetensors_writer;

/* Makes a new file that is to have these tensors (types F32, BF16, F16 or F64) in this order, borrowed until the end; a pair of strings goes
 * to "__metadata__" when key is not NULL. NULL with a sentence. */
struct safetensors_writer *safetensors_create(const char *path, struct safetensors_tensor *tensors,
                                              size_t count, const char *key, const char *value,
                                              struct err *err);
/* The next n numbers, of one tensor after the other. 0 or -1; the first sentence is kept for safetensors_finish, too. */
int safetensors_put(struct safetensors_writer *writer, const float *x, size_t n);
/* Ends the file: fsyncs it, tells its size and hash, frees the writer. When anything failed, or a number is missing or too many, the file is
 * removed. 0, or -1 with a sentence. */
int safetensors_finish(struct safetensors_writer *writer, uint64_t *bytes, char hash[DIGEST_SIZE],
                       struct err *err);

/* ---- reading ---- */

struct safetensors;

/* Opens a file and checks its header. NULL with a sentence. */
struct safetensors *safetensors_open(const char *path, struct err *err);
void safetensors_close(struct safetensors *file);

/* Its tensors, in the order of their names. */
size_t safetensors_count(const struct safetensors *file);
const struct safetensors_tensor *safetensors_at(const struct safetensors *file, size_t i);
/* NULL when there is none of that name. */
const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name);

/* Of rows of which columns are wanted, up to so many bytes between the parts of two rows are read along: a page, which the file system reads as
 * a whole in any case. */
#define SAFETENSORS_GAP 4096

/* Reads a box of a tensor of one or two dimensions: element (r,c) of the box goes to out[r*stride + c]. Reads only the box, but for such gaps.
 * 0, or -1 with a sentence, also when the box does not lie within the tensor or the type holds no real numbers. */
int safetensors_read(struct safetensors *file, const struct safetensors_tensor *t, const struct box *box,
                     float *out, size_t stride, struct err *err);

#endif
