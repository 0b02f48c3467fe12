/* store: what goes in comes out, in this process and in the next; other versions; what is not a database. */
#include <math.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "daemon/store.h"
#include "tests/unit/daemon/records_fixture.h"

static char folder[64], path[96];

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/belay-store-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/belayd.db", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return fs_remove_tree(folder, NULL);
}

/* Everything that store_load gave. */
struct loaded {
    struct node_record nodes[4];
    struct job_record jobs[4];
    struct attempt_record attempts[4];
    struct checkpoint_record checkpoints[4];
    size_t n_nodes, n_jobs, n_attempts, n_checkpoints;
    int64_t next_job, next_event;
};

static void got_node(void *ctx, struct node_record *r)
{
    struct loaded *l = ctx;
    l->nodes[l->n_nodes++] = *r;
}

static void got_job(void *ctx, struct job_record *r)
{
    struct loaded *l = ctx;
    l->jobs[l->n_jobs++] = *r;
}

static void got_attempt(void *ctx, struct attempt_record *r)
{
    struct loaded *l = ctx;
    l->attempts[l->n_attempts++] = *r;
}

static void got_checkpoint(void *ctx, const struct checkpoint_record *r)
{
    struct loaded *l = ctx;
    l->checkpoints[l->n_checkpoints] = *r;
    l->checkpoints[l->n_checkpoints++].path = str_dup(r->path);
}

static void got_next_ids(void *ctx, int64_t next_job, int64_t next_event)
{
    struct loaded *l = ctx;
    l->next_job = next_job;
    l->next_event = next_event;
}

static const struct store_sink sink = {got_node, got_job, got_attempt, got_checkpoint, got_next_ids};

static void free_loaded(struct loaded *l)
{
    for (size_t i = 0; i < l->n_nodes; i++)
        fixture_free_node(&l->nodes[i]);
    for (size_t i = 0; i < l->n_jobs; i++)
        fixture_free_job(&l->jobs[i]);
    for (size_t i = 0; i < l->n_attempts; i++)
        fixture_free_attempt(&l->attempts[i]);
    for (size_t i = 0; i < l->n_checkpoints; i++)
        free(l->checkpoints[i].path);
}

static struct store *open_store(void)
{
    struct err err = {0};
    struct store *store = store_open(path, &err);
    if (!store)
        fail_msg("%s", err.text);
    return store;
}

/* Opens the file anew, as the next belayd would, and loads it. */
static void load_again(struct loaded *l)
{
    struct err err = {0};
    struct store *store = open_store();
    memset(l, 0, sizeof(*l));
    if (store_load(store, &sink, l, &err) != 0)
        fail_msg("%s", err.text);
    store_close(store);
}

/* The changes of one job with an attempt on two nodes. */
struct batch {
    struct job_record job;
    struct attempt_record attempt;
    struct node_record node;
    struct event_record events[3];
    struct checkpoint_record checkpoint;
    const struct job_record *jobs[1];
    const struct attempt_record *attempts[1];
    const struct node_record *nodes[1];
    struct core_changes changes;
};

static void fill(struct batch *b)
{
    memset(b, 0, sizeof(*b));
    b->job = fixture_job(7);
    b->attempt = fixture_attempt(7, 2);
    b->node = fixture_node("node0");
    for (int i = 0; i < 3; i++)
        b->events[i] = fixture_event(i + 1);
    b->checkpoint = (struct checkpoint_record){.job = 7,
                                               .step = 100,
                                               .attempt = 2,
                                               .time_ms = 55,
                                               .bytes = 66,
                                               .staged_ms = 12,
                                               .durable_ms = 345,
                                               .held_loss = 3.25,
                                               .path = str_dup("/data/a.pt")};
    b->jobs[0] = &b->job;
    b->attempts[0] = &b->attempt;
    b->nodes[0] = &b->node;
    b->changes = (struct core_changes){.jobs = b->jobs,
                                       .n_jobs = 1,
                                       .attempts = b->attempts,
                                       .n_attempts = 1,
                                       .nodes = b->nodes,
                                       .n_nodes = 1,
                                       .events = b->events,
                                       .n_events = 3,
                                       .checkpoints = &b->checkpoint,
                                       .n_checkpoints = 1,
                                       .next_job = 8,
                                       .next_event = 4};
}

static void empty(struct batch *b)
{
    fixture_free_job(&b->job);
    fixture_free_attempt(&b->attempt);
    fixture_free_node(&b->node);
    for (int i = 0; i < 3; i++)
        free(b->events[i].text);
    free(b->checkpoint.path);
}

