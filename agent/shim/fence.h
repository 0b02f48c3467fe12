/* fence: collectives over the tree of shims. Contributions are gathered upwards, the result comes down.
 *
 * A fence is known by its key: "*" (every rank of the job) or the sorted ranks "0,5,7". A node that hosts none of those
 * ranks only passes on. Rounds of one key follow each other: a contribution of the next round, which a quick child may send
 * early, is kept for it. What comes out is the plain concatenation of all nodes' data in node order, the same bytes on every
 * node, and the first status that was not success. No sockets and no PMIx in here: the caller's functions do both. */
#ifndef BELAY_AGENT_SHIM_FENCE_H
#define BELAY_AGENT_SHIM_FENCE_H

#include <stddef.h>
#include <stdint.h>

#include "agent/shim/rankmap.h"
#include "common/err.h"

struct fences;

struct fence_ops {
    /* Send this subtree's packed contributions to the parent; data is borrowed. */
    void (*up)(void *ctx, const char *key, int status, const void *data, size_t len);
    /* Send the result to a child; data is borrowed. */
    void (*down)(void *ctx, int64_t child, const char *key, int status, const void *data, size_t len);
    /* The fence of this waiter is over; data (malloc'ed, may be NULL) belongs to the receiver. */
    void (*done)(void *ctx, void *waiter, int status, void *data, size_t len);
};

/* map and ops must outlive the result. */
struct fences *fences_new(int64_t node_rank, const struct rankmap *map, const struct fence_ops *ops,
                          void *ctx);
/* Fails what is outstanding with `status` first (through done). */
void fences_free(struct fences *f, int status);

/* The ranks on this node have all arrived. waiter must not be NULL; data is copied. */
void fences_local(struct fences *f, const char *key, int status, const void *data, size_t len, void *waiter);

/* What a neighbour sent. 0, or -1 with a sentence when it makes no sense (the link should then be closed). */
int fences_from_child(struct fences *f, int64_t child, const char *key, int status, const void *data,
                      size_t len, struct err *err);
void fences_from_parent(struct fences *f, const char *key, int status, const void *data, size_t len);

/* Ends every outstanding fence on this node with `status` (a neighbour is lost); later ones start afresh. */
void fences_fail(struct fences *f, int status);

/* Outstanding rounds on this node. */
size_t fences_outstanding(const struct fences *f);

/* First of two statuses that is not success (0). */
int fence_status_combine(int a, int b);

/* Is key "*" or an ascending list of ranks? */
bool fence_key_valid(const char *key);

#endif
