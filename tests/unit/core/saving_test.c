/* A checkpoint that somebody asks for, and the planned stops that wait for one. */
#include "tests/unit/core/world.h"

static const char train[] = "name: t\n"
                            "train:\n"
                            "  model: {arch: gpt2, layers: 2, hidden: 32, heads: 2, context: 32}\n"
                            "  data: {path: x.txt}\n"
                            "  steps: 200\n"
                            "  batch: {global: 16, micro: 4}\n"
                            "parallel: {dp: 4}\n"
                            "checkpoint: {directory: ckpt, every: 10}\n"
                            "limits: {time: 10m, grace: 20s}\n"
                            "restart: {max: 2, window: 1h, backoff: 1s}\n";

/* Running, at step 13 with a checkpoint of step 10, and ready to be asked. */
static int64_t begin(struct world *w)
{
    int64_t id = world_submit(w, train);
    world_say(w, id, 0, "CHECKPOINT_ON", "SIGUSR1");
    world_train(w, id, 1, 13, 100, 10);
    return id;
}

static int ask(struct world *w, int64_t id, int64_t *request, struct err *err)
{
    enum core_refusal why;
    int rc = core_checkpoint(w->core, world_time(w), id, "ann", request, &why, err);
    assert_int_equal(rc == 0, why == CORE_OK);
    world_pump(w);
    return rc;
}

static const struct save_request *request_of(const struct world *w, int64_t id)
{
    return &world_attempt(w, id)->save;
}

static void test_asked_by_a_user(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = begin(w), request = 0, again = 0;
    struct err err;
    assert_int_equal(ask(w, id, &request, &err), 0);
    assert_int_equal(request, 1);
    assert_int_equal(world_rank_shim(w, id, 0)->checkpoint, 1);
    assert_true(request_of(w, id)->waiting);
    assert_says(w->log, "checkpoint_asked: wanted by ann: job 1 is asked for a checkpoint");
    assert_int_equal(ask(w, id, &again, &err), 0); /* joins */
    assert_int_equal(again, 1);
    world_say_step(w, id, "CHECKPOINT_DURABLE", 12); /* was under way when it was asked for */
    assert_true(request_of(w, id)->waiting);
    world_say_step(w, id, "CHECKPOINT_DURABLE", 14);
    assert_false(request_of(w, id)->waiting);
    assert_int_equal(request_of(w, id)->step, 14);
    world_pass(w, 60000);
    assert_job(w, id, JOB_RUNNING);
    assert_int_equal(world_job(w, id)->attempt, 1);
    assert_int_equal(ask(w, id, &again, &err), 0);
    assert_int_equal(again, 2);
    world_free(w);
}

