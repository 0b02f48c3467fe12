/* store: the cluster's state in one SQLite file, written in whole transactions and read back at start.
 *
 * WAL with synchronous=FULL: when store_commit has returned 0 the change survives kill -9 and a power cut. One connection, one
 * thread. After a failed write memory is ahead of the disk: the caller must answer "not kept" and end the process. */
#ifndef BELAY_DAEMON_STORE_H
#define BELAY_DAEMON_STORE_H

#include "common/err.h"
#include "daemon/core/core.h"

struct store;

/* Opens or makes the file, brings it to this program's schema (numbered migrations, schema/sql/), and checks it (quick_check).
 * NULL with a sentence: unreadable, damaged, or written by a newer belayd (which is refused, never changed). */
struct store *store_open(const char *path, struct err *err);
void store_close(struct store *store);

/* The schema number this program writes. */
int store_schema_version(void);

/* Where store_load puts each record; the receiver takes over the insides (as core_load_* do). Called in an order that suits
 * the core: nodes, jobs by id, attempts by job and number, checkpoints by job and step, the next ids last. */
struct store_sink {
    void (*node)(void *ctx, struct node_record *node);
    void (*job)(void *ctx, struct job_record *job);
    void (*attempt)(void *ctx, struct attempt_record *attempt);
    void (*checkpoint)(void *ctx, const struct checkpoint_record *checkpoint);
    void (*next_ids)(void *ctx, int64_t next_job, int64_t next_event); /* 1, 1 for a new file */
};
int store_load(struct store *store, const struct store_sink *sink, void *ctx, struct err *err);

/* Writes every record in changes in one transaction (order_nodes and jobs_progress_only are not looked at).
 * Changes without any record write nothing. 0 = on disk. -1: nothing of it may be shown
 * or acknowledged; whether the next start finds it is open (a failed fsync can still have reached the disk). */
int store_commit(struct store *store, const struct core_changes *changes, struct err *err);

/* Committed events, oldest first. after: only ids above it; -1 = the newest `limit`. job 0 and node NULL = any.
 * fn's event is borrowed. */
struct store_events_query {
    int64_t after, job, limit;
    const char *node;
};
int store_events(struct store *store, const struct store_events_query *query,
                 void (*fn)(void *ctx, const struct event_record *event), void *ctx, struct err *err);

/* Committed checkpoints of a job, by step. */
int store_checkpoints(struct store *store, int64_t job,
                      void (*fn)(void *ctx, const struct checkpoint_record *checkpoint), void *ctx,
                      struct err *err);

#endif
