/* What ranks say of checkpoints, and what the controller makes of it. */
#include <math.h>

#include "tests/unit/core/world.h"

static void test_durations_and_path_are_kept(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_run(w, 2, "");
    world_tell(w, id, 0, "CHECKPOINT_STAGED=10\nCHECKPOINT_STAGED_MS=12");
    assert_int_equal(world_job(w, id)->progress.staged_step, 10);
    world_tell(w, id, 0,
               "CHECKPOINT_DURABLE=10\nCHECKPOINT_BYTES=77\nCHECKPOINT_DURABLE_MS=340\nCHECKPOINT_LOSS=3."
               "5\nPATH=ck/a.pt");
    world_tell(w, id, 0, "CHECKPOINT_DURABLE=20\nCHECKPOINT_STAGED_MS=9\nPATH=/data/../b.pt");
    world_tell(w, id, 0, "CHECKPOINT_STAGED=31\nCHECKPOINT_STAGED_MS=5");
    world_tell(w, id, 0, "CHECKPOINT_DURABLE=30");
    static const struct {
        int64_t step, staged_ms, durable_ms;
        const char *path;
    } want[] = {{10, 12, 340, "/home/ann/ck/a.pt"}, {20, 9, -1, "/b.pt"}, {30, -1, -1, NULL}};
    assert_int_equal(w->n_checkpoints, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct checkpoint_record *c = &w->checkpoints[i];
        assert_int_equal(c->step, want[i].step);
        assert_int_equal(c->staged_ms, want[i].staged_ms);
        assert_int_equal(c->durable_ms, want[i].durable_ms);
        if (want[i].path)
            assert_string_equal(c->path, want[i].path);
        else
            assert_null(c->path);
    }
    assert_int_equal(w->checkpoints[0].bytes, 77);
    assert_true(w->checkpoints[0].held_loss == 3.5);
    assert_true(isnan(w->checkpoints[1].held_loss));
    world_free(w);
}

/* Many a second: neither rows nor events nor a new place to restart from. */
static void test_copies_in_memory_leave_no_trace(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_run(w, 2, "");
    world_say_step(w, id, "CHECKPOINT_DURABLE", 5);
    size_t events = w->log_len;
    for (int64_t step = 6; step < 200; step++)
        world_say_step(w, id, "MEMORY_CHECKPOINT", step);
    world_tell(w, id, 0, "CHECKPOINT_DURABLE=200\nCHECKPOINT_TIER=memory");
    assert_int_equal(world_job(w, id)->progress.memory_step, 200);
    assert_int_equal(world_job(w, id)->progress.checkpoint_step, 5);
    assert_int_equal(w->n_checkpoints, 1);
    assert_int_equal(w->log_len, events);
    world_tell(w, id, 0, "CHECKPOINT_DURABLE=201\nCHECKPOINT_TIER=tape"); /* a tier of a later version */
    assert_int_equal(w->n_checkpoints, 1);
    world_restart(w);
    assert_int_equal(world_job(w, id)->progress.memory_step, -1);
    world_free(w);
}

/* The rank of a job whose newest copies are 5 in storage and 12 in memory dies; the next attempt's first step is said. */
static struct world *restart_with_memory(int64_t *id, int64_t first)
{
    struct world *w = world_new(2, 2);
    *id = world_run(w, 2, "");
    world_pass(w, 300);
    world_say_step(w, *id, "CHECKPOINT_DURABLE", 5);
    world_say_step(w, *id, "MEMORY_CHECKPOINT", 12);
    world_say_step(w, *id, "STEP", 13);
    world_exit(w, *id, 0, 1, 0, false);
    world_pump(w);
    assert_says(world_job(w, *id)->reason, "from step 12 if memory has it still, else from step 5 after");
    world_pass(w, 5000);
    assert_int_equal(world_job(w, *id)->attempt, 2);
    world_say_step(w, *id, "STEP", first);
    return w;
}

static void test_a_restart_tells_what_memory_has(void **state)
{
    (void)state;
    int64_t id;
    struct world *w = restart_with_memory(&id, 13);
    assert_int_equal(world_attempt(w, id)->from_step, 12);
    assert_int_equal(world_job(w, id)->progress.memory_step, 12);
    world_free(w);
    w = restart_with_memory(&id, 6); /* memory was gone */
    assert_int_equal(world_attempt(w, id)->from_step, 5);
    assert_int_equal(world_job(w, id)->progress.memory_step, -1);
    world_exit(w, id, 0, 1, 0, false);
    world_pump(w);
    assert_says(world_job(w, id)->reason, "from step 5 after");
    world_free(w);
}

