/* store_read: rows back into records, each error naming the row.
 *
 * A row that cannot be understood stops the start: going on without it would lose a job silently. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/mem.h"
#include "daemon/store_private.h"

/* Calls fn for each row of sql. fn returns 0, or -1 with a sentence to stop. */
static int each_row(struct store *store, const char *sql,
                    int (*fn)(void *ctx, sqlite3_stmt *row, struct err *err), void *ctx, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(store->db, sql, -1, &stmt, NULL);
    int result = 0;
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        rc = sqlite3_step(stmt);
        if (rc == SQLITE_ROW && fn(ctx, stmt, err) != 0) {
            result = err_prefix(err, "%s", store->path);
            break;
        }
    }
    if (result == 0 && rc != SQLITE_DONE)
        result = store_fail(store, "read", err);
    sqlite3_finalize(stmt);
    return result;
}

static int each_record(struct store *store, const struct columns *columns, const char *tail,
                       int (*fn)(void *ctx, sqlite3_stmt *row, struct err *err), void *ctx, struct err *err)
{
    char *sql = columns_select_sql(columns, tail);
    int rc = each_row(store, sql, fn, ctx, err);
    free(sql);
    return rc;
}

struct loading {
    struct store *store;
    const struct store_sink *sink;
    void *ctx;
    struct attempt_record *attempt; /* the one being filled */
    int64_t next_job, next_event;
    struct world {
        int64_t job, replica, least, most; /* ranks of a replica; of the smallest and the largest size */
    } * worlds; /* of the jobs, by id: what the placements of their attempts must have */
    size_t n_worlds, room;
};

static json_t *row_json(sqlite3_stmt *row, int at, struct err *err)
{
    json_error_t why;
    const char *text = (const char *)sqlite3_column_text(row, at);
    json_t *json = text ? json_loads(text, 0, &why) : NULL;
    if (!json)
        err_set(err, "column %s is not JSON", sqlite3_column_name(row, at));
    return json;
}

static int load_node(void *ctx, sqlite3_stmt *row, struct err *err)
{
    struct loading *l = ctx;
    struct node_record node = {0};
    if (columns_read(row, &store_nodes, &node, err) != 0)
        return err_prefix(err, "a row of nodes");
    json_t *inventory = row_json(row, (int)store_nodes.count, err);
    int rc = inventory ? link_inventory_decode(inventory, &node.inventory, err) : -1;
    json_decref(inventory);
    if (rc != 0) {
        free(node.reason);
        return err_prefix(err, "node %s", node.name);
    }
    l->sink->node(l->ctx, &node);
    return 0;
}

static void job_clear(struct job_record *job)
{
    free(job->key);
    free(job->user);
    free(job->cwd);
    free(job->yaml);
    free(job->reason);
}

/* yaml was printed by job_spec_to_yaml, so it parses unless another version wrote it. */
static int parse_spec(struct job_record *job, const char *yaml, struct err *err)
{
    static struct job_diagnostics diagnostics; /* 10 KiB: kept off the stack */
    if (!yaml)
        return err_set(err, "job %lld: its job file is missing", (long long)job->id);
    job->yaml = str_dup(yaml);
    diagnostics.count = 0;
    if (job_spec_parse(yaml, strlen(yaml), "stored job file", NULL, 0, &job->spec, &diagnostics) != 0)
        return err_set(err, "job %lld: its job file is not understood by this version: %s",
                       (long long)job->id, diagnostics.text[0]);
    return 0;
}

static struct world world_of(const struct job_record *job)
{
    const struct job_spec *s = job->spec;
    int64_t replica = s->tp * s->pp * s->cp;
    return (struct world){job->id, replica, replica * job_dp_at_least(s, 1),
                          replica * job_dp_at_most(s, INT64_MAX)};
}

static void hand_over(struct loading *l, struct job_record *job)
{
    l->worlds = mem_one_more(l->worlds, l->n_worlds, &l->room, sizeof(*l->worlds));
    l->worlds[l->n_worlds++] = world_of(job);
    l->sink->job(l->ctx, job);
}

