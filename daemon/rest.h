/* rest: the REST API of docs/protocols.md section 5 on the unix socket; who asks is known by peer credentials.
 *
 * Every answer, a refusal too, is made after a commit: what a client reads is on disk. */
#ifndef BELAY_DAEMON_REST_H
#define BELAY_DAEMON_REST_H

#include <event2/event.h>

#include "daemon/agent_link.h"
#include "daemon/turn.h"

struct rest;

/* Listens at path (mode 0666; an old socket there is replaced). dir: shown to clients. link: for logs; borrowed. NULL with a
 * sentence. */
struct rest *rest_new(struct event_base *base, struct turn *turn, struct agent_link *link, const char *dir,
                      const char *path, struct err *err);

/* Takes no new connections and answers everybody who waits with 503; replies still need the loop to be written. */
void rest_stop(struct rest *rest);
void rest_free(struct rest *rest);

#endif