static void test_uploads(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_run(w, 2, "");
    world_say_step(w, id, "CHECKPOINT_DURABLE", 10);
    world_tell(w, id, 0, "CHECKPOINT_DURABLE=10\nCHECKPOINT_TIER=upload");
    world_tell(w, id, 0, "CHECKPOINT_DURABLE=10\nCHECKPOINT_TIER=upload");
    assert_int_equal(world_logged(w, "checkpoint_uploaded: checkpoint of step 10 is uploaded"), 1);
    assert_int_equal(w->n_checkpoints, 1);
    world_restart(w);
    assert_int_equal(world_job(w, id)->progress.upload_step, 10);
    world_free(w);
}

static void fails(struct world *w, int64_t id, int64_t step, const char *why, const char *tier)
{
    char *lines = str_printf("CHECKPOINT_FAILED=%lld\nCHECKPOINT_WHY=%s\nCHECKPOINT_TIER=%s", (long long)step,
                             why, tier);
    world_tell(w, id, 0, lines);
    free(lines);
}

static void test_failures_are_told_once_a_reason(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_run(w, 2, "");
    for (int64_t step = 10; step <= 50; step += 10)
        fails(w, id, step, "no space left on device", "storage");
    assert_int_equal(world_logged(w, "checkpoint_failed: "), 1);
    assert_says(w->log,
                "the checkpoint of step 10 cannot be saved: no space left on device; the job goes on");
    assert_int_equal(world_job(w, id)->progress.trouble[TIER_STORAGE].count, 5);
    assert_int_equal(world_job(w, id)->progress.trouble[TIER_STORAGE].step, 50);
    fails(w, id, 60, "read-only file system", "storage");
    assert_int_equal(world_logged(w, "checkpoint_failed: "), 2);
    fails(w, id, 60, "403 Forbidden", "upload"); /* another tier has its own count */
    assert_int_equal(world_job(w, id)->progress.trouble[TIER_UPLOAD].count, 1);
    world_say_step(w, id, "CHECKPOINT_DURABLE", 70);
    assert_says(w->log, "checkpoint of step 70 is durable: it works again, after 6 that failed");
    assert_int_equal(world_job(w, id)->progress.trouble[TIER_STORAGE].count, 0);
    assert_int_equal(world_job(w, id)->progress.trouble[TIER_UPLOAD].count, 1);
    world_say_step(w, id, "CHECKPOINT_DURABLE", 80);
    assert_int_equal(world_logged(w, "it works again"), 1);
    assert_job(w, id, JOB_RUNNING);
    world_tell(w, id, 0, "CHECKPOINT_FAILED=90");
    assert_says(w->log, "no reason given");
    world_free(w);
}

/* What announces itself once needs no second word to a new controller. */
static void test_checkpoint_on_is_kept(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_run(w, 2, "");
    world_say(w, id, 0, "CHECKPOINT_ON", "SIGUSR1");
    world_restart(w);
    assert_true(world_attempt(w, id)->checkpoint_on);
    world_exit(w, id, 0, 1, 0, false);
    world_pass(w, 60000);
    assert_int_equal(world_job(w, id)->attempt, 2);
    assert_false(world_attempt(w, id)->checkpoint_on); /* the next attempt says it again */
    world_free(w);
}

static void check_paths(struct world *w, int64_t id, const char *want)
{
    struct link_order *orders;
    char all[256] = "";
    size_t n = core_node_orders(w->core, world_attempt(w, id)->nodes[0].node, &orders), at = 0;
    assert_int_equal(n, 1);
    for (size_t i = 0; i < orders[0].n_resume; i++)
        at += (size_t)snprintf(all + at, sizeof(all) - at, "%s ", orders[0].resume[i]);
    assert_string_equal(all, want);
    link_order_clear(&orders[0]);
    free(orders);
}

static void save_at(struct world *w, int64_t id, int64_t step, const char *path)
{
    char *lines = str_printf("CHECKPOINT_DURABLE=%lld\nPATH=%s", (long long)step, path);
    world_pass(w, 100);
    world_tell(w, id, 0, lines);
    free(lines);
}

