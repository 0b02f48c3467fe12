/* wireup: joins the PMIx server of this node with the tree of shims, so that fences and direct modex span the job. */
#ifndef BELAY_AGENT_SHIM_WIREUP_H
#define BELAY_AGENT_SHIM_WIREUP_H

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "schema/link.h"

struct wireup;

struct wireup_events {
    void (*connected)(void *ctx, int64_t rank);
    void (*finalized)(void *ctx, int64_t rank);
    void (*aborted)(void *ctx, int64_t rank, int code, const char *message);
    void (*memory)(void *ctx, int fd, const json_t *line); /* as of overlay_events */
};

/* Listens for the shims below this one. NULL with a sentence. events must outlive the result; order only this call, but for
 * its token. */
struct wireup *wireup_open(struct event_base *base, bool loopback, const struct link_order *order,
                           const struct wireup_events *events, void *ctx, struct err *err);
int64_t wireup_port(const struct wireup *w);

/* Starts the PMIx server, whose files go to dir; node is this node's name. 0 or -1. A second call does nothing. */
int wireup_start_server(struct wireup *w, const struct link_order *order, const char *dir, const char *node,
                        struct err *err);

/* The map is known: describes the job to PMIx and links to the parent. order must stay until wireup_close. */
int wireup_go(struct wireup *w, const struct link_order *order, uid_t uid, gid_t gid, struct err *err);

/* Adds PMIx's part to the environment of a rank. */
int wireup_env(struct wireup *w, int64_t rank, char ***env, struct err *err);

/* Handles what PMIx has already said. */
void wireup_drain(struct wireup *w);

/* The ranks of this node are gone: answers what is outstanding and makes PMIx forget the job. The tree goes on, because
 * others may be linked through this node. */
void wireup_end(struct wireup *w);
void wireup_close(struct wireup *w);

#endif
