/* What users ask of jobs: cancel, hold, release and requeue, in each state a job may be in. */
#include "tests/unit/core/world.h"

static void to_pending(struct world *w, int64_t *id)
{
    world_run(w, 4, "");
    *id = world_run(w, 4, "");
}

static void to_starting(struct world *w, int64_t *id)
{
    w->agents[1].slow = true;
    *id = world_run(w, 4, "");
}

static void to_running(struct world *w, int64_t *id)
{
    *id = world_run(w, 4, "");
}

static void to_backoff(struct world *w, int64_t *id)
{
    *id = world_run(w, 4, "restart: {max: 3, window: 1h, backoff: 10s}\n");
    world_exit(w, *id, 0, 1, 0, false);
    world_pump(w);
}

static void to_stopping(struct world *w, int64_t *id)
{
    w->mpi = false;
    *id = world_run(w, 4, "");
    world_rank_shim(w, *id, 2)->stubborn = true;
    world_exit(w, *id, 0, 1, 0, false);
    world_pump(w);
}

static void to_held(struct world *w, int64_t *id)
{
    *id = world_run(w, 4, "");
    world_verb(w, *id, CORE_HOLD);
}

static void to_completed(struct world *w, int64_t *id)
{
    *id = world_run(w, 4, "");
    world_finish(w, *id);
}

static void to_failed(struct world *w, int64_t *id)
{
    *id = world_run(w, 4, "restart: {max: 0}\n");
    world_exit(w, *id, 0, 1, 0, false);
    world_pump(w);
}

static void to_cancelled(struct world *w, int64_t *id)
{
    *id = world_run(w, 4, "");
    world_verb(w, *id, CORE_CANCEL);
}

enum { NO = -1 }; /* refused */

/* The state after each wish, once everything that was to stop has stopped. */
static const struct {
    const char *name;
    void (*reach)(struct world *w, int64_t *id);
    enum job_state from;
    int cancel, hold, release, requeue;
} rows[] = {
    {"pending", to_pending, JOB_PENDING, JOB_CANCELLED, JOB_HELD, NO, NO},
    {"starting", to_starting, JOB_STARTING, JOB_CANCELLED, JOB_HELD, NO, JOB_STARTING},
    {"running", to_running, JOB_RUNNING, JOB_CANCELLED, JOB_HELD, NO, JOB_RUNNING},
    {"backoff", to_backoff, JOB_RESTARTING, JOB_CANCELLED, JOB_HELD, NO, JOB_RUNNING},
    {"stopping", to_stopping, JOB_RESTARTING, JOB_CANCELLED, JOB_HELD, NO, JOB_RUNNING},
    {"held", to_held, JOB_HELD, JOB_CANCELLED, NO, JOB_RUNNING, NO},
    {"completed", to_completed, JOB_COMPLETED, NO, NO, NO, JOB_RUNNING},
    {"failed", to_failed, JOB_FAILED, NO, NO, NO, JOB_RUNNING},
    {"cancelled", to_cancelled, JOB_CANCELLED, NO, NO, NO, JOB_RUNNING},
};

static void check(size_t i, enum core_job_verb verb, int wanted)
{
    struct world *w = world_new(2, 2);
    int64_t id = 0;
    enum core_refusal why;
    struct err err = {""};
    rows[i].reach(w, &id);
    assert_job(w, id, rows[i].from);
    int rc = core_job_request(w->core, world_time(w), id, verb, "ann", &why, &err);
    if (wanted == NO) {
        assert_int_equal(rc, -1);
        assert_int_equal(why, CORE_REFUSED);
        assert_true(err.text[0] != '\0');
        assert_job(w, id, rows[i].from);
        world_free(w);
        return;
    }
    assert_int_equal(rc, 0);
    world_pump(w);
    struct shim *left = world_job(w, id)->attempt ? world_rank_shim(w, id, 2) : NULL;
    if (left && left->stubborn)
        shim_end_ranks(w, left, 0, 9);
    world_pump(w);
    if (world_job(w, id)->state != (enum job_state)wanted)
        fail_msg("%s, wish %d: is %s, should be %s (%s)", rows[i].name, verb,
                 job_state_name(world_job(w, id)->state), job_state_name(wanted), world_job(w, id)->reason);
    assert_says(world_job(w, id)->reason, "");
    world_free(w);
}

