/* shimproc: one belay-shim process as the agent sees it: starting it, finding it again, its socket, its end. */
#ifndef BELAY_AGENT_SHIMPROC_H
#define BELAY_AGENT_SHIMPROC_H

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>

#include "common/err.h"
#include "common/procid.h"

struct shimproc;

#define SHIMPROC_STATUS_UNKNOWN (-1) /* it was no child of this agent */

/* Called from the loop, never from within a shimproc_* call. `dead` comes once and last; shimproc_free is allowed in it, in no other. */
struct shimproc_hooks {
    void *ctx;
    void (*connected)(void *ctx);
    void (*disconnected)(void *ctx); /* it will be tried again */
    void (*message)(void *ctx, const json_t *msg);
    void (*dead)(void *ctx, int wait_status); /* or SHIMPROC_STATUS_UNKNOWN */
};

/* Starts `program FOLDER` in a session of its own, output to FOLDER/shim.log, its identity in FOLDER/shim.pid before it runs.
 * NULL with a sentence. */
struct shimproc *shimproc_start(struct event_base *base, const char *program, const char *folder,
                                const struct shimproc_hooks *hooks, struct err *err);

/* Takes up a living shim that an earlier agent started. NULL when it is gone. */
struct shimproc *shimproc_attach(struct event_base *base, const struct procid *id, const char *folder,
                                 const struct shimproc_hooks *hooks, struct err *err);

/* Lets go of it; the process itself goes on. */
void shimproc_free(struct shimproc *s);

/* Queues a message; false when there is no connection or the shim does not read. */
bool shimproc_send(struct shimproc *s, const json_t *msg);
bool shimproc_connected(const struct shimproc *s);
void shimproc_kill(struct shimproc *s); /* SIGKILL */
pid_t shimproc_pid(const struct shimproc *s);

/* Someone else reaped this child. */
void shimproc_reaped(struct shimproc *s, int wait_status);

#endif
