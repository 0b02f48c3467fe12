/* callers: those who talk to the memory tier over its sockets of packets: ranks, and the shim of the next attempt.
 *
 * A caller is known by a number, for it may be gone when its answer comes. Whoever is of another user, says what is no packet, or does not read
 * its answers is dropped. */
#ifndef BELAY_AGENT_SHIM_CALLERS_H
#define BELAY_AGENT_SHIM_CALLERS_H

#include <event2/event.h>
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/shim/images.h"
#include "common/err.h"

struct callers;

/* What a caller said: msg is borrowed, passed a descriptor to be closed by the one who is called, or -1. */
typedef void callers_said(void *ctx, int64_t caller, const json_t *msg, int passed);

/* For processes of this user and of uid; at most `max` at a time. */
struct callers *callers_new(struct event_base *base, uid_t uid, size_t max, callers_said *said, void *ctx);
void callers_free(struct callers *c); /* takes NULL; removes the sockets */

/* Listens at path; at most two of them. 0 or -1 with a sentence. */
int callers_listen(struct callers *c, const char *path, mode_t mode, struct err *err);
/* No longer listens there; who has called already stays. */
void callers_unlisten(struct callers *c, const char *path);

/* Says msg (taken over), with the descriptor of an image unless it is NULL, if the caller is still there. */
void callers_answer(struct callers *c, int64_t caller, json_t *msg, struct held *image);

#endif