/* The newest by when it was announced: a program may have gone back. What it announces itself is not what it goes on from. */
static void test_paths_to_resume_from(void **state)
{
    (void)state;
    for (int restart = 0; restart <= 1; restart++) {
        struct world *w = world_new(1, 2);
        int64_t id = world_run(w, 2, "restart: {max: 9, window: 1h, backoff: 1s}\n");
        check_paths(w, id, "");
        save_at(w, id, 30, "c");
        save_at(w, id, 10, "a");
        save_at(w, id, 20, "b");
        save_at(w, id, 40, "a"); /* overwritten */
        check_paths(w, id, "");
        world_exit(w, id, 0, 1, 0, false);
        world_pass(w, 5000);
        if (restart)
            world_restart(w);
        world_pump(w);
        check_paths(w, id, "/home/ann/a /home/ann/b /home/ann/c ");
        save_at(w, id, 50, "d");
        check_paths(w, id, "/home/ann/a /home/ann/b /home/ann/c ");
        for (int64_t step = 60; step < 70; step++) {
            char name[8];
            (void)snprintf(name, sizeof(name), "s%lld", (long long)step);
            save_at(w, id, step, name);
        }
        world_exit(w, id, 0, 1, 0, false);
        world_pass(w, 5000);
        check_paths(w, id,
                    "/home/ann/s69 /home/ann/s68 /home/ann/s67 /home/ann/s66 /home/ann/s65 /home/ann/s64 "
                    "/home/ann/s63 /home/ann/s62 ");
        world_free(w);
    }
}

static double mttf_of(struct world *w, int64_t id, const char *also)
{
    struct link_order *orders;
    double found = -1;
    assert_int_equal(core_node_orders(w->core, world_attempt(w, id)->nodes[0].node, &orders), 1);
    for (size_t i = 0; i < orders[0].n_env; i++)
        if (strcmp(orders[0].env_keys[i], "BELAY_MTTF_S") == 0)
            found = strtod(orders[0].env_values[i], NULL);
    assert_int_equal(orders[0].n_env, also ? 2 : 1);
    link_order_clear(&orders[0]);
    free(orders);
    return found;
}

/* What so many nodes are expected to come to, then what the job has seen; the same as long as an attempt lives. */
static void test_time_between_interruptions(void **state)
{
    (void)state;
    double day_s = 86400, expected = day_s / (2 * 6.5e-3);
    struct world *w = world_new(2, 2);
    int64_t id = world_run(w, 4, "env: {X: some}\nrestart: {max: 9, window: 1h, backoff: 1s}\n");
    assert_true(fabs(mttf_of(w, id, "X") - expected) < 2);
    world_pass(w, 60000);
    assert_true(fabs(mttf_of(w, id, "X") - expected) < 2);
    for (int64_t n = 1; n <= 3; n++) {
        world_exit(w, id, 0, 1, 0, false);
        world_pass(w, 20000);
        assert_int_equal(world_job(w, id)->attempt, 1 + n);
        assert_true(fabs(mttf_of(w, id, "X") - expected / (double)(1 + n)) < 100);
        world_restart(w);
        world_pump(w);
        assert_true(fabs(mttf_of(w, id, "X") - expected / (double)(1 + n)) < 100);
    }
    world_verb(w, id, CORE_REQUEUE); /* no interruption */
    assert_true(fabs(mttf_of(w, id, "X") - expected / 4) < 100);
    world_free(w);
    w = world_new(1, 2);
    id = world_run(w, 2, "env: {BELAY_MTTF_S: '77'}\n"); /* the user knows better */
    assert_true(mttf_of(w, id, NULL) == 77);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations_and_path_are_kept),
        cmocka_unit_test(test_copies_in_memory_leave_no_trace),
        cmocka_unit_test(test_a_restart_tells_what_memory_has),
        cmocka_unit_test(test_uploads),
        cmocka_unit_test(test_failures_are_told_once_a_reason),
        cmocka_unit_test(test_checkpoint_on_is_kept),
        cmocka_unit_test(test_paths_to_resume_from),
        cmocka_unit_test(test_time_between_interruptions),
    };
    return cmocka_run_group_tests_name("core announced", tests, NULL, NULL);
}
