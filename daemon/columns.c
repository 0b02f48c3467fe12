/* columns: one walk over the table for each of: the SQL text, binding, reading.
 *
 * A field is reached by its offset; enums are stored by name. A column that is in the table is written and read back;
 * the round-trip test fails for a field that was forgotten. */
#include "daemon/columns.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "schema/states.h"

/* Appends text to a growing string. */
static void add(char **sql, const char *text)
{
    char *longer = str_printf("%s%s", *sql, text);
    free(*sql);
    *sql = longer;
}

static size_t total(const struct columns *c)
{
    return c->count + (c->extra ? 1 : 0);
}

static const char *name_of(const struct columns *c, size_t i)
{
    return i < c->count ? c->column[i].name : c->extra;
}

/* Appends one item a column: "name, " or "?, " or "name=excluded.name, ". */
static void add_list(char **sql, const struct columns *c, const char *before, bool with_name,
                     const char *after)
{
    for (size_t i = 0; i < total(c); i++) {
        char *item = str_printf("%s%s%s%s", i ? ", " : "", with_name ? name_of(c, i) : "", before, after);
        add(sql, item);
        free(item);
    }
}

char *columns_upsert_sql(const struct columns *c)
{
    char *sql = str_printf("INSERT INTO %s (", c->table);
    add_list(&sql, c, "", true, "");
    add(&sql, ") VALUES (");
    add_list(&sql, c, "?", false, "");
    char *conflict = str_printf(") ON CONFLICT (%s) DO UPDATE SET ", c->key);
    add(&sql, conflict);
    free(conflict);
    for (size_t i = 0; i < total(c); i++) {
        char *item = str_printf("%s%s=excluded.%s", i ? ", " : "", name_of(c, i), name_of(c, i));
        add(&sql, item);
        free(item);
    }
    return sql;
}

char *columns_select_sql(const struct columns *c, const char *tail)
{
    char *sql = str_dup("SELECT ");
    add_list(&sql, c, "", true, "");
    char *from = str_printf(" FROM %s%s", c->table, tail);
    add(&sql, from);
    free(from);
    return sql;
}

static const char *enum_name(enum column_kind kind, int value)
{
    switch (kind) {
    case COLUMN_JOB_STATE:
        return job_state_name((enum job_state)value);
    case COLUMN_ATTEMPT_STATE:
        return attempt_state_name((enum attempt_state)value);
    case COLUMN_OUTCOME:
        return attempt_outcome_name((enum attempt_outcome)value);
    default:
        return node_state_name((enum node_state)value);
    }
}

static int enum_value(enum column_kind kind, const char *name)
{
    switch (kind) {
    case COLUMN_JOB_STATE:
        return job_state_parse(name);
    case COLUMN_ATTEMPT_STATE:
        return attempt_state_parse(name);
    case COLUMN_OUTCOME:
        return attempt_outcome_parse(name);
    default:
        return node_state_parse(name);
    }
}

/* Enums are plain ints in C; every record's enum field has the size of one. */
static int load_int(const void *field)
{
    int value;
    memcpy(&value, field, sizeof(value));
    return value;
}

static int bind_one(sqlite3_stmt *stmt, int at, enum column_kind kind, const void *field)
{
    switch (kind) {
    case COLUMN_INT64:
        return sqlite3_bind_int64(stmt, at, *(const int64_t *)field);
    case COLUMN_INT:
        return sqlite3_bind_int(stmt, at, load_int(field));
    case COLUMN_BOOL:
        return sqlite3_bind_int(stmt, at, *(const bool *)field);
    case COLUMN_REAL:
        return sqlite3_bind_double(stmt, at, *(const double *)field); /* SQLite makes NULL of NaN */
    case COLUMN_TEXT:
        return sqlite3_bind_text(stmt, at, *(char *const *)field, -1, SQLITE_STATIC);
    case COLUMN_CHARS:
        return sqlite3_bind_text(stmt, at, field, -1, SQLITE_STATIC);
    default:
        return sqlite3_bind_text(stmt, at, enum_name(kind, load_int(field)), -1, SQLITE_STATIC);
    }
}

int columns_bind(sqlite3_stmt *stmt, const struct columns *c, const void *record)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct column *col = &c->column[i];
        int rc = bind_one(stmt, (int)i + 1, col->kind, (const char *)record + col->offset);
        if (rc != SQLITE_OK)
            return rc;
    }
    return SQLITE_OK;
}

static int read_chars(const struct column *col, const char *text, char *field, struct err *err)
{
    size_t len = strlen(text);
    if (len >= col->size)
        return err_set(err, "column %s holds %zu bytes, more than the %zu it can", col->name, len,
                       col->size - 1);
    memcpy(field, text, len + 1);
    return 0;
}

static int read_enum(const struct column *col, const char *text, void *field, struct err *err)
{
    int value = enum_value(col->kind, text);
    if (value < 0)
        return err_set(err, "column %s holds \"%.64s\", which is no state this version knows", col->name,
                       text);
    memcpy(field, &value, sizeof(value));
    return 0;
}

/* Integers, bools and reals; false for a kind that is text. */
static bool read_number(sqlite3_stmt *stmt, int at, enum column_kind kind, void *field)
{
    int value = sqlite3_column_int(stmt, at);
    bool null = sqlite3_column_type(stmt, at) == SQLITE_NULL;
    switch (kind) {
    case COLUMN_INT64:
        *(int64_t *)field = sqlite3_column_int64(stmt, at);
        return true;
    case COLUMN_INT:
        memcpy(field, &value, sizeof(value));
        return true;
    case COLUMN_BOOL:
        *(bool *)field = value != 0;
        return true;
    case COLUMN_REAL:
        *(double *)field = null ? NAN : sqlite3_column_double(stmt, at);
        return true;
    default:
        return false;
    }
}

static int read_one(sqlite3_stmt *stmt, int at, const struct column *col, void *field, struct err *err)
{
    if (read_number(stmt, at, col->kind, field))
        return 0;
    const char *text = (const char *)sqlite3_column_text(stmt, at);
    if (col->kind == COLUMN_TEXT) {
        *(char **)field = str_dup(text);
        return 0;
    }
    if (!text)
        return err_set(err, "column %s is empty", col->name);
    return col->kind == COLUMN_CHARS ? read_chars(col, text, field, err) : read_enum(col, text, field, err);
}

int columns_read(sqlite3_stmt *stmt, const struct columns *c, void *record, struct err *err)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct column *col = &c->column[i];
        if (read_one(stmt, (int)i, col, (char *)record + col->offset, err) != 0)
            return -1;
    }
    return 0;
}