static void test_no_answer(void **state)
{
    (void)state;
    static const struct {
        const char *lines; /* said instead; NULL = nothing */
        const char *answer;
    } rows[] = {
        {NULL, "none was durable within 20.0s"},
        {"CHECKPOINT_FAILED=14\nCHECKPOINT_WHY=no space left on device", "no space left on device"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world *w = world_new(2, 2);
        int64_t id = begin(w), request = 0;
        struct err err;
        assert_int_equal(ask(w, id, &request, &err), 0);
        if (rows[i].lines)
            world_tell(w, id, 0, rows[i].lines);
        else
            world_pass(w, 19900);
        assert_int_equal(request_of(w, id)->waiting, !rows[i].lines);
        world_pass(w, 200);
        assert_false(request_of(w, id)->waiting);
        assert_int_equal(request_of(w, id)->step, -1);
        assert_string_equal(request_of(w, id)->answer, rows[i].answer);
        assert_job(w, id, JOB_RUNNING);
        world_free(w);
    }
}

/* A job whose saves take long is given longer than its grace. */
static void test_patience_follows_the_longest_save(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = begin(w), request = 0;
    struct err err;
    world_tell(w, id, 0, "CHECKPOINT_DURABLE=20\nCHECKPOINT_DURABLE_MS=40000");
    world_restart(w); /* it is in the store */
    world_pump(w);
    assert_int_equal(ask(w, id, &request, &err), 0);
    world_pass(w, 79000);
    assert_true(request_of(w, id)->waiting);
    world_pass(w, 2000);
    assert_false(request_of(w, id)->waiting);
    world_free(w);
}

static void test_refused(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_submit(w, train), request = 0;
    struct err err;
    assert_int_equal(ask(w, id, &request, &err), -1);
    assert_says(err.text, "saves no checkpoint when asked");
    world_finish(w, id);
    assert_int_equal(ask(w, id, &request, &err), -1);
    assert_says(err.text, "its ranks do not run, it is completed");
    assert_int_equal(ask(w, 99, &request, &err), -1);
    assert_says(err.text, "there is no job 99");
    assert_int_equal(world_attempt(w, id)->checkpoint_request, 0);
    world_free(w);
}

/* ---- stops that wait ---- */

static const struct {
    enum core_job_verb verb;
    enum attempt_outcome outcome;
    enum job_state then;
    const char *reason; /* while it waits */
} wishes[] = {
    {CORE_REQUEUE, OUTCOME_PREEMPTED, JOB_RUNNING, "requeued by ann: waits for a checkpoint"},
    {CORE_HOLD, OUTCOME_HELD, JOB_HELD, "held by ann: waits for a checkpoint"},
    {CORE_CANCEL_SAVED, OUTCOME_CANCELLED, JOB_CANCELLED, "cancelled by ann: waits for a checkpoint"},
};

static void check_stop(size_t i, bool restart, const char *lines)
{
    struct world *w = world_new(2, 2);
    int64_t id = begin(w);
    world_verb(w, id, wishes[i].verb);
    assert_job(w, id, JOB_RUNNING);
    assert_string_equal(world_job(w, id)->reason, wishes[i].reason);
    assert_int_equal(world_attempt(w, id)->checkpoint_request, 1);
    if (restart)
        world_restart(w);
    world_pass(w, 3000);
    assert_job(w, id, JOB_RUNNING);
    assert_int_equal(world_attempt(w, id)->checkpoint_request, 1);
    if (lines)
        world_tell(w, id, 0, lines);
    else
        world_pass(w, 20000);
    world_pass(w, 100);
    assert_job(w, id, wishes[i].then);
    assert_int_equal(core_attempt(w->core, id, 1)->outcome, wishes[i].outcome);
    assert_int_equal(core_attempt(w->core, id, 1)->nodes[0].report.ranks[0].signal, 15);
    assert_int_equal(world_job(w, id)->restarts, 0);
    world_free(w);
}

static void test_stops_wait_for_a_checkpoint(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++)
        for (int restart = 0; restart <= 1; restart++) {
            check_stop(i, restart, "CHECKPOINT_DURABLE=14");
            check_stop(i, restart, "CHECKPOINT_FAILED=14\nCHECKPOINT_WHY=disk full");
            check_stop(i, restart, NULL);
        }
}

static void test_without_checkpoints_it_stops_at_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++) {
        struct world *w = world_new(2, 2);
        int64_t id = world_run(w, 4, "");
        world_verb(w, id, wishes[i].verb);
        assert_job(w, id, wishes[i].then);
        assert_int_equal(core_attempt(w->core, id, 1)->outcome, wishes[i].outcome);
        assert_says(w->log, "checkpoint_skipped: ");
        world_free(w);
    }
}

static void test_plain_cancel_waits_for_nothing(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = begin(w);
    world_verb(w, id, CORE_CANCEL);
    assert_job(w, id, JOB_CANCELLED);
    assert_int_equal(world_attempt(w, id)->checkpoint_request, 0);
    id = begin(w);
    world_verb(w, id, CORE_CANCEL_SAVED);
    assert_job(w, id, JOB_RUNNING);
    world_verb(w, id, CORE_CANCEL); /* now, after all */
    assert_job(w, id, JOB_CANCELLED);
    assert_false(request_of(w, id)->waiting);
    assert_says(request_of(w, id)->answer, "the attempt ended before it was durable");
    world_free(w);
}

static void test_released_before_the_checkpoint(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = begin(w);
    world_verb(w, id, CORE_HOLD);
    world_verb(w, id, CORE_RELEASE);
    world_say_step(w, id, "CHECKPOINT_DURABLE", 14);
    world_pass(w, 60000);
    assert_job(w, id, JOB_RUNNING);
    assert_int_equal(world_job(w, id)->attempt, 1);
    assert_string_equal(world_job(w, id)->reason, "released by ann");
    world_free(w);
}

/* A rank that fails while its job waits to be requeued is a failure like any other. */
static void test_failure_while_it_waits(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = begin(w);
    world_verb(w, id, CORE_HOLD);
    world_exit(w, id, 0, 1, 0, false);
    world_pass(w, 5000);
    assert_job(w, id, JOB_HELD);
    assert_int_equal(core_attempt(w->core, id, 1)->outcome, OUTCOME_FAILED);
    world_free(w);
}

