/* store under torture: the Nth write, truncate or fsync fails in turn, at every N that a run has. After each, the next start finds a
 * whole database with every acknowledged commit in it, in order, and at most the one that failed besides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fsutil.h"
#include "daemon/store.h"
#include "tests/unit/daemon/faulty_vfs.h"
#include "tests/unit/daemon/records_fixture.h"

#define COMMITS 6

static char folder[64], path[96];

/* Commit number i (from 1): job i with an attempt, an event, and job 1 changed again. */
static int commit(struct store *store, int64_t i, struct err *err)
{
    struct job_record job = fixture_job(i), first = fixture_job(1);
    struct attempt_record attempt = fixture_attempt(i, 1);
    struct event_record event = fixture_event(i);
    const struct job_record *jobs[] = {&job, &first};
    const struct attempt_record *attempts[] = {&attempt};
    first.restarts = i;
    struct core_changes changes = {.jobs = jobs,
                                   .n_jobs = 2,
                                   .attempts = attempts,
                                   .n_attempts = 1,
                                   .events = &event,
                                   .n_events = 1,
                                   .next_job = i + 1,
                                   .next_event = i + 1};
    int rc = store_commit(store, &changes, err);
    fixture_free_job(&job);
    fixture_free_job(&first);
    fixture_free_attempt(&attempt);
    free(event.text);
    return rc;
}

/* As belayd does: stops at the first failure. Returns how many commits were acknowledged. */
static int64_t live(void)
{
    struct err err = {0};
    int64_t acked = 0;
    struct store *store = store_open(path, &err);
    while (store && acked < COMMITS && commit(store, acked + 1, &err) == 0)
        acked++;
    if (acked < COMMITS)
        assert_non_null(strstr(err.text, path)); /* a sentence that names the file */
    store_close(store);
    return acked;
}

struct found {
    int64_t n_jobs, n_attempts, restarts_of_first, next_job, next_event;
    bool in_order;
};

static void no_node(void *ctx, struct node_record *node)
{
    (void)ctx;
    (void)node;
}

static void got_job(void *ctx, struct job_record *job)
{
    struct found *f = ctx;
    f->in_order = f->in_order && job->id == ++f->n_jobs && strcmp(job->user, "ann") == 0;
    if (job->id == 1)
        f->restarts_of_first = job->restarts;
    fixture_free_job(job);
}

static void got_attempt(void *ctx, struct attempt_record *a)
{
    struct found *f = ctx;
    f->in_order =
        f->in_order && a->job == ++f->n_attempts && a->world == 2 && a->n_nodes == 2 && a->nodes[0].reported;
    fixture_free_attempt(a);
}

static void no_checkpoint(void *ctx, const struct checkpoint_record *checkpoint)
{
    (void)ctx;
    (void)checkpoint;
}

static void got_next_ids(void *ctx, int64_t next_job, int64_t next_event)
{
    struct found *f = ctx;
    f->next_job = next_job;
    f->next_event = next_event;
}

/* The next start, on a disk that works again. */
static void check(int64_t acked)
{
    static const struct store_sink sink = {no_node, got_job, got_attempt, no_checkpoint, got_next_ids};
    struct found f = {.in_order = true};
    struct err err = {0};
    struct store *store = store_open(path, &err);
    if (!store || store_load(store, &sink, &f, &err) != 0)
        fail_msg("%s", err.text);
    store_close(store);
    assert_true(f.in_order);
    assert_true(f.n_jobs == acked || f.n_jobs == acked + 1);
    assert_int_equal(f.n_attempts, f.n_jobs);
    assert_int_equal(f.next_job, f.n_jobs + 1);
    assert_int_equal(f.next_event, f.n_jobs + 1);
    if (f.n_jobs > 1)
        assert_int_equal(f.restarts_of_first, f.n_jobs);
}

/* False when the run was over before its Nth operation. */
static bool one_run(enum fault kind, long n)
{
    snprintf(folder, sizeof(folder), "%s/belay-torture-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/belayd.db", folder);
    faulty.kind = kind;
    faulty.at = n;
    faulty.count = 0;
    faulty.hit = false;
    int64_t acked = live();
    bool hit = faulty.hit;
    faulty.at = 0;
    check(acked);
    assert_int_equal(fs_remove_tree(folder, NULL), 0);
    return hit;
}

static void torture(enum fault kind)
{
    long n = 1;
    while (one_run(kind, n))
        n++;
    print_message("%ld operations failed in turn\n", n - 1);
    assert_true(n > COMMITS * 5); /* each commit has several: else the shim is not in the way */
}

static void test_one_error(void **state)
{
    (void)state;
    torture(FAULT_ONCE);
}

static void test_torn_write(void **state)
{
    (void)state;
    torture(FAULT_SHORT);
}

static void test_full_disk(void **state)
{
    (void)state;
    torture(FAULT_FULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_error),
        cmocka_unit_test(test_torn_write),
        cmocka_unit_test(test_full_disk),
    };
    if (faulty_install() != SQLITE_OK)
        return 1;
    return cmocka_run_group_tests_name("store_torture", tests, NULL, NULL);
}
