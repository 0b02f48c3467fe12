/* store_write: one transaction a turn.
 *
 * Order inside it does not matter (all or nothing), so records are simply walked. Large parts of an attempt are skipped when
 * `written` says the row is already there. After any error the transaction is rolled back and the caller ends the process;
 * fingerprints of rows that were rolled back are then never used again. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/mem.h"
#include "daemon/store_private.h"

static const char *const fixed_sql[STORE_STATEMENTS] = {
    [STORE_BEGIN] = "BEGIN IMMEDIATE",
    [STORE_COMMIT] = "COMMIT",
    [STORE_ROLLBACK] = "ROLLBACK",
    [STORE_PUT_SPEC] = "INSERT OR IGNORE INTO specs (job, yaml) VALUES (?, ?)",
    [STORE_PUT_PLACEMENT] = "INSERT OR REPLACE INTO placements (job, number, ranks) VALUES (?, ?, ?)",
    [STORE_PUT_ATTEMPT_NODE] =
        "INSERT OR REPLACE INTO attempt_nodes (job, number, node_rank, node, report) VALUES (?, ?, ?, ?, ?)",
    [STORE_TRIM_ATTEMPT_NODES] = "DELETE FROM attempt_nodes WHERE job = ? AND number = ? AND node_rank >= ?",
    [STORE_PUT_META] = "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)",
};

static const struct columns *upserts[STORE_STATEMENTS] = {
    [STORE_PUT_JOB] = &store_jobs,
    [STORE_PUT_ATTEMPT] = &store_attempts,
    [STORE_PUT_NODE] = &store_nodes,
    [STORE_PUT_EVENT] = &store_events_columns,
    [STORE_PUT_CHECKPOINT] = &store_checkpoints_columns,
};

int store_prepare(struct store *store, struct err *err)
{
    for (size_t i = 0; i < STORE_STATEMENTS; i++) {
        char *sql = upserts[i] ? columns_upsert_sql(upserts[i]) : str_dup(fixed_sql[i]);
        int rc =
            sqlite3_prepare_v3(store->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &store->statement[i], NULL);
        free(sql);
        if (rc != SQLITE_OK)
            return store_fail(store, "prepare statements on", err);
    }
    return 0;
}

/* Steps a statement that gives no rows; bindings are dropped. */
static int run(struct store *store, enum store_statement which)
{
    sqlite3_stmt *stmt = store->statement[which];
    int rc = sqlite3_step(stmt);
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
    return rc == SQLITE_DONE ? 0 : -1;
}

static int put_record(struct store *store, enum store_statement which, const struct columns *columns,
                      const void *record)
{
    if (columns_bind(store->statement[which], columns, record) != SQLITE_OK)
        return -1;
    return run(store, which);
}

static int put_spec(struct store *store, const struct job_record *job)
{
    sqlite3_stmt *stmt = store->statement[STORE_PUT_SPEC];
    if (sqlite3_bind_int64(stmt, 1, job->id) != SQLITE_OK ||
        sqlite3_bind_text(stmt, 2, job->yaml, -1, SQLITE_STATIC) != SQLITE_OK)
        return -1;
    return run(store, STORE_PUT_SPEC);
}

static int put_job(struct store *store, const struct job_record *job)
{
    return put_record(store, STORE_PUT_JOB, &store_jobs, job) != 0 ? -1 : put_spec(store, job);
}

static void append_placed(json_t *to, const struct placed_rank *ranks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct placed_rank *p = &ranks[i];
        json_array_append_new(to, json_pack("[I,s,I,I,I,I,I]", (json_int_t)p->rank, p->node,
                                            (json_int_t)p->slot, (json_int_t)p->tp, (json_int_t)p->pp,
                                            (json_int_t)p->cp, (json_int_t)p->dp));
    }
}

/* The ranks, then the spares, which have rank -1. */
static json_t *placement_json(const struct attempt_record *a)
{
    json_t *ranks = json_array();
    append_placed(ranks, a->placement, a->world);
    append_placed(ranks, a->spares, a->n_spares);
    return ranks;
}

/* Binds json as compact text and releases it; SQLite frees the text. */
static int bind_json(sqlite3_stmt *stmt, int at, json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    return text ? sqlite3_bind_text(stmt, at, text, -1, free) : SQLITE_NOMEM;
}

static int put_placement(struct store *store, const struct attempt_record *a)
{
    sqlite3_stmt *stmt = store->statement[STORE_PUT_PLACEMENT];
    if (!written_placement_changes(store->written, a))
        return 0;
    if (sqlite3_bind_int64(stmt, 1, a->job) != SQLITE_OK ||
        sqlite3_bind_int64(stmt, 2, a->number) != SQLITE_OK ||
        bind_json(stmt, 3, placement_json(a)) != SQLITE_OK)
        return -1;
    return run(store, STORE_PUT_PLACEMENT);
}

