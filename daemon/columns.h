/* columns: tables that say which field of a record is which column, so that SQL, binding and reading never disagree. */
#ifndef BELAY_DAEMON_COLUMNS_H
#define BELAY_DAEMON_COLUMNS_H

#include <sqlite3.h>
#include <stddef.h>

#include "common/err.h"

enum column_kind {
    COLUMN_INT64,
    COLUMN_INT,
    COLUMN_BOOL,
    COLUMN_REAL,  /* NaN is stored as NULL and read back as NaN */
    COLUMN_TEXT,  /* char *, owned by the record; NULL stays NULL */
    COLUMN_CHARS, /* char array inside the record */
    COLUMN_JOB_STATE,
    COLUMN_ATTEMPT_STATE,
    COLUMN_OUTCOME,
    COLUMN_NODE_STATE,
};

struct column {
    const char *name;
    enum column_kind kind;
    size_t offset, size; /* of the field in its record */
};

struct columns {
    const char *table;
    const char *key; /* "id", or "job, number": the conflict target of the upsert */
    const struct column *column;
    size_t count;
    const char *extra; /* one more text column that the caller binds and reads itself, or NULL */
};

#define COLUMN(record, column_name, column_kind, field)                                                      \
    {                                                                                                        \
        column_name, column_kind, offsetof(struct record, field), sizeof(((struct record *)0)->field)        \
    }

/* "INSERT … ON CONFLICT (key) DO UPDATE …": parameter i+1 is column i, then the extra one. Fresh string. */
char *columns_upsert_sql(const struct columns *c);

/* "SELECT … FROM table", columns in order, then the extra one, then `tail` (" ORDER BY …"). Fresh string. */
char *columns_select_sql(const struct columns *c, const char *tail);

/* Binds every column of record. Strings are not copied: the record must outlive the step. An SQLite result code. */
int columns_bind(sqlite3_stmt *stmt, const struct columns *c, const void *record);

/* Fills the fields of record (zeroed by the caller) from the current row; owned strings are fresh.
 * -1 with a sentence for a state name that is not known or text that does not fit. */
int columns_read(sqlite3_stmt *stmt, const struct columns *c, void *record, struct err *err);

#endif
