/* agent_logs: pieces of logs asked from agents: numbers each question, brings the answer back, gives up after a while. */
#ifndef BELAY_DAEMON_AGENT_LOGS_H
#define BELAY_DAEMON_AGENT_LOGS_H

#include <event2/event.h>
#include <jansson.h>

#include "daemon/agent_link.h"

struct agent_logs;
struct agent_peer;

struct agent_logs *agent_logs_new(struct event_base *base);
/* Every open question is answered with a sentence first. */
void agent_logs_free(struct agent_logs *logs);

/* Sends the question to peer; fn as in agent_link_read_log. */
void agent_logs_ask(struct agent_logs *logs, struct agent_peer *peer, const struct agent_log_request *request,
                    void (*fn)(void *ctx, const struct agent_log *log, const char *error), void *ctx);

/* A "log" message came from peer. An answer nobody waits for (any more) is dropped. -1: malformed. */
int agent_logs_answer(struct agent_logs *logs, struct agent_peer *peer, const json_t *msg, struct err *err);

/* The peer is gone: its questions are answered with a sentence. */
void agent_logs_peer_gone(struct agent_logs *logs, struct agent_peer *peer);

#endif