static int load_job(void *ctx, sqlite3_stmt *row, struct err *err)
{
    struct loading *l = ctx;
    struct job_record job = {0};
    int rc = columns_read(row, &store_jobs, &job, err);
    if (rc != 0)
        err_prefix(err, "job %lld", (long long)job.id);
    else
        rc = parse_spec(&job, (const char *)sqlite3_column_text(row, (int)store_jobs.count), err);
    if (rc != 0)
        job_clear(&job);
    else
        hand_over(l, &job);
    return rc;
}

static int read_placed(const json_t *item, struct placed_rank *p)
{
    json_int_t n[6];
    const char *node;
    if (json_unpack((json_t *)item, "[I,s,I,I,I,I,I]", &n[0], &node, &n[1], &n[2], &n[3], &n[4], &n[5]) !=
            0 ||
        strlen(node) >= sizeof(p->node))
        return -1;
    *p = (struct placed_rank){.rank = n[0], .slot = n[1], .tp = n[2], .pp = n[3], .cp = n[4], .dp = n[5]};
    memcpy(p->node, node, strlen(node) + 1);
    return 0;
}

/* Spares stand behind the ranks. */
static void split_spares(struct attempt_record *a, size_t n)
{
    a->n_spares = n - a->world;
    a->spares = a->n_spares > 0 ? mem_zero(a->n_spares, sizeof(*a->spares)) : NULL;
    if (a->n_spares > 0)
        memcpy(a->spares, a->placement + a->world, a->n_spares * sizeof(*a->spares));
}

static int load_placement(void *ctx, sqlite3_stmt *row, struct err *err)
{
    struct attempt_record *a = ((struct loading *)ctx)->attempt;
    json_t *ranks = row_json(row, 0, err), *item;
    size_t i;
    int rc = ranks ? 0 : -1;
    a->placement = mem_zero(json_array_size(ranks) + 1, sizeof(*a->placement));
    json_array_foreach(ranks, i, item)
    {
        if (read_placed(item, &a->placement[i]) != 0)
            rc = err_set(err, "entry %zu of the placement is not understood", i);
        a->world += rc == 0 && a->placement[i].rank >= 0;
    }
    split_spares(a, json_array_size(ranks));
    json_decref(ranks);
    return rc;
}

static int load_report(struct attempt_node *n, sqlite3_stmt *row, struct err *err)
{
    if (sqlite3_column_type(row, 1) == SQLITE_NULL)
        return 0;
    json_t *json = row_json(row, 1, err);
    int rc = json ? link_report_decode(json, &n->report, err) : -1;
    n->reported = rc == 0;
    json_decref(json);
    return rc;
}

static int load_attempt_node(void *ctx, sqlite3_stmt *row, struct err *err)
{
    struct attempt_record *a = ((struct loading *)ctx)->attempt;
    const char *name = (const char *)sqlite3_column_text(row, 0);
    a->nodes = mem_grow(a->nodes, a->n_nodes + 1, sizeof(*a->nodes));
    struct attempt_node *n = &a->nodes[a->n_nodes++];
    memset(n, 0, sizeof(*n));
    if (!name || strlen(name) >= sizeof(n->node))
        return err_set(err, "the name of node %zu is too long", a->n_nodes - 1);
    memcpy(n->node, name, strlen(name) + 1);
    return load_report(n, row, err);
}

static int load_attempt_parts(struct loading *l, struct err *err)
{
    long long job = l->attempt->job, number = l->attempt->number;
    char *placement =
        str_printf("SELECT ranks FROM placements WHERE job = %lld AND number = %lld", job, number);
    char *nodes = str_printf("SELECT node, report FROM attempt_nodes WHERE job = %lld AND number = %lld "
                             "ORDER BY node_rank",
                             job, number);
    int rc = each_row(l->store, placement, load_placement, l, err);
    if (rc == 0)
        rc = each_row(l->store, nodes, load_attempt_node, l, err);
    free(placement);
    free(nodes);
    return rc;
}

static int by_job(const void *key, const void *item)
{
    int64_t a = *(const int64_t *)key, b = ((const struct world *)item)->job;
    return a < b ? -1 : a > b;
}

