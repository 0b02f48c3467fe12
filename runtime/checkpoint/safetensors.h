/* safetensors: writes and reads the format of https://github.com/huggingface/safetensors: eight bytes of little endian header length, a
 * JSON header, then the tensors without gaps. Only F32 is written and read; files have any number of tensors of at most three dimensions. */
#ifndef BELAY_RUNTIME_SAFETENSORS_H
#define BELAY_RUNTIME_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "runtime/checkpoint/digest.h"

#define SAFETENSORS_DIMS 3

struct safetensors_entry {
    char name[96];
    size_t shape[SAFETENSORS_DIMS];
    size_t dims;
    const float *data;
};

/* Writes a file with these tensors in this order, fsyncs it, and tells its size and hash. `metadata` becomes "__metadata__"
 * {"belay": metadata} when not NULL. A file that could not be written whole is removed. 0, or -1 with a sentence. */
int safetensors_write(const char *path, const struct safetensors_entry *entries, size_t count,
                      const char *metadata, uint64_t *bytes, char hash[DIGEST_SIZE], struct err *err);

struct safetensors;

/* Opens a file and checks its header: offsets within the file, sizes that fit the shapes. NULL with a sentence. */
struct safetensors *safetensors_open(const char *path, struct err *err);
void safetensors_close(struct safetensors *file);

/* Reads the tensor named so into out; it must have exactly this shape. 0, or -1 with a sentence. */
int safetensors_read(struct safetensors *file, const char *name, const size_t *shape, size_t dims, float *out,
                     struct err *err);

#endif
