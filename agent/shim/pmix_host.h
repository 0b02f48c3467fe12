/* pmix_host: everything that touches the PMIx library. The shim is the PMIx server of the ranks on its node.
 *
 * The library calls back on a thread of its own; those calls only copy their arguments into a queue. Everything here is called
 * on the main thread, and so are the events: from the loop, or from pmix_host_drain. One server a process. */
#ifndef BELAY_AGENT_SHIM_PMIX_HOST_H
#define BELAY_AGENT_SHIM_PMIX_HOST_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/shim/rankmap.h"
#include "common/err.h"
#include "schema/link.h"

struct pmix_host;
struct pmix_reply; /* a call of the library that waits for its answer */

/* Statuses that others need by name; all are pmix_status_t values. */
extern const int PMIX_HOST_LOST, PMIX_HOST_NOT_FOUND;

struct pmix_host_events {
    void (*connected)(void *ctx, int64_t rank);
    void (*finalized)(void *ctx, int64_t rank);
    /* The rank asked for the end of the job; answer when its processes have been dealt with. */
    void (*aborted)(void *ctx, int64_t rank, int code, const char *message, struct pmix_reply *reply);
    /* All local participants of a fence have arrived; key as in fence.h; data is borrowed. */
    void (*fence)(void *ctx, const char *key, int status, const void *data, size_t len,
                  struct pmix_reply *reply);
    /* A local rank wants the blob of a rank elsewhere. */
    void (*modex)(void *ctx, int64_t rank, struct pmix_reply *reply);
    /* What pmix_host_fetch asked for; data is borrowed. */
    void (*fetched)(void *ctx, int64_t node, uint64_t id, int status, const void *data, size_t len);
};

struct pmix_host_config {
    const char *dir;  /* for the library's files */
    const char *node; /* this node's name, as in the map of the go order */
    int64_t node_rank;
    const char *nspace; /* unique to the attempt: Open MPI makes its job number from it */
};

/* Starts the server (20-45 ms). events must outlive it. NULL with a sentence. */
struct pmix_host *pmix_host_start(struct event_base *base, const struct pmix_host_config *config,
                                  const struct pmix_host_events *events, void *ctx, struct err *err);

/* Tells the library about the whole job, and about the local ranks, which will run as uid/gid. */
int pmix_host_register(struct pmix_host *h, const struct link_order *order, uid_t uid, gid_t gid,
                       struct err *err);

/* Adds what a rank's environment needs to find the server. */
int pmix_host_env(struct pmix_host *h, int64_t rank, char ***env, struct err *err);

/* Asks the library for the blob of a local rank, for `node`; the answer is the event `fetched`. */
void pmix_host_fetch(struct pmix_host *h, int64_t rank, int64_t node, uint64_t id);

/* Answers a call, once. data (malloc'ed or NULL) is taken over. */
void pmix_reply_send(struct pmix_reply *reply, int status, void *data, size_t len);

/* Handles what is queued now. Call before believing that a rank which ended had not finalized. */
void pmix_host_drain(struct pmix_host *h);

/* Forgets the job. Only after every reply was sent: those that are outstanding point into the library. */
void pmix_host_end_job(struct pmix_host *h);

/* Stops the server. */
void pmix_host_stop(struct pmix_host *h);

#endif
