/* holding: what the ranks give into the keeping of their shims, which outlive them (docs/checkpoints.md, "The memory tier"). */
#ifndef BELAY_RUNTIME_HOLDING_H
#define BELAY_RUNTIME_HOLDING_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/memory.h"
#include "runtime/commit.h"
#include "runtime/snapshot.h"

/* Has the snapshot held as this rank's file of the checkpoint of `state`; fills in the file's hash. Returns when it is held, and at the buddy node as well where
 * that can be; *alone: it is not there. 0, or -1 with a sentence; early, once *stop is set. May run in a thread, one at a time for a memory. */
int holding_shard(struct memory_tier *memory, const struct snapshot *snapshot, int rank,
                  const struct manifest_state *state, struct manifest_file *file, const atomic_bool *stop,
                  bool *alone, struct err *err);

/* Rank 0: the manifest over shards that are all held makes a checkpoint of them. 0, or -1 with a sentence. */
int holding_manifest(struct memory_tier *memory, const struct commit *c, const atomic_bool *stop, bool *alone,
                     struct err *err);

#endif
