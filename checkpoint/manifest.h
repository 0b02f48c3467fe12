/* manifest: `manifest.json` of a checkpoint: of which model it is, whose, where in the data it stands, and which part of which tensor is in
 * which file.
 *
 * A manifest that was read has been checked: its own hash, plain file names, and that the slices of each tensor hold each of its elements
 * exactly once. docs/checkpoint-format.md describes the file. Format 1 is read, too: its slices are rows of the whole width, its tensors have
 * Hugging Face's names (names.h). */
#ifndef BELAY_CHECKPOINT_MANIFEST_H
#define BELAY_CHECKPOINT_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint/box.h"
#include "checkpoint/digest.h"
#include "common/clock.h"
#include "common/err.h"

#define MANIFEST_FORMAT    2
#define MANIFEST_BYTES_MAX (256u << 20) /* a longer one is not read */
#define MANIFEST_FILE_NAME "manifest.json"
#define MANIFEST_JOB_MAX   63
#define MANIFEST_NAME_SIZE 96 /* of a tensor */
#define MANIFEST_PATH_SIZE 1024

/* The model that the tensors belong to. */
struct manifest_model {
    char arch[16]; /* "gpt2" or "llama" */
    int64_t layers, hidden, heads, kv_heads, ffn, vocab, context;
    int64_t experts, top_k; /* 0 = dense */
    bool tied;
    double norm_eps, rope_theta;
    char tokenizer[MANIFEST_PATH_SIZE]; /* as the job file names it, "" = not told */
    uint64_t tokenizer_fingerprint;     /* of that which made the tokens, 0 = not known */
};

/* What a run must know beside the tensors to go on. */
struct manifest_state {
    int64_t step;
    uint64_t samples, tokens; /* used so far: the data position, and what it came to */
    uint64_t seed;
    uint64_t data_tokens, data_fingerprint; /* of the corpus */
    char job[MANIFEST_JOB_MAX + 1];         /* BELAY_JOB_ID, "" by hand */
    int64_t attempt;
    int64_t tp, pp, cp, dp, ep;
    double held_loss;            /* loss over the held-out data after exactly this step; NAN = not known */
    struct manifest_model model; /* numbers that format 1 does not tell, and that no tensor shows, are 0 */
};

struct manifest_file {
    char name[64];
    uint64_t bytes;
    char hash[DIGEST_SIZE];
};

struct manifest_slice {
    struct box box; /* of the whole tensor */
    size_t file;    /* it is in files[file] */
    char *entry;    /* under this name; NULL = the tensor's own */
};

struct manifest_tensor {
    char name[MANIFEST_NAME_SIZE];
    size_t shape[2], dims;
    struct manifest_slice *slices; /* in the order of box_compare */
    size_t n_slices;
};

struct manifest {
    int64_t format;
    char time
        [CLOCK_UTC_SIZE]; /* when it was written, as clock_format_utc prints; filled in by manifest_read */
    struct manifest_state state;
    struct manifest_file *files;
    size_t n_files;
    struct manifest_tensor *tensors;
    size_t n_tensors;
};

/* The text of a manifest of MANIFEST_FORMAT: puts the tensors in the order of their names, and checks that slices hold each element exactly
 * once. free(); NULL with a sentence. */
char *manifest_print(struct manifest *manifest, struct err *err);
/* The same into folder/manifest.json, fsynced. 0, or -1 with a sentence. */
int manifest_write(const char *folder, struct manifest *manifest, struct err *err);
/* Reads and checks it. NULL with a sentence. */
struct manifest *manifest_read(const char *folder, struct err *err);
/* Only the held-out loss, from the first lines of the file, which can be long; nothing is checked. NAN when it is not known. */
double manifest_held_loss(const char *folder);
void manifest_free(struct manifest *manifest);

/* The tensor named so, or NULL. */
const struct manifest_tensor *manifest_find(const struct manifest *manifest, const char *name);

/* Is a run of model `now` one of the model `then` of a checkpoint? What `then` does not tell is not compared, nor is the tokenizer. 0, or -1
 * with a sentence that names the first difference. */
int manifest_same_model(const struct manifest_model *now, const struct manifest_model *then, struct err *err);

/* In what two models differ: "layers 2 and 3, tied 1 and 0"; NULL when in nothing that both tell (the caller frees). */
char *manifest_model_differences(const struct manifest_model *a, const struct manifest_model *b);

#endif
