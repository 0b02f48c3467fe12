/* agent_link: the TCP side of the controller: agents log in, report and get their orders (docs/protocols.md section 1).
 *
 * What comes in goes to the core; what goes out (welcome, desired sets, acknowledgements) is sent by the commit hook, so
 * nothing is promised that is not on disk. */
#ifndef BELAY_DAEMON_AGENT_LINK_H
#define BELAY_DAEMON_AGENT_LINK_H

#include <event2/event.h>

#include "common/err.h"
#include "daemon/turn.h"

struct agent_link;

struct agent_link_config {
    const char *host, *secret;
    int port;           /* 0 = any */
    int preferred_port; /* tried first when port is 0; 0 = none */
    int64_t heartbeat_ms;
};

/* Listens. secret must outlive the link. NULL with a sentence. */
struct agent_link *agent_link_new(struct event_base *base, struct turn *turn,
                                  const struct agent_link_config *config, struct err *err);
void agent_link_free(struct agent_link *link);

/* The TCP port it listens on, also when 0 was asked for. */
int agent_link_port(const struct agent_link *link);

/* A piece of a rank's log, as the agent read it; data is base64, borrowed. */
struct agent_log {
    int64_t offset, next, size;
    const char *data;
};
struct agent_log_request {
    const char *node;
    int64_t job, attempt, rank, offset, limit;
};

/* Asks the node's agent. fn is called exactly once, later: with the piece, or with log NULL and a sentence (agent's own words,
 * link lost, or no answer within a few seconds). -1 at once (fn is not called) when the node has no link. */
int agent_link_read_log(struct agent_link *link, const struct agent_log_request *request,
                        void (*fn)(void *ctx, const struct agent_log *log, const char *error), void *ctx,
                        struct err *err);

#endif
