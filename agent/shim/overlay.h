/* overlay: the TCP links between this shim and its neighbours in the tree, and the proof that they belong to the attempt.
 *
 * A child connects to its parent and says who it is with an HMAC over the attempt's token; whoever cannot is dropped. Frames
 * for a neighbour that is not linked yet wait in order. A link that breaks after it was joined stays broken: frames would be
 * missing, so the owner is told and fails what was under way. */
#ifndef BELAY_AGENT_SHIM_OVERLAY_H
#define BELAY_AGENT_SHIM_OVERLAY_H

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/shim/tree.h"
#include "common/err.h"

struct overlay;

struct overlay_id {
    int64_t job, attempt, node_rank, nodes;
    const char *token; /* must outlive the overlay */
};

struct overlay_events {
    /* A frame from the neighbour `hop`. -1 with a sentence closes that link. */
    int (*frame)(void *ctx, int64_t hop, const struct frame *f, struct err *err);
    /* The link to `hop` is gone for good. Called once a link. */
    void (*lost)(void *ctx, int64_t hop, const char *why);
    /* Another shim of the attempt comes for the memory tier: fd is to be taken over, its first line (which proved it) is borrowed. May be NULL: then
     * such are turned away. */
    void (*memory)(void *ctx, int fd, const json_t *line);
};

/* Listens on a port that the system chooses, on 127.0.0.1 only when `loopback`. NULL with a sentence. */
struct overlay *overlay_listen(struct event_base *base, bool loopback, const struct overlay_id *id,
                               const struct overlay_events *events, void *ctx, struct err *err);
void overlay_free(struct overlay *o);
int64_t overlay_port(const struct overlay *o);

/* Frames are delivered from now on; until then children may join, and what they send waits. */
void overlay_start(struct overlay *o);

/* Starts to link to the parent (not for node 0); tries again for a while when it is refused. */
void overlay_connect(struct overlay *o, const char *addr, int64_t port);

/* Queues a frame for a neighbour; key and data are copied. Dropped when that link is lost. */
void overlay_send(struct overlay *o, int64_t hop, const struct frame *f);

#endif