static void commit_ok(struct store *store, const struct batch *b)
{
    struct err err = {0};
    if (store_commit(store, &b->changes, &err) != 0)
        fail_msg("%s", err.text);
}

/* ---- comparing: pointers by what they point to, the rest of the struct by bytes ---- */

static void same_text(const char *a, const char *b)
{
    if (!a || !b)
        assert_ptr_equal(a, b);
    else
        assert_string_equal(a, b);
}

static void same_job(const struct job_record *a, const struct job_record *b)
{
    struct job_record x = *a, y = *b;
    same_text(a->key, b->key);
    same_text(a->user, b->user);
    same_text(a->cwd, b->cwd);
    same_text(a->yaml, b->yaml);
    same_text(a->reason, b->reason);
    same_text(a->spec->name, b->spec->name);
    assert_int_equal(a->spec->priority, b->spec->priority);
    x.key = x.user = x.cwd = x.yaml = x.reason = y.key = y.user = y.cwd = y.yaml = y.reason = NULL;
    x.spec = y.spec = NULL;
    assert_memory_equal(&x.progress.loss, &y.progress.loss, sizeof(x.progress.loss));
    assert_memory_equal(&x, &y, sizeof(x));
}

static void same_report(const struct link_report *a, const struct link_report *b)
{
    struct link_report x = *a, y = *b;
    x.ranks = y.ranks = NULL;
    assert_memory_equal(&x, &y, sizeof(x));
    for (size_t i = 0; i < a->n_ranks; i++)
        assert_memory_equal(&a->ranks[i], &b->ranks[i], sizeof(a->ranks[i]));
}

static void same_attempt(const struct attempt_record *a, const struct attempt_record *b)
{
    struct attempt_record x = *a, y = *b;
    same_text(a->reason, b->reason);
    assert_int_equal(a->world, b->world);
    assert_int_equal(a->n_nodes, b->n_nodes);
    for (size_t i = 0; i < a->world; i++)
        assert_memory_equal(&a->placement[i], &b->placement[i], sizeof(a->placement[i]));
    assert_int_equal(a->n_spares, b->n_spares);
    for (size_t i = 0; i < a->n_spares; i++)
        assert_memory_equal(&a->spares[i], &b->spares[i], sizeof(a->spares[i]));
    for (size_t i = 0; i < a->n_nodes; i++) {
        assert_string_equal(a->nodes[i].node, b->nodes[i].node);
        assert_int_equal(a->nodes[i].reported, b->nodes[i].reported);
        same_report(&a->nodes[i].report, &b->nodes[i].report);
    }
    x.reason = y.reason = NULL;
    x.placement = y.placement = NULL;
    x.nodes = y.nodes = NULL;
    x.spares = y.spares = NULL;
    assert_memory_equal(&x, &y, sizeof(x));
}

static void same_node(const struct node_record *a, const struct node_record *b)
{
    struct node_record x = *a, y = *b;
    same_text(a->reason, b->reason);
    assert_int_equal(a->inventory.n_gpus, b->inventory.n_gpus);
    for (size_t i = 0; i < a->inventory.n_gpus; i++)
        assert_memory_equal(&a->inventory.gpus[i], &b->inventory.gpus[i], sizeof(a->inventory.gpus[i]));
    x.reason = y.reason = NULL;
    x.inventory.gpus = y.inventory.gpus = NULL;
    assert_memory_equal(&x, &y, sizeof(x));
}

static void same_all(const struct batch *b, const struct loaded *l)
{
    assert_int_equal(l->n_jobs, 1);
    assert_int_equal(l->n_attempts, 1);
    assert_int_equal(l->n_nodes, 1);
    assert_int_equal(l->n_checkpoints, 1);
    same_job(&b->job, &l->jobs[0]);
    same_attempt(&b->attempt, &l->attempts[0]);
    same_node(&b->node, &l->nodes[0]);
    struct checkpoint_record x = b->checkpoint, y = l->checkpoints[0];
    assert_string_equal(x.path ? x.path : "", y.path ? y.path : "");
    x.path = y.path = NULL;
    assert_memory_equal(&x, &y, sizeof(x));
    assert_int_equal(l->next_job, b->changes.next_job);
    assert_int_equal(l->next_event, b->changes.next_event);
}

/* ---- tests ---- */

static void test_round_trip(void **state)
{
    struct batch b;
    struct loaded l;
    (void)state;
    fill(&b);
    struct store *store = open_store();
    commit_ok(store, &b);
    store_close(store);
    load_again(&l);
    same_all(&b, &l);
    free_loaded(&l);
    empty(&b);
}

