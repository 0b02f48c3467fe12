/* comm: what ranks do together, behind one interface: over MPI between host processes, over NCCL between GPUs.
 *
 * A group is an ordered set of ranks; all collective calls name one, and all its ranks make the same calls in the same order. Buffers are
 * memory of the backend's kernels (kernels.h); counts, displacements and records (see there) are the host's.
 *
 * Sums are taken in rank order whatever the library, the network and the placement are, in float for bf16 numbers (rounded once at the
 * end), and every rank of the group gets the same bits: replicas stay equal for ever, and a run restarted elsewhere goes on bitwise
 * as before. A failure of the transport ends the process: ranks cannot go on without one.
 *
 * Asynchronous calls return a request at once, or NULL when nothing is left to do; their buffers belong to it until comm_wait.
 * comm_progress moves what is under way while the rank computes; a caller with long stretches of work calls it now and then.
 *
 * On a device the host only orders: a call works on what the compute stream has been given before it, and what that is given after
 * comm_wait (or a blocking call) comes after the call's end. No call waits for the device, but those with records, for other ranks. */
#ifndef BELAY_RUNTIME_COMM_H
#define BELAY_RUNTIME_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct comm;         /* a process's membership in the run */
struct comm_group;   /* an ordered set of ranks with this one among them */
struct comm_request; /* a call under way */

struct comm_device; /* where buffers lie, when not in the host's memory (transport.h) */

enum comm_type {
    COMM_BYTE,
    COMM_REAL,
    COMM_BF16,
    COMM_DOUBLE
}; /* COMM_REAL: the type `real` of this build */

/* Joins the other ranks: over MPI when a launcher (mpirun, belay-shim) started this process, else alone as rank 0 of 1.
 * device NULL: buffers are in the host's memory; else it stays until comm_close.
 * NULL with a sentence when RANK/WORLD_SIZE speak of more ranks but no launcher offers a way to reach them. */
struct comm *comm_open(const struct comm_device *device, struct err *err);
/* Leaves in order; waits for the others. Groups are gone with it. */
void comm_close(struct comm *comm);

/* All ranks of the run. */
struct comm_group *comm_world(struct comm *comm);
/* A group of its own for the `n` ranks (of the world, in this order) at `ranks`, this one among them. Collective over the world: every
 * rank calls it at the same time, with the group that it will be in; groups of one call are disjoint. `name` is for counters and messages
 * ("tp"), borrowed. A rank that is to be in none passes n = 0 and gets NULL. */
struct comm_group *comm_group_new(struct comm *comm, const char *name, const int *ranks, size_t n);

int comm_rank(const struct comm_group *group); /* within the group */
int comm_size(const struct comm_group *group);
int comm_world_rank(const struct comm_group *group, int rank); /* of the group's rank */

/* ---- blocking ---- */

/* x (count) becomes the sum over ranks. */
void comm_all_reduce(struct comm_group *group, void *x, size_t count, enum comm_type type);
/* Everyone's mine (count) to everyone: all (size,count). mine may be its own place in all. */
void comm_all_gather(struct comm_group *group, const void *mine, void *all, size_t count,
                     enum comm_type type);
/* mine (count) = the sum over ranks of their all (size,count) at this rank's place. mine may be that place; the rest of all keeps its values. */
void comm_reduce_scatter(struct comm_group *group, const void *all, void *mine, size_t count,
                         enum comm_type type);
/* Rows of row_bytes: the first send_rows[0] rows of send go to rank 0, the next send_rows[1] to rank 1, …; what comes lies in out in the same
 * way, out_rows (size) rows from each. Both sides know the counts. */
void comm_all_to_all(struct comm_group *group, const void *send, const size_t *send_rows, void *out,
                     const size_t *out_rows, size_t row_bytes);

/* ---- records: in host memory, whatever the buffers lie in; blocking ---- */

void comm_barrier(struct comm_group *group);
/* `root`'s bytes to everyone. */
void comm_broadcast(struct comm_group *group, void *data, size_t bytes, int root);
/* Everyone's `bytes` to everyone, in rank order: all (size,bytes). */
void comm_share(struct comm_group *group, const void *mine, size_t bytes, void *all);
/* The largest value of any rank; the sum in rank order. */
int comm_max_int(struct comm_group *group, int value);
double comm_sum_double(struct comm_group *group, double value);
/* From one rank to another; tags and order as below. */
void comm_send_record(struct comm_group *group, const void *data, size_t bytes, int to, int tag);
void comm_receive_record(struct comm_group *group, void *data, size_t bytes, int from, int tag);

/* ---- asynchronous ---- */

struct comm_request *comm_all_reduce_start(struct comm_group *group, void *x, size_t count,
                                           enum comm_type type);
struct comm_request *comm_all_gather_start(struct comm_group *group, const void *mine, void *all,
                                           size_t count, enum comm_type type);
struct comm_request *comm_reduce_scatter_start(struct comm_group *group, const void *all, void *mine,
                                               size_t count, enum comm_type type);
/* Point to point within the group. Between two ranks, messages of one `tag` (0 to 32767) arrive in the order in which they were sent. Over NCCL each
 * tag of a pair costs a communicator: a caller keeps to a few. */
struct comm_request *comm_send_start(struct comm_group *group, const void *data, size_t bytes, int to,
                                     int tag);
struct comm_request *comm_receive_start(struct comm_group *group, void *data, size_t bytes, int from,
                                        int tag);

/* Waits until it is done and frees it; NULL is done already. */
void comm_wait(struct comm_request *request);
/* Moves what is under way; true when the request is finished, on the device too, so that comm_wait returns at once and holds nothing up. */
bool comm_done(struct comm_request *request);
/* The same, but true already when comm_wait would hold up the device alone. */
bool comm_ordered(struct comm_request *request);
/* Moves everything that is under way as far as it goes now; cheap when nothing is. True when nothing is left. */
bool comm_progress(struct comm *comm);

/* ---- counters ---- */

/* What went over a group since the last reset: calls, those with nothing to move included; bytes that this rank sent to others; seconds
 * that its host was kept waiting in blocking calls and comm_wait (over NCCL nearly none: there the device waits). A barrier sends a byte a step, a sum each slice once and the own one to all. */
struct comm_counters {
    uint64_t calls, bytes;
    double seconds;
};
struct comm_counters comm_counters(const struct comm_group *group);
void comm_counters_reset(struct comm_group *group);

/* How many ranks of this run share this host, from the environment; 1 when unknown. */
int comm_env_local_size(void);
/* This rank's number among them, and in the run, before comm_open knows; 0 when unknown. */
int comm_env_local_rank(void);
int comm_env_rank(void);

#endif
