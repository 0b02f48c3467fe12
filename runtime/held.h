/* held: a checkpoint that the shims of this attempt's nodes hold in memory, found by all ranks together and made into a folder that is read like one on
 * storage. */
#ifndef BELAY_RUNTIME_HELD_H
#define BELAY_RUNTIME_HELD_H

#include "common/memory.h"
#include "runtime/run.h"

struct held_checkpoint {
    int64_t step;
    char *folder; /* links to descriptors of this process: only this rank's parts are there */
    struct manifest *manifest;
    int *fds;
    size_t n_fds;
    uint64_t bytes, fetched; /* of its files; what of them came from other nodes */
};

/* Collective. The newest checkpoint of this job, at step `at_least` or later, of which every file that some rank needs for run->arrays is held on some node and has
 * the hash that its manifest says. What is newer and cannot be used is told. NULL: there is none. */
struct held_checkpoint *held_find(struct run *run, struct memory_tier *memory, int64_t at_least);
void held_free(struct held_checkpoint *held); /* takes NULL */

#endif