static void test_empty_file(void **state)
{
    struct loaded l;
    (void)state;
    load_again(&l);
    assert_int_equal(l.n_jobs + l.n_attempts + l.n_nodes + l.n_checkpoints, 0);
    assert_int_equal(l.next_job, 1);
    assert_int_equal(l.next_event, 1);
}

/* Optional things absent: no key, no loss, no report. */
static void test_absent_values(void **state)
{
    struct batch b;
    struct loaded l;
    (void)state;
    fill(&b);
    free(b.job.key);
    b.job.key = NULL;
    b.job.progress.loss = b.job.progress.mfu = b.job.progress.tokens_per_second = NAN;
    struct store *store = open_store();
    commit_ok(store, &b);
    store_close(store);
    load_again(&l);
    assert_null(l.jobs[0].key);
    assert_true(isnan(l.jobs[0].progress.loss) && isnan(l.jobs[0].progress.mfu));
    assert_true(isnan(l.jobs[0].progress.tokens_per_second));
    free_loaded(&l);
    empty(&b);
}

static void replace_text(char **text, const char *with)
{
    free(*text);
    *text = str_dup(with);
}

static void add_spare(struct attempt_record *a, const char *node)
{
    a->spares = mem_zero(1, sizeof(*a->spares));
    a->n_spares = 1;
    a->spares[0].rank = -1;
    a->spares[0].slot = 5;
    SET_TEXT(a->spares[0].node, node);
}

/* Each change of a part that `written` may skip is seen by the next load. */
static void test_changes_are_written(void **state)
{
    struct batch b;
    struct loaded l;
    (void)state;
    fill(&b);
    struct store *store = open_store();
    commit_ok(store, &b);
    b.changes.n_events = b.changes.n_checkpoints = 0;
    for (int i = 0; i < 7; i++) {
        if (i == 0)
            SET_TEXT(b.attempt.placement[1].node, "node9");
        if (i == 1)
            b.attempt.nodes[0].report.ranks[0].code = 3;
        if (i == 2)
            replace_text(&b.attempt.reason, "for another reason");
        if (i == 3)
            b.attempt.n_nodes = 1;
        if (i == 4)
            b.attempt.state = ATTEMPT_ENDED;
        if (i == 5)
            b.job.progress.step = 121;
        if (i == 6)
            add_spare(&b.attempt, "node7");
        commit_ok(store, &b);
        load_again(&l);
        same_all(&b, &l);
        free_loaded(&l);
    }
    b.attempt.n_nodes = 2;
    store_close(store);
    empty(&b);
}

static void run_sql(const char *file, const char *sql)
{
    sqlite3 *db;
    char *why = NULL;
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s", why);
    sqlite3_close(db);
}

