/* turn: durable before visible: what a callback or a hook sees is already in the file; a failed commit is told to all, once and
 * for good; requests of one loop iteration share a transaction; progress is written lazily. */
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fsutil.h"
#include "daemon/turn.h"
#include "tests/unit/daemon/faulty_vfs.h"
#include "tests/unit/daemon/records_fixture.h"

static struct fixture {
    char folder[64], path[96];
    struct event_base *base;
    struct core *core;
    struct store *store;
    struct turn *turn;
    int failures; /* calls of on_failure */
    int told, told_failure;
    int64_t on_disk_when_told;
    int hooks;
    int64_t on_disk_in_hook;
} f;

/* As another process sees the file. */
static int64_t ask(const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    assert_int_equal(sqlite3_open_v2(f.path, &db, SQLITE_OPEN_READONLY, "unix"), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return value;
}

static void on_failure(void *ctx, const struct err *why)
{
    (void)ctx;
    assert_non_null(strstr(why->text, f.path));
    f.failures++;
}

static void on_commit(void *ctx, const struct core_changes *changes)
{
    (void)ctx;
    (void)changes;
    f.hooks++;
    f.on_disk_in_hook = ask("SELECT count(*) FROM jobs");
}

static void told(void *ctx, const struct err *failure)
{
    (void)ctx;
    f.told++;
    f.told_failure += failure != NULL;
    f.on_disk_when_told = ask("SELECT count(*) FROM jobs");
}

static int set_up(void **state)
{
    struct core_config config;
    struct err err = {0};
    (void)state;
    memset(&f, 0, sizeof(f));
    faulty.at = 0;
    snprintf(f.folder, sizeof(f.folder), "/tmp/belay-turn-XXXXXX");
    assert_non_null(mkdtemp(f.folder));
    snprintf(f.path, sizeof(f.path), "%s/belayd.db", f.folder);
    core_config_defaults(&config);
    f.base = event_base_new();
    assert_int_equal(event_base_priority_init(f.base, TURN_PRIORITIES), 0);
    f.core = core_new(&config, turn_time());
    f.store = store_open(f.path, &err);
    assert_non_null(f.store);
    core_load_next_ids(f.core, 1, 1);
    f.turn = turn_new(f.base, f.core, f.store, on_failure, NULL);
    turn_on_commit(f.turn, on_commit, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    faulty.at = 0;
    turn_free(f.turn);
    core_free(f.core);
    store_close(f.store);
    event_base_free(f.base);
    return fs_remove_tree(f.folder, NULL);
}

static void submit(void)
{
    struct core_submit request = {.user = "ann", .cwd = "/tmp", .uid = 5, .gid = 5, .spec = fixture_spec()};
    enum core_refusal why;
    int64_t id;
    assert_int_equal(core_submit(f.core, turn_time(), &request, &id, &why, NULL), 0);
    turn_after(f.turn, told, NULL);
}

static void loop_until(const int *counter, int value)
{
    for (int i = 0; i < 100 && *counter < value; i++)
        event_base_loop(f.base, EVLOOP_ONCE);
    assert_int_equal(*counter, value);
}

static void test_durable_before_visible(void **state)
{
    (void)state;
    submit();
    assert_int_equal(f.told, 0);
    assert_int_equal(ask("SELECT count(*) FROM jobs"), 0);
    loop_until(&f.told, 1);
    assert_int_equal(f.on_disk_in_hook, 1);
    assert_int_equal(f.on_disk_when_told, 1);
    assert_int_equal(f.told_failure, 0);
}

static void test_one_transaction_for_many(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++)
        submit();
    loop_until(&f.told, 50);
    assert_int_equal(f.hooks, 1);
    assert_int_equal(ask("SELECT count(*) FROM jobs"), 50);
    assert_int_equal(ask("SELECT value FROM meta WHERE name = 'next_job'"), 51);
}

static void test_failed_commit_is_told_to_all(void **state)
{
    (void)state;
    submit();
    loop_until(&f.told, 1);
    faulty.kind = FAULT_FULL;
    faulty.count = 0;
    faulty.at = 1;
    submit();
    submit();
    loop_until(&f.told, 3);
    assert_int_equal(f.told_failure, 2);
    assert_int_equal(f.failures, 1);
    assert_int_equal(f.hooks, 1); /* nobody was sent anything */
    assert_non_null(turn_failure(f.turn));
    faulty.at = 0; /* the disk works again: too late, memory is ahead of it */
    turn_after(f.turn, told, NULL);
    loop_until(&f.told, 4);
    assert_int_equal(f.told_failure, 3);
    assert_int_equal(f.failures, 1);
    assert_int_equal(ask("SELECT count(*) FROM jobs"), 1);
}

/* A callback may ask for another turn. */
static int chained;
static void chain(void *ctx, const struct err *failure)
{
    (void)ctx;
    (void)failure;
    if (++chained < 3)
        turn_after(f.turn, chain, NULL);
}

static void test_callbacks_may_chain(void **state)
{
    (void)state;
    chained = 0;
    turn_after(f.turn, chain, NULL);
    loop_until(&chained, 3);
    assert_int_equal(f.hooks, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_durable_before_visible, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_transaction_for_many, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failed_commit_is_told_to_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_callbacks_may_chain, set_up, tear_down),
    };
    if (faulty_install() != SQLITE_OK)
        return 1;
    return cmocka_run_group_tests_name("turn", tests, NULL, NULL);
}
