/* uplink: the agent's one connection to belayd (docs/protocols.md section 1). */
#ifndef BELAY_AGENT_UPLINK_H
#define BELAY_AGENT_UPLINK_H

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/link.h"

struct uplink;

/* The functions are called from the loop, only while logged in (hello: just before). */
struct uplink_config {
    struct event_base *base;
    const char *host;
    int port;
    const char *secret, *node;
    void *ctx;
    /* "inventory" and "attempts" for hello; local is this end's address of the connection. A new object. */
    json_t *(*hello)(void *ctx, const char *local);
    void (*welcome)(void *ctx);
    /* May take the insides of the orders; keep: as of attempts_desired. */
    void (*desired)(void *ctx, struct link_order *orders, size_t n, const int64_t *keep, size_t n_keep);
    void (*ack)(void *ctx, int64_t job, int64_t attempt, int64_t rev);
    void (*read_log)(void *ctx, const json_t *request);
};

/* Starts connecting; goes on for ever, with growing pauses. Strings must stay valid. */
struct uplink *uplink_new(const struct uplink_config *config);
void uplink_free(struct uplink *u);

/* Logged in? */
bool uplink_up(const struct uplink *u);

/* Queues a message; false when not logged in or the controller does not read fast enough (then try later). */
bool uplink_send(struct uplink *u, const json_t *msg);

/* Tells progress now, or keeps the newest until the controller can be told. */
void uplink_progress(struct uplink *u, const struct link_progress *progress);

/* Bytes not yet taken by the kernel; 0 when there is no connection. */
size_t uplink_unsent(const struct uplink *u);

#endif
