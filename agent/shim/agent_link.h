/* agent_link: the unix socket on which the agent gives orders and hears reports. The newest connection is the agent; the shim
 * goes on without one. */
#ifndef BELAY_AGENT_SHIM_AGENT_LINK_H
#define BELAY_AGENT_SHIM_AGENT_LINK_H

#include <event2/event.h>
#include <jansson.h>
#include <stdint.h>

#include "common/err.h"

struct agent_link;

struct agent_link_events {
    void (*connected)(void *ctx); /* to send the report */
    /* -1 with a sentence closes the connection. */
    int (*order)(void *ctx, const json_t *msg, struct err *err);
    void (*release)(void *ctx);
};

/* Listens at path; an old socket there is replaced. events are called with ctx from the loop. NULL with a sentence. */
struct agent_link *agent_link_listen(struct event_base *base, const char *path,
                                     const struct agent_link_events *events, void *ctx, struct err *err);
void agent_link_free(struct agent_link *l);

/* Sends msg if an agent is there (reports are sent again on connect, so nothing is lost otherwise). Borrowed. */
void agent_link_send(struct agent_link *l, const json_t *msg);

/* Sends a progress message (borrowed). While no agent is there the newest values of each rank are kept, and every
 * message with a CHECKPOINT_* value (the last 256 of them); the next agent gets them. */
void agent_link_progress(struct agent_link *l, int64_t rank, const json_t *msg);

/* Tries to hand what is queued to the kernel now; for use before exit. */
void agent_link_flush(struct agent_link *l);

#endif