static int wrong_size(const struct world *w, const struct attempt_record *a, struct err *err)
{
    char up_to[32] = "";
    if (w->least < w->most)
        (void)snprintf(up_to, sizeof(up_to), " to %lld", (long long)w->most);
    return err_set(err, "its placement has %zu ranks, the job has %lld%s", a->world, (long long)w->least,
                   up_to);
}

/* The core relies on it: every rank of the job once, in order, each on a slot of a node. */
static int check_placement(const struct loading *l, const struct attempt_record *a, struct err *err)
{
    const struct world *w =
        l->n_worlds > 0 ? bsearch(&a->job, l->worlds, l->n_worlds, sizeof(*l->worlds), by_job) : NULL;
    int64_t n = (int64_t)a->world;
    if (w && (n < w->least || n > w->most || n % w->replica != 0))
        return wrong_size(w, a, err);
    for (size_t i = 0; i < a->world + a->n_spares; i++) {
        const struct placed_rank *p = i < a->world ? &a->placement[i] : &a->spares[i - a->world];
        bool in_order = i < a->world ? p->rank == (int64_t)i : p->rank == -1;
        if (!in_order || !p->node[0] || p->slot < 0 || p->slot >= LINK_RANKS_PER_NODE_MAX)
            return err_set(err, "entry %zu of the placement cannot be: rank %lld on slot %lld of node \"%s\"",
                           i, (long long)p->rank, (long long)p->slot, p->node);
    }
    return 0;
}

static void attempt_clear(struct attempt_record *a)
{
    for (size_t i = 0; i < a->n_nodes; i++)
        link_report_clear(&a->nodes[i].report);
    free(a->nodes);
    free(a->placement);
    free(a->spares);
    free(a->reason);
}

static int load_attempt(void *ctx, sqlite3_stmt *row, struct err *err)
{
    struct loading *l = ctx;
    struct attempt_record a = {0};
    l->attempt = &a;
    int rc = columns_read(row, &store_attempts, &a, err);
    int64_t newest = sqlite3_column_int64(row, (int)store_attempts.count);
    if (rc == 0 && (a.state != ATTEMPT_ENDED || a.number + ATTEMPTS_DETAILED > newest))
        rc = load_attempt_parts(l, err) != 0 ? -1 : check_placement(l, &a, err);
    l->attempt = NULL;
    if (rc == 0) {
        l->sink->attempt(l->ctx, &a);
        return 0;
    }
    attempt_clear(&a);
    return err_prefix(err, "attempt %lld of job %lld", (long long)a.number, (long long)a.job);
}

static int load_checkpoint(void *ctx, sqlite3_stmt *row, struct err *err)
{
    struct loading *l = ctx;
    struct checkpoint_record c = {0};
    if (columns_read(row, &store_checkpoints_columns, &c, err) != 0)
        return -1;
    l->sink->checkpoint(l->ctx, &c);
    free(c.path);
    return 0;
}

static int load_meta(void *ctx, sqlite3_stmt *row, struct err *err)
{
    struct loading *l = ctx;
    const char *name = (const char *)sqlite3_column_text(row, 0);
    if (!name)
        return err_set(err, "a row of meta has no name");
    if (strcmp(name, "next_job") == 0)
        l->next_job = sqlite3_column_int64(row, 1);
    if (strcmp(name, "next_event") == 0)
        l->next_event = sqlite3_column_int64(row, 1);
    return 0;
}

/* Jobs with their job file beside them. */
static int load_jobs(struct loading *l, struct err *err)
{
    struct columns joined = store_jobs;
    joined.extra = "(SELECT yaml FROM specs WHERE specs.job = jobs.id)";
    return each_record(l->store, &joined, " ORDER BY id", load_job, l, err);
}

/* Attempts with the number of their job's newest beside them. */
static int load_attempts(struct loading *l, struct err *err)
{
    struct columns joined = store_attempts;
    joined.extra = "(SELECT attempt FROM jobs WHERE jobs.id = attempts.job)";
    return each_record(l->store, &joined, " ORDER BY job, number", load_attempt, l, err);
}

