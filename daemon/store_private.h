/* store_private: what the files of the store share: the connection, its prepared statements, the column tables. */
#ifndef BELAY_DAEMON_STORE_PRIVATE_H
#define BELAY_DAEMON_STORE_PRIVATE_H

#include "daemon/columns.h"
#include "daemon/store.h"
#include "daemon/written.h"

enum store_statement {
    STORE_BEGIN,
    STORE_COMMIT,
    STORE_ROLLBACK,
    STORE_PUT_JOB,
    STORE_PUT_SPEC,
    STORE_PUT_ATTEMPT,
    STORE_PUT_PLACEMENT,
    STORE_PUT_ATTEMPT_NODE,
    STORE_TRIM_ATTEMPT_NODES,
    STORE_PUT_NODE,
    STORE_PUT_EVENT,
    STORE_PUT_CHECKPOINT,
    STORE_PUT_META,
    STORE_STATEMENTS
};

struct store {
    sqlite3 *db;
    char *path;
    sqlite3_stmt *statement[STORE_STATEMENTS];
    struct written *written;
    int64_t next_job, next_event; /* as on disk */
};

extern const struct columns store_jobs, store_attempts, store_nodes, store_events_columns,
    store_checkpoints_columns;

/* Prepares every statement of the writer. */
int store_prepare(struct store *store, struct err *err);

/* "cannot WHAT PATH: SQLite's words"; returns -1. */
int store_fail(const struct store *store, const char *what, struct err *err);

#endif