static int bind_node_key(sqlite3_stmt *stmt, const struct attempt_record *a, size_t node_rank)
{
    return sqlite3_bind_int64(stmt, 1, a->job) == SQLITE_OK &&
                   sqlite3_bind_int64(stmt, 2, a->number) == SQLITE_OK &&
                   sqlite3_bind_int64(stmt, 3, (int64_t)node_rank) == SQLITE_OK
               ? 0
               : -1;
}

static int put_attempt_node(struct store *store, const struct attempt_record *a, size_t i)
{
    sqlite3_stmt *stmt = store->statement[STORE_PUT_ATTEMPT_NODE];
    const struct attempt_node *n = &a->nodes[i];
    if (!written_node_changes(store->written, a, i))
        return 0;
    if (bind_node_key(stmt, a, i) != 0 || sqlite3_bind_text(stmt, 4, n->node, -1, SQLITE_STATIC) != SQLITE_OK)
        return -1;
    if (n->reported && bind_json(stmt, 5, link_report_encode(&n->report, NULL)) != SQLITE_OK)
        return -1;
    return run(store, STORE_PUT_ATTEMPT_NODE);
}

static int put_attempt_nodes(struct store *store, const struct attempt_record *a)
{
    for (size_t i = 0; i < a->n_nodes; i++) {
        if (put_attempt_node(store, a, i) != 0)
            return -1;
    }
    if (bind_node_key(store->statement[STORE_TRIM_ATTEMPT_NODES], a, a->n_nodes) != 0)
        return -1;
    return run(store, STORE_TRIM_ATTEMPT_NODES);
}

static int put_attempt(struct store *store, const struct attempt_record *a)
{
    if (put_record(store, STORE_PUT_ATTEMPT, &store_attempts, a) != 0 || put_placement(store, a) != 0 ||
        put_attempt_nodes(store, a) != 0)
        return -1;
    if (a->state == ATTEMPT_ENDED)
        written_attempt_forget(store->written, a);
    return 0;
}

static int put_node(struct store *store, const struct node_record *node)
{
    sqlite3_stmt *stmt = store->statement[STORE_PUT_NODE];
    if (bind_json(stmt, (int)store_nodes.count + 1, link_inventory_encode(&node->inventory)) != SQLITE_OK)
        return -1;
    return put_record(store, STORE_PUT_NODE, &store_nodes, node);
}

static int put_meta(struct store *store, const char *name, int64_t value, int64_t *known)
{
    sqlite3_stmt *stmt = store->statement[STORE_PUT_META];
    if (*known == value)
        return 0;
    if (sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC) != SQLITE_OK ||
        sqlite3_bind_int64(stmt, 2, value) != SQLITE_OK)
        return -1;
    *known = value;
    return run(store, STORE_PUT_META);
}

static int put_all(struct store *store, const struct core_changes *c)
{
    for (size_t i = 0; i < c->n_nodes; i++) {
        if (put_node(store, c->nodes[i]) != 0)
            return -1;
    }
    for (size_t i = 0; i < c->n_jobs; i++) {
        if (put_job(store, c->jobs[i]) != 0)
            return -1;
    }
    for (size_t i = 0; i < c->n_attempts; i++) {
        if (put_attempt(store, c->attempts[i]) != 0)
            return -1;
    }
    for (size_t i = 0; i < c->n_events; i++) {
        if (put_record(store, STORE_PUT_EVENT, &store_events_columns, &c->events[i]) != 0)
            return -1;
    }
    for (size_t i = 0; i < c->n_checkpoints; i++) {
        if (put_record(store, STORE_PUT_CHECKPOINT, &store_checkpoints_columns, &c->checkpoints[i]) != 0)
            return -1;
    }
    return put_meta(store, "next_job", c->next_job, &store->next_job) != 0
               ? -1
               : put_meta(store, "next_event", c->next_event, &store->next_event);
}

static bool nothing_in(const struct core_changes *c)
{
    return c->n_jobs + c->n_attempts + c->n_nodes + c->n_events + c->n_checkpoints == 0;
}

int store_commit(struct store *store, const struct core_changes *changes, struct err *err)
{
    if (nothing_in(changes))
        return 0;
    if (run(store, STORE_BEGIN) != 0)
        return store_fail(store, "write", err);
    if (put_all(store, changes) == 0 && run(store, STORE_COMMIT) == 0)
        return 0;
    store_fail(store, "write", err);
    run(store, STORE_ROLLBACK); /* fails when SQLite has already rolled back: the same result */
    return -1;
}
