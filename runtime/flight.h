/* flight: one save under way, from the copy in memory to the moment when all ranks know how it ended. save.c decides when; here is what happens.
 *
 * SEALING: each rank's thread writes its shard, or has it held in memory. COMMITTING: rank 0's thread makes a checkpoint of the shards. What
 * threads read does not change while they run; what they write is read after they have ended. */
#ifndef BELAY_RUNTIME_FLIGHT_H
#define BELAY_RUNTIME_FLIGHT_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/memory.h"
#include "runtime/run.h"
#include "runtime/snapshot.h"
#include "runtime/task.h"

enum tier { TIER_STORAGE, TIER_MEMORY, TIERS };

struct flight {
    enum { FLIGHT_LANDED, FLIGHT_SEALING, FLIGHT_COMMITTING } phase;
    enum tier tier;
    struct run *run;
    struct shards *shards;
    struct memory_tier *memory; /* TIER_MEMORY */
    const struct snapshot *snapshot;
    const atomic_bool *stop; /* ends the threads' work early */
    int64_t step;
    struct manifest_state state; /* where the run stood when it was staged */
    double start, seconds;       /* clock when it was begun; from then until it was safe */
    char folder[PATH_MAX];       /* hidden, until it is committed; "" in memory */
    struct manifest_file *files; /* (size), rank 0: what the shards are */
    uint64_t bytes;              /* of all shards together */
    struct task task;
    /* what the task came to */
    int code;
    struct err err;
    struct manifest_file file;
    bool alone;    /* held, but on this node only */
    int64_t spare; /* step of a checkpoint that is being uploaded, 0 = none */
};

/* What rank 0 knows of all ranks' pieces, which are the same in each save of a run. */
struct shards;
struct shards *shards_new(void);
void shards_free(struct shards *shards); /* takes NULL */

/* All but save of memory are collective.
 *
 * Makes room: the folder of a checkpoint on storage. 0, or as flight_give_up. */
int flight_begin(struct flight *f);
/* The snapshot holds the step: this rank's thread goes to work. Not collective. */
void flight_seal(struct flight *f);
/* Once the threads of all ranks have ended: the next phase. 0; EXIT_ERROR: given up; EXIT_SUPERSEDED: and a newer attempt owns the directory. */
int flight_advance(struct flight *f);
/* Waits for this rank's thread, and frees. Not collective. */
void flight_end(struct flight *f);

#endif