static int load_all(struct loading *l, struct err *err)
{
    if (each_record(l->store, &store_nodes, " ORDER BY name", load_node, l, err) != 0 ||
        load_jobs(l, err) != 0 || load_attempts(l, err) != 0 ||
        each_record(l->store, &store_checkpoints_columns, " ORDER BY job, step", load_checkpoint, l, err) !=
            0 ||
        each_row(l->store, "SELECT name, value FROM meta", load_meta, l, err) != 0)
        return -1;
    l->sink->next_ids(l->ctx, l->next_job, l->next_event);
    return 0;
}

int store_load(struct store *store, const struct store_sink *sink, void *ctx, struct err *err)
{
    struct loading l = {.store = store, .sink = sink, .ctx = ctx, .next_job = 1, .next_event = 1};
    int rc = load_all(&l, err);
    free(l.worlds);
    return rc;
}

/* ---- events and checkpoints on request ---- */

/* WHERE with the parameters ?1 after, ?2 job, ?3 node, ?4 limit. Filters that are not asked for are left out, so that SQLite
 * picks the right index. The newest ones are taken from the end and turned round again. */
static char *events_sql(const struct store_events_query *q)
{
    bool newest = q->after < 0;
    char *inner = str_printf(" WHERE id > ?1%s%s ORDER BY id %s LIMIT ?4", q->job ? " AND job = ?2" : "",
                             q->node ? " AND node = ?3" : "", newest ? "DESC" : "ASC");
    char *select = columns_select_sql(&store_events_columns, inner);
    char *sql = str_printf("SELECT * FROM (%s) ORDER BY id", select);
    free(inner);
    free(select);
    return sql;
}

static int bind_query(sqlite3_stmt *stmt, const struct store_events_query *q)
{
    if (sqlite3_bind_int64(stmt, 1, q->after) != SQLITE_OK ||
        sqlite3_bind_int64(stmt, 4, q->limit) != SQLITE_OK)
        return -1;
    if (q->job && sqlite3_bind_int64(stmt, 2, q->job) != SQLITE_OK)
        return -1;
    return q->node && sqlite3_bind_text(stmt, 3, q->node, -1, SQLITE_STATIC) != SQLITE_OK ? -1 : 0;
}

int store_events(struct store *store, const struct store_events_query *query,
                 void (*fn)(void *ctx, const struct event_record *event), void *ctx, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    char *sql = events_sql(query);
    int rc = sqlite3_prepare_v2(store->db, sql, -1, &stmt, NULL), result = 0;
    free(sql);
    if (rc != SQLITE_OK || bind_query(stmt, query) != 0)
        result = store_fail(store, "read events from", err);
    while (result == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        struct event_record e = {0};
        result = columns_read(stmt, &store_events_columns, &e, err);
        if (result == 0)
            fn(ctx, &e);
        free(e.text);
    }
    if (result == 0 && rc != SQLITE_DONE)
        result = store_fail(store, "read events from", err);
    sqlite3_finalize(stmt);
    return result;
}

struct checkpoint_reader {
    void (*fn)(void *ctx, const struct checkpoint_record *checkpoint);
    void *ctx;
};

static int give_checkpoint(void *ctx, sqlite3_stmt *row, struct err *err)
{
    struct checkpoint_reader *reader = ctx;
    struct checkpoint_record c = {0};
    if (columns_read(row, &store_checkpoints_columns, &c, err) != 0)
        return -1;
    reader->fn(reader->ctx, &c);
    free(c.path);
    return 0;
}

int store_checkpoints(struct store *store, int64_t job,
                      void (*fn)(void *ctx, const struct checkpoint_record *checkpoint), void *ctx,
                      struct err *err)
{
    struct checkpoint_reader reader = {fn, ctx};
    char *tail = str_printf(" WHERE job = %lld ORDER BY step", (long long)job);
    int rc = each_record(store, &store_checkpoints_columns, tail, give_checkpoint, &reader, err);
    free(tail);
    return rc;
}