static void test_every_wish_in_every_state(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check(i, CORE_CANCEL, rows[i].cancel);
        check(i, CORE_HOLD, rows[i].hold);
        check(i, CORE_RELEASE, rows[i].release);
        check(i, CORE_REQUEUE, rows[i].requeue);
    }
}

static void test_no_such_job(void **state)
{
    (void)state;
    struct world *w = world_new(1, 1);
    enum core_refusal why;
    struct err err = {""};
    assert_int_equal(core_job_request(w->core, world_time(w), 9, CORE_CANCEL, "ann", &why, &err), -1);
    assert_int_equal(why, CORE_NO_SUCH);
    world_free(w);
}

/* Cancel gives SIGTERM and grace, and the job is cancelled only when everything is gone. */
static void test_cancel_waits_for_the_ranks(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_run(w, 4, "");
    struct shim *s = world_rank_shim(w, id, 3);
    s->stubborn = true;
    world_verb(w, id, CORE_CANCEL);
    assert_job(w, id, JOB_RUNNING);
    assert_string_equal(world_job(w, id)->reason, "cancelled by ann: waits for its ranks to stop");
    assert_int_equal(core_node_free_slots(w->core, "node0"), 0);
    enum core_refusal why;
    struct err err = {""};
    for (enum core_job_verb verb = CORE_HOLD; verb <= CORE_REQUEUE; verb++)
        assert_int_equal(core_job_request(w->core, world_time(w), id, verb, "ann", &why, &err), -1);
    assert_says(err.text, "being cancelled");
    world_verb(w, id, CORE_CANCEL); /* once more is fine */
    shim_end_ranks(w, s, 0, 9);
    world_pump(w);
    assert_job(w, id, JOB_CANCELLED);
    assert_string_equal(world_job(w, id)->reason, "cancelled by ann");
    assert_int_equal(world_attempt(w, id)->outcome, OUTCOME_CANCELLED);
    world_free(w);
}

static void test_release_before_it_was_held(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_run(w, 4, "");
    struct shim *s = world_rank_shim(w, id, 3);
    s->stubborn = true;
    world_verb(w, id, CORE_HOLD);
    world_verb(w, id, CORE_RELEASE);
    shim_end_ranks(w, s, 0, 9);
    world_pump(w);
    assert_job(w, id, JOB_RUNNING);
    assert_int_equal(world_job(w, id)->attempt, 2);
    assert_int_equal(world_job(w, id)->restarts, 0);
    world_free(w);
}

/* A job requeued after it failed has its budget again. */
static void test_requeue_gives_a_new_budget(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_run(w, 4, "restart: {max: 1, window: 1h, backoff: 1s}\n");
    for (int life = 0; life < 3; life++) {
        world_pass(w, 100);
        world_exit(w, id, 0, 1, 0, false);
        world_pass(w, 2000);
        assert_job(w, id, JOB_RUNNING);
        assert_int_equal(world_job(w, id)->restarts, 1);
        world_exit(w, id, 0, 1, 0, false);
        world_pass(w, 1000);
        assert_job(w, id, JOB_FAILED);
        world_verb(w, id, CORE_REQUEUE);
        assert_job(w, id, JOB_RUNNING);
        assert_int_equal(world_job(w, id)->restarts, 0);
        assert_int_equal(world_job(w, id)->ended_ms, 0);
    }
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_wish_in_every_state),  cmocka_unit_test(test_no_such_job),
        cmocka_unit_test(test_cancel_waits_for_the_ranks), cmocka_unit_test(test_release_before_it_was_held),
        cmocka_unit_test(test_requeue_gives_a_new_budget),
    };
    return cmocka_run_group_tests_name("core wishes", tests, NULL, NULL);
}
