/* snapshot: a rank's part of a checkpoint in memory, as the very bytes of its safetensors file (docs/checkpoints.md).
 *
 * It is made once, at the start of a run, so that a save needs no memory that might not be there; staging copies the numbers in. Its memory
 * may be a memfd, of which another process can hold a descriptor when this one has ended. */
#ifndef BELAY_RUNTIME_SNAPSHOT_H
#define BELAY_RUNTIME_SNAPSHOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/checkpoint.h"

struct snapshot;

/* Of what these arrays (borrowed until the end) write; shared: in a memfd. All of its memory is set aside. NULL with a sentence. */
struct snapshot *snapshot_new(const struct checkpoint_array *arrays, size_t count, bool shared,
                              struct err *err);
void snapshot_free(struct snapshot *snapshot); /* takes NULL */

uint64_t snapshot_bytes(const struct snapshot *snapshot);
int snapshot_fd(const struct snapshot *snapshot); /* -1: it is not shared */

/* Copies what the arrays hold now; with all threads of OpenMP where it lies in the host's memory. Afterwards they may change. */
void snapshot_stage(struct snapshot *snapshot);

/* The hash of the file that it is. */
void snapshot_hash(const struct snapshot *snapshot, char hash[DIGEST_SIZE]);
/* Makes that file at `path`, which must not be there yet, fsyncs it and tells its hash. Ends early, with an error, once *stop is set. When it
 * fails, no file stays. 0, or -1 with a sentence. May run in a thread of its own. */
int snapshot_write(const struct snapshot *snapshot, const char *path, const atomic_bool *stop,
                   char hash[DIGEST_SIZE], struct err *err);

#endif
