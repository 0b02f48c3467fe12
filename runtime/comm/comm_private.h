/* comm_private: what comm, its rounds and their tests share. Not for the rest of the runtime. */
#ifndef BELAY_RUNTIME_COMM_PRIVATE_H
#define BELAY_RUNTIME_COMM_PRIVATE_H

#include "runtime/comm/comm.h"
#include "runtime/comm/rounds.h"
#include "runtime/comm/transport.h"

/* Rounds that a group may have under way in scratch memory: with ROUND_BYTES each group stays below 16 MiB, and the four groups of a
 * rank that reduce anything large (TP, DP, the copies of its experts, the ends of the pipeline) below 64 MiB. */
enum { WINDOWS = 8 };
#define ROUND_BYTES ((size_t)2 << 20)

/* Sums of at most so many bytes take one exchange of the whole arrays instead of two of slices: then latency counts, not bandwidth. */
#define SMALL_BYTES ((size_t)16 << 10)

/* How a group's bytes travel, and between which memory. */
struct way {
    const struct comm_transport *transport;
    const struct comm_memory *memory;
    struct comm_link *link; /* NULL when size is 1 */
    struct comm_lane *lane; /* of the collectives; NULL in the host's memory */
};

struct window {
    void *data;
    size_t room;
    bool busy;
};

struct comm_group {
    struct comm *comm;
    struct comm_group *next; /* all of the run, for closing */
    const char *name;
    int rank, size;
    int *ranks;                  /* (size) of the world */
    struct way records, buffers; /* without a device the same way, and one link */
    struct comm_counters counters;
    unsigned tags;                      /* rounds so far: the same on all ranks */
    struct comm_request *first, **last; /* calls that wait for windows, in the order of their starts */
    struct window windows[WINDOWS];
};

struct comm_limits {
    size_t round_bytes, message_bytes, small_bytes; /* the transport's own limit of a message may be lower */
};

struct comm {
    struct way records, buffers; /* of groups to come: no links */
    bool joined, connected;      /* their transports are open */
    bool wired;                  /* wire_open has been called */
    int rank, size;
    int links;    /* made so far, calls that gave none included */
    int patience; /* looks in vain before a waiting rank lets others have its core */
    struct comm_limits limits;
    struct comm_group *world, *groups;
    struct round *active, **end;   /* under way, oldest first */
    struct comm_message *messages; /* of the stage that is being prepared */
    size_t n_messages, room;
    struct comm_request *selves; /* messages of this rank to itself that wait for their other half */
};

/* ---- ways.c ---- */

/* How buffers on the device travel between the ranks of a run, more than one; its world has its way for records. Collective. 0, or -1 with a
 * sentence. */
int ways_choose(struct comm *c, const struct comm_device *device, struct err *err);
/* The group's ways. Collective over the run; g NULL: this rank is in none. color: see transport.h. Records first. */
void ways_connect_records(struct comm *c, struct comm_group *g, int color);
void ways_connect_buffers(struct comm *c, struct comm_group *g, int color);
void ways_disconnect(struct comm_group *g);

/* ---- wire.c ---- */

/* For this rank of the run. NULL with a sentence. */
const struct comm_wire *wire_open(int rank, struct err *err);
void wire_close(void);

/* Ends the process with a sentence about a call that cannot be. */
_Noreturn void comm_misuse(const struct comm_group *group, const char *what);

#endif