/* What drains and is requeued too moves once; an undrain does not take the requeue back. */
static void test_drain_and_requeue(void **state)
{
    (void)state;
    struct world *w = world_new(3, 2);
    int64_t id = begin(w);
    enum core_refusal why;
    struct err err;
    assert_int_equal(core_drain(w->core, world_time(w), "node0", "fan", 0, false, &why, &err), 0);
    world_pump(w);
    world_verb(w, id, CORE_REQUEUE);
    assert_int_equal(world_attempt(w, id)->checkpoint_request, 1);
    assert_int_equal(core_undrain(w->core, world_time(w), "node0", &why, &err), 0);
    world_pump(w);
    world_say_step(w, id, "CHECKPOINT_DURABLE", 13);
    world_pass(w, 200);
    assert_int_equal(world_job(w, id)->attempt, 2);
    assert_int_equal(core_attempt(w->core, id, 1)->outcome, OUTCOME_PREEMPTED);
    world_free(w);
}

/* Whatever else waits for a checkpoint, a node is empty by its deadline. */
static void test_a_drain_keeps_its_deadline(void **state)
{
    (void)state;
    struct world *w = world_new(3, 2);
    int64_t id = begin(w);
    enum core_refusal why;
    struct err err;
    world_verb(w, id, CORE_REQUEUE); /* would wait for 20 s */
    assert_int_equal(core_drain(w->core, world_time(w), "node0", "fan", w->now_ms + 5000, false, &why, &err),
                     0);
    world_pass(w, 4800);
    assert_int_equal(world_job(w, id)->attempt, 1);
    world_pass(w, 400);
    assert_int_equal(world_job(w, id)->attempt, 2);
    assert_node(w, "node0", NODE_DRAINED);
    world_free(w);
}

/* ---- the time limit ---- */

/* The core comes to rest although the time for the last checkpoint has come; it is asked for after the answer. */
static void test_asked_shortly_before_the_time_limit(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = begin(w), request = 0;
    struct err err;
    world_pass(w, 570000);
    assert_int_equal(ask(w, id, &request, &err), 0);
    world_pass(w, 15000);
    assert_int_equal(world_rank_shim(w, id, 0)->checkpoint, 1);
    world_say_step(w, id, "CHECKPOINT_DURABLE", 20);
    world_pass(w, 100);
    assert_int_equal(world_rank_shim(w, id, 0)->checkpoint, 2);
    world_free(w);
}

static void test_saved_before_the_time_limit(void **state)
{
    (void)state;
    for (int restart = 0; restart <= 1; restart++) {
        struct world *w = world_new(2, 2);
        int64_t id = begin(w), left = world_job(w, id)->started_ms + 600000 - w->now_ms;
        world_pass(w, left - 20200);
        assert_int_equal(world_attempt(w, id)->checkpoint_request, 0);
        world_pass(w, 300);
        assert_int_equal(world_attempt(w, id)->checkpoint_request, 1);
        assert_says(w->log, "its time limit of 10m00s is reached in 20.0s: job 1 is asked for a checkpoint");
        if (restart)
            world_restart(w);
        world_say_step(w, id, "CHECKPOINT_DURABLE", 14);
        world_pass(w, 19500);
        assert_job(w, id, JOB_RUNNING); /* the limit is its own until the end */
        assert_int_equal(world_attempt(w, id)->checkpoint_request, 1);
        world_pass(w, 500);
        assert_job(w, id, JOB_FAILED);
        assert_int_equal(world_attempt(w, id)->outcome, OUTCOME_TIME_LIMIT);
        world_free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_asked_by_a_user),
        cmocka_unit_test(test_no_answer),
        cmocka_unit_test(test_patience_follows_the_longest_save),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_stops_wait_for_a_checkpoint),
        cmocka_unit_test(test_without_checkpoints_it_stops_at_once),
        cmocka_unit_test(test_plain_cancel_waits_for_nothing),
        cmocka_unit_test(test_released_before_the_checkpoint),
        cmocka_unit_test(test_failure_while_it_waits),
        cmocka_unit_test(test_drain_and_requeue),
        cmocka_unit_test(test_a_drain_keeps_its_deadline),
        cmocka_unit_test(test_asked_shortly_before_the_time_limit),
        cmocka_unit_test(test_saved_before_the_time_limit),
    };
    return cmocka_run_group_tests_name("core saving", tests, NULL, NULL);
}
