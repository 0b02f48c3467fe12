/* manifest: `manifest.json` of a checkpoint: whose it is, where in the data it stands, and which rows of which tensor are in which file.
 *
 * A manifest that was read has been checked: its own hash, plain file names, and that the slices of each tensor cover all its rows
 * exactly once. docs/checkpoint-format.md describes the file. */
#ifndef BELAY_RUNTIME_MANIFEST_H
#define BELAY_RUNTIME_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "runtime/checkpoint/digest.h"
#include "runtime/checkpoint/safetensors.h"

#define MANIFEST_FORMAT    1
#define MANIFEST_FILE_NAME "manifest.json"
#define MANIFEST_JOB_MAX   63

/* What a run must know beside the tensors to go on. */
struct manifest_state {
    int64_t step;
    uint64_t samples, tokens; /* used so far: the data position, and what it came to */
    uint64_t seed;
    uint64_t data_tokens, data_fingerprint; /* of the corpus */
    char job[MANIFEST_JOB_MAX + 1];         /* BELAY_JOB_ID, "" by hand */
    int64_t attempt;
    int64_t tp, pp, cp, dp, ep;
    int64_t heads, kv_heads; /* of the model, which no shape tells; 0 = the manifest does not say */
};

struct manifest_file {
    char name[64];
    uint64_t bytes;
    char hash[DIGEST_SIZE];
};

struct manifest_slice {
    size_t file, from, to; /* rows [from,to) of the tensor's first dimension are in files[file] */
};

struct manifest_tensor {
    char name[96];
    size_t shape[SAFETENSORS_DIMS], dims;
    struct manifest_slice *slices; /* in the order of their rows */
    size_t n_slices;
};

struct manifest {
    struct manifest_state state;
    struct manifest_file *files;
    size_t n_files;
    struct manifest_tensor *tensors;
    size_t n_tensors;
};

/* Writes folder/manifest.json and fsyncs it. 0, or -1 with a sentence. */
int manifest_write(const char *folder, const struct manifest *manifest, struct err *err);
/* Reads and checks it. NULL with a sentence. */
struct manifest *manifest_read(const char *folder, struct err *err);
void manifest_free(struct manifest *manifest);

/* The tensor named so, or NULL; cheap when tensors are asked for in their order (*hint starts at 0). */
const struct manifest_tensor *manifest_find(const struct manifest *manifest, const char *name, size_t *hint);

#endif
