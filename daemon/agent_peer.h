/* agent_peer: one connection of an agent: login, its messages, and what is due to it after the next commit. */
#ifndef BELAY_DAEMON_AGENT_PEER_H
#define BELAY_DAEMON_AGENT_PEER_H

#include <event2/event.h>
#include <jansson.h>

#include "daemon/agent_logs.h"
#include "daemon/desired.h"
#include "daemon/turn.h"

struct agent_peer;

/* What a peer needs from the link that owns it. */
struct agent_peer_owner {
    void *ctx;
    struct event_base *base;
    struct turn *turn;
    const char *secret;
    int64_t heartbeat_ms;
    struct agent_logs *logs;
    struct desired *desired;
    /* place: what was given to agent_peer_new. */
    void (*logged_in)(
        void *ctx, void *place); /* before the core hears of it: an older peer of that node is closed here */
    void (*due)(void *ctx, void *place);  /* agent_peer_flush is wanted after the next commit */
    void (*gone)(void *ctx, void *place); /* the peer is about to be freed */
};

/* Takes over fd and sends the challenge. place: the owner's own word for this peer. from: its address, for messages. */
struct agent_peer *agent_peer_new(const struct agent_peer_owner *owner, void *place, int fd,
                                  const char *from);

/* Closes and frees. Whether the core hears of a lost link is for the owner's `gone` to decide. */
void agent_peer_close(struct agent_peer *peer);

/* Name of the node once logged in, else NULL. */
const char *agent_peer_node(const struct agent_peer *peer);

/* After a commit: sends the welcome and the acknowledgements that are due. */
void agent_peer_flush(struct agent_peer *peer);
/* After a commit: sends the node's desired set when it differs from the last one sent on this connection. */
void agent_peer_send_desired(struct agent_peer *peer);

/* Queues a message. */
void agent_peer_send(struct agent_peer *peer, const json_t *msg);

#endif
