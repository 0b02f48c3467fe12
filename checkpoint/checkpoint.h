/* checkpoint: the content of one checkpoint folder: written in shards, verified, and loaded for any mesh of ranks.
 *
 * Every rank says which boxes of which tensors lie in its memory: those that it writes, and those that it wants to read. A box is part of a
 * row-major matrix, so tensor parallelism's cuts by rows or columns are one box, and a range of the matrix's numbers in flat order is at most
 * three (checkpoint_range). Nothing here communicates; a caller moves the records that checkpoint_describe makes to rank 0. */
#ifndef BELAY_CHECKPOINT_CHECKPOINT_H
#define BELAY_CHECKPOINT_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "common/err.h"

/* Rows [from[0],to[0]) x columns [from[1],to[1]) of a tensor; of one dimension the numbers are rows, columns are 0 to 1 and stride is 1.
 * Element (r,c) is data[(r-from[0])*stride + (c-from[1])]. */
struct checkpoint_piece {
    size_t from[2], to[2];
    float *data; /* borrowed */
    size_t stride;
};

/* How to reach memory that is not the host's: kernels.h, to_host and from_host. */
struct checkpoint_memory {
    void (*to_host)(void *out, const void *x, size_t bytes);
    void (*from_host)(void *out, const void *x, size_t bytes);
};

/* One named tensor as far as this rank has it: what it writes (each element is written by exactly one rank), or what it wants to read. */
struct checkpoint_array {
    char name[MANIFEST_NAME_SIZE];
    size_t shape[2], dims;
    struct checkpoint_piece *pieces; /* borrowed */
    size_t n_pieces;
    struct checkpoint_memory memory; /* that the pieces lie in; all NULL: the host's */
};

/* Numbers [from,to) of a box of a tensor in flat order, which lie side by side from `data` on: at most three pieces. The box is the whole tensor
 * or, with tensor parallelism, what of it is here. Returns how many pieces[] were filled in. */
size_t checkpoint_range(const struct box *box, size_t from, size_t to, float *data,
                        struct checkpoint_piece pieces[3]);

#define CHECKPOINT_NAME_SIZE sizeof(((struct manifest_file *)0)->name)
/* The name of a rank's file in the folder. */
void checkpoint_shard_name(int rank, char name[CHECKPOINT_NAME_SIZE]);

/* What stands in a shard with these arrays, a tensor for each piece, in order: *n of them, to be placed yet; free(). */
struct safetensors_tensor *checkpoint_entries(const struct checkpoint_array *arrays, size_t count, size_t *n);

/* Writes folder/rank-<rank>.safetensors, fsynced, and fills *out for the manifest. 0, or -1 with a sentence. */
int checkpoint_write_shard(const char *folder, int rank, const struct checkpoint_array *arrays, size_t count,
                           struct manifest_file *out, struct err *err);

/* What rank 0 must know of a shard, as bytes that mean the same in every process of the program. */
struct checkpoint_record {
    void *bytes; /* free() */
    size_t len;
};
/* The record of what checkpoint_write_shard wrote with these arrays. Its length depends on the number of pieces only. */
struct checkpoint_record checkpoint_describe(const struct checkpoint_array *arrays, size_t count,
                                             const struct manifest_file *file);

/* Writes folder/manifest.json over shards that all ranks have written; records and files (count each; files NULL: those of the records) belong together, in any order. Checks that they hold each element of
 * each tensor exactly once. Fsyncs the folder. 0, or -1 with a sentence. */
int checkpoint_seal(const char *folder, const struct checkpoint_record *records,
                    const struct manifest_file *files, size_t count, const struct manifest_state *state,
                    struct err *err);

/* The text of that manifest. free(); NULL with a sentence. */
char *checkpoint_manifest(const struct checkpoint_record *records, const struct manifest_file *files,
                          size_t count, const struct manifest_state *state, struct err *err);

/* Checks the manifest, that every file has its size, and the hash of files part, part+parts, … (0, 1 = all; parts 0 = no hash at all).
 * Fills *state. 0, or -1 with a sentence naming the file and what is wrong with it. */
int checkpoint_verify(const char *folder, int part, int parts, struct manifest_state *state, struct err *err);

/* Is one file of a checkpoint there with its size and, when asked, its hash? watch may be NULL. 0, or -1 with a sentence that names it. */
int checkpoint_check_file(const char *folder, const struct manifest_file *file, bool hash,
                          const struct digest_watch *watch, struct err *err);

enum checkpoint_result { CHECKPOINT_ERROR = -1, CHECKPOINT_OK = 0, CHECKPOINT_OTHER_MODEL = 1 };

/* Fills every piece of every array from a verified checkpoint, whatever mesh wrote it, of format 1, too. Opens the files and reads the parts that
 * overlap, no others. CHECKPOINT_OTHER_MODEL (nothing read) when it lacks a tensor or has it in another shape; tensors that are not asked
 * for are no difference: manifest_same_model tells models apart. */
enum checkpoint_result checkpoint_load(const char *folder, const struct checkpoint_array *arrays,
                                       size_t count, struct err *err);

/* Which of the manifest's files hold something of the arrays: sets those of needed (n_files). As checkpoint_load. */
enum checkpoint_result checkpoint_needs(const char *folder, const struct manifest *manifest,
                                        const struct checkpoint_array *arrays, size_t count, bool *needed,
                                        struct err *err);

/* checkpoint_load with the manifest already read. */
enum checkpoint_result checkpoint_load_from(const char *folder, const struct manifest *manifest,
                                            const struct checkpoint_array *arrays, size_t count,
                                            struct err *err);

#endif