/* A placement that cannot be the job's stops the start with a sentence: the core would rely on it. */
static void test_impossible_placements(void **state)
{
    static const struct {
        const char *sql, *sentence;
    } rows[] = {
        {"UPDATE placements SET ranks = '[]'", "its placement has 0 ranks, the job has 2"},
        {"DELETE FROM placements", "its placement has 0 ranks, the job has 2"},
        {"UPDATE placements SET ranks = '[[0,\"node0\",1,0,0,0,0]]'", "its placement has 1 ranks"},
        {"UPDATE placements SET ranks = '[[1,\"node0\",1,0,0,0,0],[0,\"node1\",1,0,0,0,1]]'",
         "entry 0 of the placement"},
        {"UPDATE placements SET ranks = '[[0,\"node0\",1,0,0,0,0],[1,\"node1\",1099511627776,0,0,0,1]]'",
         "entry 1 of the placement cannot be: rank 1 on slot 1099511627776"},
        {"UPDATE placements SET ranks = '[[0,\"\",1,0,0,0,0],[1,\"node1\",1,0,0,0,1]]'", "entry 0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct batch b;
        struct loaded l = {.n_jobs = 0};
        struct err err = {""};
        fill(&b);
        unlink(path);
        struct store *store = open_store();
        commit_ok(store, &b);
        store_close(store);
        run_sql(path, rows[i].sql);
        store = open_store();
        assert_int_equal(store_load(store, &sink, &l, &err), -1);
        if (!strstr(err.text, rows[i].sentence))
            fail_msg("%s: %s", rows[i].sql, err.text);
        store_close(store);
        free_loaded(&l);
        empty(&b);
    }
}

static void become_elastic(struct job_record *job, const char *range)
{
    static struct job_diagnostics d;
    char *yaml =
        str_printf("name: e\ntrain:\n  model: {arch: gpt2, layers: 1, hidden: 16, heads: 2, context: 16}\n"
                   "  data: {path: a}\n  steps: 9\n  batch: {global: 12, micro: 1}\n"
                   "parallel: {dp: %s}\n",
                   range);
    job_spec_free(job->spec);
    if (job_spec_parse(yaml, strlen(yaml), "test", NULL, 0, &job->spec, &d) != 0)
        fail_msg("%s", d.text[0]);
    free(job->yaml);
    job->yaml = job_spec_to_yaml(job->spec);
    free(yaml);
}

/* An attempt of an elastic job may have any size from the smallest to the largest; here it has 2 ranks. */
static void test_placements_of_elastic_jobs(void **state)
{
    static const struct {
        const char *range, *sentence; /* NULL = it is loaded */
    } rows[] = {
        {"1..4", NULL},
        {"2..12", NULL},
        {"3..4", "its placement has 2 ranks, the job has 3 to 4"},
        {"1..1", "its placement has 2 ranks, the job has 1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct batch b;
        struct loaded l = {.n_jobs = 0};
        struct err err = {""};
        fill(&b);
        become_elastic(&b.job, rows[i].range);
        unlink(path);
        struct store *store = open_store();
        commit_ok(store, &b);
        assert_int_equal(store_load(store, &sink, &l, &err), rows[i].sentence ? -1 : 0);
        if (rows[i].sentence)
            assert_non_null(strstr(err.text, rows[i].sentence));
        store_close(store);
        free_loaded(&l);
        empty(&b);
    }
}

/* Of an ended attempt that is not among its job's newest, the details stay in the file. */
static void test_old_attempts_without_details(void **state)
{
    struct batch b;
    struct loaded l;
    (void)state;
    fill(&b);
    struct store *store = open_store();
    b.attempt.state = ATTEMPT_ENDED;
    b.job.attempt = b.attempt.number + ATTEMPTS_DETAILED - 1;
    commit_ok(store, &b);
    load_again(&l);
    assert_int_equal(l.attempts[0].world, 2);
    free_loaded(&l);
    b.changes.n_events = b.changes.n_checkpoints = 0;
    b.job.attempt++;
    commit_ok(store, &b);
    load_again(&l);
    assert_int_equal(l.attempts[0].world, 0);
    assert_int_equal(l.attempts[0].n_nodes, 0);
    assert_string_equal(l.attempts[0].reason, b.attempt.reason);
    free_loaded(&l);
    store_close(store);
    empty(&b);
}

struct seen {
    int64_t ids[16];
    size_t n;
};

static void got_event(void *ctx, const struct event_record *e)
{
    struct seen *s = ctx;
    struct event_record want = fixture_event(e->id);
    assert_string_equal(want.text, e->text);
    assert_string_equal(want.kind, e->kind);
    assert_string_equal(want.node, e->node);
    assert_true(want.time_ms == e->time_ms && want.job == e->job && want.attempt == e->attempt &&
                want.rank == e->rank);
    free(want.text);
    s->ids[s->n++] = e->id;
}

static void test_events(void **state)
{
    static const struct {
        struct store_events_query query;
        size_t n;
        int64_t first;
    } rows[] = {
        {{.after = -1, .limit = 10}, 3, 1},
        {{.after = -1, .limit = 2}, 2, 2}, /* the newest, still oldest first */
        {{.after = 0, .limit = 2}, 2, 1},
        {{.after = 1, .limit = 10}, 2, 2},
        {{.after = 3, .limit = 10}, 0, 0},
        {{.after = -1, .limit = 10, .job = 7}, 3, 1},
        {{.after = -1, .limit = 10, .job = 8}, 0, 0},
        {{.after = -1, .limit = 10, .node = "node0"}, 1, 2},
        {{.after = 1, .limit = 10, .job = 7, .node = "node1"}, 1, 3},
    };
    struct batch b;
    struct err err = {0};
    (void)state;
    fill(&b);
    struct store *store = open_store();
    commit_ok(store, &b);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct seen seen = {0};
        assert_int_equal(store_events(store, &rows[i].query, got_event, &seen, &err), 0);
        assert_int_equal(seen.n, rows[i].n);
        if (seen.n)
            assert_int_equal(seen.ids[0], rows[i].first);
    }
    store_close(store);
    empty(&b);
}

/* One submit can never be stored twice, whatever the core does. */
static void test_same_key_twice_is_refused(void **state)
{
    struct batch b;
    struct err err = {0};
    (void)state;
    fill(&b);
    struct store *store = open_store();
    commit_ok(store, &b);
    b.job.id = 8;
    b.changes.n_events = 0;
    assert_int_equal(store_commit(store, &b.changes, &err), -1);
    assert_non_null(strstr(err.text, path));
    store_close(store);
    empty(&b);
}

static void test_newer_version_is_refused_untouched(void **state)
{
    struct err err = {0};
    size_t before_len, after_len;
    (void)state;
    store_close(open_store());
    run_sql(path, "PRAGMA user_version = 9999; PRAGMA wal_checkpoint(TRUNCATE)");
    char *before = fs_read(path, 1 << 20, &before_len, NULL);
    assert_null(store_open(path, &err));
    assert_non_null(strstr(err.text, "written by a newer belayd (schema 9999"));
    char *after = fs_read(path, 1 << 20, &after_len, NULL);
    assert_int_equal(before_len, after_len);
    assert_memory_equal(before, after, before_len);
    free(before);
    free(after);
}

static void test_not_a_database(void **state)
{
    struct err err = {0};
    FILE *f = fopen(path, "w");
    (void)state;
    for (int i = 0; i < 1000; i++)
        fputs("this is no database ", f);
    fclose(f);
    assert_null(store_open(path, &err));
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "not a database"));
    assert_non_null(strstr(err.text, "restore it from a backup"));
}

