/* rounds: calls under way, cut into rounds that are moved stage by stage. Inside runtime/comm only.
 *
 * A call (struct comm_request) is one or more rounds over ranges of its elements. A round goes through stages: each posts a batch of
 * messages, and the next begins when that is done. Rounds of one group are numbered in the order of the calls, which all its ranks make
 * alike; the number is the tag, so that stages of different rounds may meet in any order.
 *
 * Rounds that sum need scratch memory. A group has a few windows of it, given to its rounds in their order; no round waits for another group.
 * That cannot lock up: the oldest round that is unfinished anywhere has a window on every rank that has not finished it. Calls
 * without scratch start at once. */
#ifndef BELAY_RUNTIME_COMM_ROUNDS_H
#define BELAY_RUNTIME_COMM_ROUNDS_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/comm/comm.h"

enum comm_op {
    OP_BROADCAST,
    OP_ALL_REDUCE,
    OP_ALL_REDUCE_SMALL,
    OP_ALL_GATHER,
    OP_ALL_GATHER_SMALL,
    OP_REDUCE_SCATTER,
    OP_ALL_TO_ALL,
    OP_BARRIER,
    OP_SEND,
    OP_RECEIVE,
    OP_COUNT
};

/* The arguments of a call. */
struct comm_call {
    enum comm_op op;
    const void *in;
    void *out;
    size_t
        count; /* elements: of the whole array, for gather and scatter of one rank; bytes where the type is COMM_BYTE */
    enum comm_type type;
    int peer, tag;                    /* root; of a message */
    const size_t *in_rows, *out_rows; /* all to all: (size), then count is the size of a row */
    bool record;                      /* in the host's memory, whatever the buffers are in */
};

struct comm_request {
    struct comm_group *group;
    struct comm_call call;
    size_t element;   /* bytes */
    size_t per_round; /* elements of call.count */
    size_t rounds, started, finished;
    unsigned first_tag;
    struct comm_mark *mark; /* its end, once all rounds have; NULL: there is nothing left to wait for */
    void **owned;           /* memory that goes with it: what is put into lanes may run later than the host */
    size_t n_owned, owned_room;
    struct comm_request *next; /* in the queue of its group, or among comm's selves */
};

struct round {
    struct comm_request *request;
    const struct way *way;
    size_t from, count; /* elements of call.count */
    int tag, stage;
    struct comm_batch *batch; /* of this stage */
    void *scratch;
    struct window *window; /* that scratch belongs to; NULL: to the request */
    struct round *next;
};

/* Begins a call and moves it as far as it goes now; the group has more than one rank. */
struct comm_request *rounds_start(struct comm_group *group, const struct comm_call *call);
bool rounds_finished(const struct comm_request *request);
/* Frees a finished call; what the computing lane is given from now on comes after its end. */
void rounds_end(struct comm_request *request);
/* Moves all rounds of all groups as far as they go now. */
void rounds_progress(struct comm *comm);

#endif
