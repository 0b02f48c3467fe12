/* channel: one communicator of NCCL, its stream, what waits for it, and the record of its last calls. Inside runtime/comm/nccl only.
 *
 * A communicator is made without waiting (ncclCommInitRankConfig, blocking 0), and so is every group of sends and receives that it is given; until it is ready
 * for the next, batches wait here in their order. Whoever calls channel_move moves them on. */
#ifndef BELAY_RUNTIME_COMM_NCCL_CHANNEL_H
#define BELAY_RUNTIME_COMM_NCCL_CHANNEL_H

#include <cuda_runtime.h>
#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/comm/transport.h"

/* ---- the record (recorder.c) ---- */

enum { RECORDS = 64 }; /* of the last calls of a channel */

/* A call that the stream has been given. */
struct record {
    uint64_t number; /* from 1, of the channel */
    const char *what;
    int tag, peer;  /* in the group; -1: several */
    size_t out, in; /* bytes */
    double at;      /* clock_monotonic_s */
    cudaEvent_t event;
    bool done;
};

struct recorder {
    struct record last[RECORDS];
    uint64_t calls, done; /* the calls 1 to `done` have been */
};

struct channel;

/* The stream has just been given the messages. */
void recorder_add(struct channel *c, const struct comm_batch *batch);
/* Sees what has been done; true when that is more than before. */
bool recorder_look(struct channel *c);
/* The oldest call that is not done; NULL when all are. */
const struct record *recorder_oldest(const struct channel *c);
/* One line for each call, oldest first. */
void recorder_write(const struct channel *c);
void recorder_free(struct channel *c);

/* ---- channels ---- */

struct comm_batch {
    struct channel *channel;
    const char *what;
    int tag;
    size_t n;
    struct comm_message *messages;
    struct comm_mark *start; /* what the batch comes after; NULL: the stream knows already */
    struct comm_mark *end;   /* of a message, once launched */
    enum { BATCH_WAITS, BATCH_STARTED, BATCH_LAUNCHED } state;
    struct comm_batch *next; /* in the queue of the channel */
};

struct channel {
    char name[96]; /* for people: "dp" or "pp from 0 to 1 tag 3" */
    char key[64];  /* of its id, for all its ranks */
    int rank, size;
    int maker; /* rank of the run that makes the id */
    int ctas;  /* thread blocks that it may use */
    bool point;
    enum { CHANNEL_ASKS, CHANNEL_STARTS, CHANNEL_READY, CHANNEL_LEAVES, CHANNEL_LEFT } state;
    double since; /* when it began to wait for what it waits for now */
    struct comm_get *get;
    ncclComm_t comm;
    struct comm_lane *lane;
    struct comm_batch *first, **last; /* not launched yet */
    struct comm_mark *end;            /* of the message that was last asked whether it is launched */
    struct recorder recorder;
    struct channel *next; /* of all */
};

/* Begins to make it: name, key, rank, size, maker, ctas and point are given. The result is known to the watch. */
struct channel *channel_new(const struct channel *as);
/* All its work has been waited for: begins to leave the other ranks, which they do, too. Does not wait: ranks may leave their channels in any order. */
void channel_leave(struct channel *c);
/* After all of the link have been left: what is left to do needs no other rank. */
void channel_free(struct channel *c);
/* Moves the communicator and its queue as far as they go now. */
void channel_move(struct channel *c);
/* Moves it until `reached` (or the time limit). */
void channel_await(struct channel *c, bool (*reached)(const struct channel *c));
bool channel_idle(const struct channel *c); /* ready, and nothing waits */
bool channel_left(const struct channel *c);
/* Takes the batch, whose messages it copies. */
struct comm_batch *channel_post(struct channel *c, const struct comm_post *post, struct comm_mark *start);

/* ---- the watch (watch.c) ---- */

/* What all of them share. */
struct nccl_run {
    struct comm_run run;
    struct channel *channels; /* oldest first */
    double moved;             /* when something was last seen to be done */
    double looked;            /* when last asked */
};
extern struct nccl_run nccl;

void watch_open(void);
void watch_close(void);
/* Looks after all channels: errors of peers, calls that do not end, the signal that asks for the record. `late`: the host has waited too
 * long for the device. */
void watch(bool late);
/* Writes the record of all, aborts the communicators, and ends the process with the sentence "CALL failed: REASON". */
_Noreturn void watch_fail(const struct channel *c, const char *call, const char *reason);
/* Ends the process unless rc is success (or in progress, which is for the caller to see to). Returns it. */
ncclResult_t watch_check(const struct channel *c, const char *call, ncclResult_t rc);

/* ---- memory.c ---- */

cudaStream_t lane_stream(struct comm_lane *lane); /* NULL: that which computes */
void lanes_close(void);

#endif