static void test_damaged_file_is_refused(void **state)
{
    struct batch b;
    struct err err = {0};
    (void)state;
    fill(&b);
    struct store *store = open_store();
    commit_ok(store, &b);
    store_close(store);
    empty(&b);
    FILE *f = fopen(path, "r+");
    fseek(f, 4096, SEEK_SET);
    for (int i = 0; i < 4096; i++)
        fputc(0xa5, f);
    fclose(f);
    assert_null(store_open(path, &err));
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "restore it from a backup"));
}

/* A state name from another version stops the start and names the row. */
static void test_unknown_state_names_the_row(void **state)
{
    struct batch b;
    struct loaded l = {0};
    struct err err = {0};
    (void)state;
    fill(&b);
    struct store *store = open_store();
    commit_ok(store, &b);
    empty(&b);
    run_sql(path, "UPDATE jobs SET state = 'levitating'");
    assert_int_equal(store_load(store, &sink, &l, &err), -1);
    assert_non_null(strstr(err.text, "job 7"));
    assert_non_null(strstr(err.text, "levitating"));
    free_loaded(&l);
    store_close(store);
}

/* What an older version wrote lacks fields that were added since; they come back with their defaults. */
static void complete(struct loaded *l)
{
    for (size_t i = 0; i < l->n_jobs; i++) {
        free(l->jobs[i].yaml);
        l->jobs[i].yaml = job_spec_to_yaml(l->jobs[i].spec);
    }
}

/* And what was not known then: of checkpoints, before schemas 3 and 4. */
static void forget(struct batch *b, int version)
{
    if (version < 4)
        b->checkpoint.held_loss = NAN;
    if (version >= 3)
        return;
    b->job.progress.upload_step = -1;
    b->job.progress.upload_ms = 0;
    memset(b->job.progress.interval, 0, sizeof(b->job.progress.interval));
    b->attempt.checkpoint_on = false;
    memset(&b->attempt.save, 0, sizeof(b->attempt.save));
    b->attempt.save.from_step = b->attempt.save.step = -1;
    b->checkpoint.staged_ms = b->checkpoint.durable_ms = -1;
    free(b->checkpoint.path);
    b->checkpoint.path = NULL;
}

/* Files of every earlier schema are kept in tests/fixtures/store/ and still load. */
static void test_earlier_versions_load(void **state)
{
    struct batch b;
    (void)state;
    for (int version = 1; version <= store_schema_version(); version++) {
        struct loaded l;
        char *name = str_printf("tests/fixtures/store/schema-%d.sql", version);
        char *sql = fs_read(name, 1 << 20, NULL, NULL);
        if (!sql)
            fail_msg("%s is missing: make it with `sqlite3 belayd.db .dump` of that version, and PRAGMA "
                     "user_version",
                     name);
        unlink(path);
        run_sql(path, sql);
        load_again(&l);
        complete(&l);
        fill(&b);
        forget(&b, version);
        same_all(&b, &l);
        free_loaded(&l);
        empty(&b);
        free(sql);
        free(name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_empty_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_absent_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_changes_are_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_old_attempts_without_details, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_impossible_placements, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_placements_of_elastic_jobs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_events, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_same_key_twice_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_newer_version_is_refused_untouched, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_not_a_database, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damaged_file_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unknown_state_names_the_row, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_earlier_versions_load, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
