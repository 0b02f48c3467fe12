/* checkpoint: the content of one checkpoint folder: written in shards, verified, and loaded for any number of ranks.
 *
 * In data parallelism every rank holds everything; rank r of n writes rows rows*r/n to rows*(r+1)/n of each tensor, so nothing is written
 * twice and a load puts the same bits back whatever n was. Nothing here communicates: rank and size are arguments. */
#ifndef BELAY_RUNTIME_CHECKPOINT_H
#define BELAY_RUNTIME_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/model/model.h"

struct checkpoint_array {
    char name[96];
    size_t shape[SAFETENSORS_DIMS], dims;
    float *data; /* borrowed */
};

/* The arrays of a model and its AdamW state: parameters under their own names, moments as "adam.m.NAME" and "adam.v.NAME".
 * In fp32 the parameters are their own master copy. A fresh array of *count; free() it. */
struct checkpoint_array *checkpoint_arrays(const struct model_tensor *tensors, size_t n, float *parameters,
                                           float *first, float *second, size_t *count);

/* Writes folder/rank-<rank>.safetensors, fsynced, and fills *out for the manifest. 0, or -1 with a sentence. */
int checkpoint_write_shard(const char *folder, int rank, int size, const struct checkpoint_array *arrays,
                           size_t count, struct manifest_file *out, struct err *err);

/* Writes folder/manifest.json over shards that all `size` ranks have written; files (size). Fsyncs the folder. 0, or -1 with a sentence. */
int checkpoint_seal(const char *folder, int size, const struct checkpoint_array *arrays, size_t count,
                    const struct manifest_state *state, const struct manifest_file *files, struct err *err);

/* Checks the manifest, that every file has its size, and the hash of files part, part+parts, … (0, 1 = all; parts 0 = no hash at all).
 * Fills *state. 0, or -1 with a sentence naming the file and what is wrong with it. */
int checkpoint_verify(const char *folder, int part, int parts, struct manifest_state *state, struct err *err);

enum checkpoint_result { CHECKPOINT_ERROR = -1, CHECKPOINT_OK = 0, CHECKPOINT_OTHER_MODEL = 1 };

/* Reads a verified checkpoint into the arrays. CHECKPOINT_OTHER_MODEL (nothing read) when its tensors have other names or shapes. */
enum checkpoint_result checkpoint_load(const char *folder, const struct checkpoint_array *arrays,
                                       size_t count, struct err *err);

#endif
