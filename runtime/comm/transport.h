/* transport: what a way between ranks offers, and all that comm asks of it: batches of messages, and the few things done to memory in between.
 *
 * The border lies here, below the collectives, so that slices, rounds, the order of the sums, counters and limits exist once and give
 * the same bits over every transport. A transport whose work is ordered by a stream (NCCL: grouped ncclSend and ncclRecv, a kernel for
 * `sum`) fits, too: its `done` may be true as soon as a batch is enqueued, for what comm does next is enqueued behind it; comm then
 * goes through all stages of a call within its start, in the order of the calls, which is the same on all ranks of a group. */
#ifndef BELAY_RUNTIME_COMM_TRANSPORT_H
#define BELAY_RUNTIME_COMM_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "runtime/comm/sum.h"

struct comm_link;  /* a transport's side of a group */
struct comm_batch; /* messages under way */

/* Messages of the two kinds never meet each other, whatever their tags. */
enum comm_channel { CHANNEL_COLLECTIVE, CHANNEL_POINT };

struct comm_message {
    void *data; /* where to put it; when `out`, only read */
    size_t bytes;
    int peer; /* rank in the group */
    bool out; /* to the peer, else from it */
};

struct comm_transport {
    size_t message_max; /* bytes; comm cuts longer ones */

    /* Joins the other ranks of the run. 0, or -1 with a sentence. */
    int (*open)(int *rank, int *size, struct err *err);
    void (*close)(void);

    /* Collective over the run: the ranks that name the same color get a link, ordered by key; NULL for color -1. Colors are 0 or more. */
    struct comm_link *(*link)(int color, int key);
    void (*unlink)(struct comm_link *link);

    /* Starts all messages. The array may go after the call, what the messages point to stays until `done` has said true, once, which frees the
     * batch. Messages of one pair of ranks, channel and tag (0 to 32767) arrive in the order in which they were posted. */
    struct comm_batch *(*post)(struct comm_link *link, enum comm_channel channel, int tag,
                               const struct comm_message *messages, size_t n);
    bool (*done)(struct comm_batch *batch);

    /* Memory of the kind that messages lie in. alloc does not return NULL. */
    void *(*alloc)(size_t bytes);
    void (*free)(void *data);
    void (*copy)(void *to, const void *from, size_t bytes); /* may overlap */
    void (*sum)(void *out, const struct comm_terms *terms, size_t count, enum comm_type type);
};

extern const struct comm_transport comm_transport_mpi;

#endif
