/* store: opening, migrating and closing the database. Writing is in store_write.c, reading in store_read.c.
 *
 * PRAGMA user_version is the number of the last migration that ran; each runs in a transaction of its own together with the
 * new number, so a kill in between leaves a whole older schema. A newer number than ours is refused before anything is written. */
#include "daemon/store.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"
#include "daemon/store_private.h"
#include "migrations.inc"

#define BUSY_TIMEOUT_MS 5000 /* a person's sqlite3 shell may hold the file for a moment */

int store_schema_version(void)
{
    return (int)(sizeof(migrations) / sizeof(migrations[0]));
}

/* What to do next, where no retry helps. */
static const char *advice(const struct store *store)
{
    int code = sqlite3_errcode(store->db);
    bool damaged = code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
    return damaged ? ": it is damaged; restore it from a backup, or move it away to start empty" : "";
}

int store_fail(const struct store *store, const char *what, struct err *err)
{
    return err_set(err, "cannot %s %s: %s (SQLite code %d)%s", what, store->path, sqlite3_errmsg(store->db),
                   sqlite3_extended_errcode(store->db), advice(store));
}

static int run_sql(struct store *store, const char *sql, const char *what, struct err *err)
{
    return sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : store_fail(store, what, err);
}

/* First column of the first row as a fresh string, or NULL. */
static char *query_text(struct store *store, const char *sql, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    char *text = NULL;
    if (sqlite3_prepare_v2(store->db, sql, -1, &stmt, NULL) == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW)
        text = str_dup((const char *)sqlite3_column_text(stmt, 0));
    if (!text)
        store_fail(store, "read", err);
    sqlite3_finalize(stmt);
    return text;
}

static int read_version(struct store *store, int *version, struct err *err)
{
    char *text = query_text(store, "PRAGMA user_version", err);
    if (!text)
        return -1;
    *version = (int)strtol(text, NULL, 10);
    free(text);
    if (*version > store_schema_version())
        return err_set(
            err,
            "%s was written by a newer belayd (schema %d, this one knows %d): install that version, or "
            "start with another --dir",
            store->path, *version, store_schema_version());
    return 0;
}

static int check(struct store *store, struct err *err)
{
    char *text = query_text(store, "PRAGMA quick_check(1)", err);
    if (!text)
        return -1;
    int ok = strcmp(text, "ok") == 0;
    if (!ok)
        err_set(err, "%s is damaged (%s): restore it from a backup, or move it away to start empty",
                store->path, text);
    free(text);
    return ok ? 0 : -1;
}

static int migrate_one(struct store *store, int version, struct err *err)
{
    char *sql = str_printf("BEGIN IMMEDIATE;\n%s\nPRAGMA user_version = %d;\nCOMMIT;", migrations[version],
                           version + 1);
    int rc = run_sql(store, sql, "bring to the current schema", err);
    if (rc != 0)
        sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL); /* fails when nothing is open: fine */
    free(sql);
    return rc;
}

static int migrate(struct store *store, struct err *err)
{
    int version;
    if (read_version(store, &version, err) != 0)
        return -1;
    for (; version < store_schema_version(); version++) {
        if (migrate_one(store, version, err) != 0)
            return -1;
    }
    return 0;
}

/* The file is made here, so that it is never readable by others, whatever the umask. */
static int make_private(const char *path, struct err *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(err, "cannot open %s", path);
    close(fd);
    return 0;
}

static int open_db(struct store *store, struct err *err)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    int version;
    if (make_private(store->path, err) != 0)
        return -1;
    if (sqlite3_open_v2(store->path, &store->db, flags, NULL) != SQLITE_OK)
        return store_fail(store, "open", err);
    sqlite3_busy_timeout(store->db, BUSY_TIMEOUT_MS);
    if (read_version(store, &version, err) != 0)
        return -1;
    if (run_sql(store, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA trusted_schema=OFF",
                "set up", err) != 0)
        return -1;
    if (check(store, err) != 0 || migrate(store, err) != 0)
        return -1;
    return store_prepare(store, err);
}

struct store *store_open(const char *path, struct err *err)
{
    struct store *store = mem_zero(1, sizeof(*store));
    store->path = str_dup(path);
    store->written = written_new();
    if (open_db(store, err) == 0)
        return store;
    store_close(store);
    return NULL;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    for (size_t i = 0; i < STORE_STATEMENTS; i++)
        sqlite3_finalize(store->statement[i]);
    sqlite3_close(store->db); /* a failed checkpoint of the WAL is made good at the next open */
    written_free(store->written);
    free(store->path);
    free(store);
}
