/* transport: what a way between ranks offers, and all that comm asks of it: batches of messages between buffers; and, apart from that, where the
 * buffers lie and what is done to them in between.
 *
 * The border lies here, below the collectives, so that slices, rounds, the order of the sums, counters and limits exist once and give
 * the same bits over every transport and in every memory.
 *
 * Work on a device is ordered by lanes (CUDA's streams): what is put into one lane happens in that order, at some later time. One lane, named NULL, is
 * the one that computes. A call's work comes after what the computing lane was given before the call (`begin`), and comm_wait puts what the
 * computing lane is given from then on behind the call's end, the mark: without the host waiting for either.
 *
 * A transport may be driven by the host (MPI, staged): `done` becomes true when a batch's messages have come and gone, as far as the lane is concerned.
 * Or it is ordered by lanes, too (NCCL): `done` is true as soon as a batch is enqueued. comm then goes through all stages of a call within its start, in
 * the order of the calls, which is the same on all ranks of a group. */
#ifndef BELAY_RUNTIME_COMM_TRANSPORT_H
#define BELAY_RUNTIME_COMM_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "runtime/comm/sum.h"

struct comm_lane;  /* a memory's order of work */
struct comm_mark;  /* a point in it */
struct comm_link;  /* a transport's side of a group */
struct comm_batch; /* messages under way */
struct comm_get;   /* a question to another rank */

/* Memory that buffers lie in. The host's has no lanes: everything is done at once, and the functions below the line are NULL. */
struct comm_memory {
    void *(*alloc)(size_t bytes); /* not NULL: ends the process when there is none */
    /* Work on it that is in other lanes than the computing one has been waited for there. */
    void (*free)(void *data);
    void (*copy)(struct comm_lane *lane, void *to, const void *from,
                 size_t bytes); /* may overlap on the host */
    void (*sum)(struct comm_lane *lane, void *out, const struct comm_terms *terms, size_t count,
                enum comm_type type);

    /* ---- of a device ---- */
    /* Memory of the host that copies from and to the device are fast with, and do not wait for the host. Kept and used again. */
    void *(*pinned)(size_t bytes);
    void (*unpinned)(void *data);
    void (*to_host)(struct comm_lane *lane, void *pinned, const void *from, size_t bytes);
    void (*from_host)(struct comm_lane *lane, void *to, const void *pinned, size_t bytes);

    struct comm_lane *(*lane)(void);
    void (*lane_free)(struct comm_lane *lane);
    /* What the lane has been given so far. To be dropped. */
    struct comm_mark *(*mark)(struct comm_lane *lane);
    /* What the lane is given from now on comes after the mark. */
    void (*after)(struct comm_lane *lane, const struct comm_mark *mark);
    bool (*reached)(const struct comm_mark *mark);
    void (*drop)(struct comm_mark *mark);
};

extern const struct comm_memory comm_memory_host;

/* How ranks tell each other what a transport needs to reach them (wire.c). */
struct comm_wire {
    /* Under a key of this rank. 0, or -1 with a sentence. */
    int (*put)(const char *key, const void *data, size_t bytes, struct err *err);
    /* Asks for what a rank has put, or will put, under the key. */
    struct comm_get *(*get)(int rank, const char *key);
    /* Is it there? Then `get` is gone. */
    bool (*got)(struct comm_get *get, void *data, size_t bytes);
};

/* The process's place in the run, as comm hands it from one transport to the next. */
struct comm_run {
    int rank, size;                   /* set by the transport between hosts */
    const struct comm_memory *memory; /* of the buffers */
    const struct comm_wire *wire;     /* for a direct transport; else NULL */
};

/* A group that links are made for. */
struct comm_members {
    const char *name;
    const int *ranks; /* (size) of the world */
    int rank, size;
    int color; /* the same on all members, and another one in groups of the same call; -1: this rank is in none */
    int number; /* of this call since the start of the run: with the color the name of the group to all */
};

/* Messages of the two kinds never meet each other, whatever their tags. */
enum comm_channel { CHANNEL_COLLECTIVE, CHANNEL_POINT };

struct comm_message {
    void *data; /* where to put it; when `out`, only read */
    size_t bytes;
    int peer; /* rank in the group */
    bool out; /* to the peer, else from it */
};

struct comm_post {
    enum comm_channel channel; /* CHANNEL_POINT: all messages are to or all from one peer */
    int tag;                   /* 0 to 32767 */
    const char *what;          /* the call, in a word; a constant */
    const struct comm_message *messages;
    size_t n;
};

struct comm_transport {
    size_t message_max; /* bytes; comm cuts longer ones */
    size_t round_bytes; /* that a call is cut into; 0: as comm does for MPI */
    bool copies;    /* keeps copies of what is under way: comm starts only some of a large call at a time */
    bool connected; /* a step costs more than bytes or peers: small calls go straight, too */

    /* Joins the other ranks of the run. 0, or -1 with a sentence. */
    int (*open)(struct comm_run *run, struct err *err);
    void (*close)(void);

    /* Collective over the run. NULL for color -1. */
    struct comm_link *(*link)(const struct comm_members *members);
    void (*unlink)(struct comm_link *link);

    /* Starts all messages. The array may go after the call, what the messages point to stays until `done` has said true, once, which frees the
     * batch. Messages of one pair of ranks, channel and tag arrive in the order in which they were posted. */
    struct comm_batch *(*post)(struct comm_link *link, const struct comm_post *post);
    bool (*done)(struct comm_batch *batch);

    /* ---- with buffers on a device; else NULL ---- */
    /* The lane of the link's collectives. */
    struct comm_lane *(*lane)(struct comm_link *link);
    /* What is posted next comes after what the computing lane has been given so far. Of a message: what of it the post will have. */
    void (*begin)(struct comm_link *link, const struct comm_post *post);
    /* The end of the call whose last batch `done` has just called so, or which had none. To be dropped. */
    struct comm_mark *(*mark)(struct comm_link *link, const struct comm_post *post);
    /* Moves what moves without a batch; NULL: nothing does. */
    void (*progress)(void);
};

extern const struct comm_transport comm_transport_mpi;    /* buffers in the host's memory */
extern const struct comm_transport comm_transport_staged; /* on a device; open after that of MPI */

/* Buffers elsewhere than in the host's memory: what comm_open is told of a backend's device. */
struct comm_device {
    const struct comm_memory *memory;
    const struct comm_transport *direct; /* between devices; NULL: there is no such way */
    char id[40];                         /* of the device: the same for two processes that share it */
};

#endif
