/* notify: the datagram socket on which ranks report progress, in the style of sd_notify (docs/protocols.md section 4).
 *
 * At most ten messages a second and rank go out: newer values replace older ones that have not left yet. What speaks of
 * a checkpoint (CHECKPOINT_*) is never mixed with the next such datagram: that sends the first at once. Copies in memory (CHECKPOINT_TIER=
 * memory) may come with every step: they go on as MEMORY_CHECKPOINT=step, of which the newest is enough. */
#ifndef BELAY_AGENT_SHIM_NOTIFY_H
#define BELAY_AGENT_SHIM_NOTIFY_H

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

#define NOTIFY_INTERVAL_MS 100

struct notify;

struct notify_events {
    /* The local rank that process `pid` belongs to, or -1. */
    int64_t (*rank_of)(void *ctx, pid_t pid);
    /* Is this one of the local ranks? */
    bool (*is_local)(void *ctx, int64_t rank);
    /* Send these values (object of strings, borrowed). */
    void (*progress)(void *ctx, int64_t rank, json_t *values);
};

/* Listens at path; anybody who can reach the folder may write. NULL with a sentence. */
struct notify *notify_listen(struct event_base *base, const char *path, const struct notify_events *events,
                             void *ctx, struct err *err);
void notify_free(struct notify *n);

/* Sends now what still waits (of every rank). */
void notify_flush(struct notify *n);

/* Reads what has arrived and sends everything on: for when a rank has ended, so that its last words come before its end. */
void notify_drain(struct notify *n);

/* Takes a datagram apart: an object of the KEY=value lines that are well-formed, RANK left out; *rank is -1 when RANK is not
 * there, -2 when it is not a number. Lines that are not KEY=value are counted in *bad. A new reference. */
json_t *notify_parse(const char *text, size_t len, int64_t *rank, size_t *bad);

#endif
