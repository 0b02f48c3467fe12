/* The life of a job in virtual time: from submit to completed, and what failures make of it. */
#include "tests/unit/core/world.h"

static const char train[] = "name: t\n"
                            "train:\n"
                            "  model: {arch: gpt2, layers: 2, hidden: 32, heads: 2, context: 32}\n"
                            "  data: {path: x.txt}\n"
                            "  steps: 200\n"
                            "  batch: {global: 16, micro: 4}\n"
                            "parallel: {dp: 4}\n"
                            "checkpoint: {directory: ckpt, every: 10}\n"
                            "restart: {max: 2, window: 1h, backoff: 1s}\n";

static void test_happy_path(void **state)
{
    (void)state;
    struct world *w = world_new(3, 2);
    int64_t id = world_submit(w, train);
    assert_int_equal(id, 1);
    assert_job(w, id, JOB_RUNNING);
    const struct attempt_record *a = world_attempt(w, id);
    assert_int_equal(a->state, ATTEMPT_RUNNING);
    assert_int_equal(a->n_nodes, 2);
    assert_int_equal(strlen(a->token), 32);
    assert_int_equal(core_node_free_slots(w->core, "node0"), 0);
    assert_int_equal(core_node_free_slots(w->core, "node2"), 2);
    world_train(w, id, 1, 20, 500, 10);
    assert_int_equal(world_job(w, id)->progress.step, 20);
    assert_int_equal(world_job(w, id)->progress.checkpoint_step, 20);
    world_finish(w, id);
    assert_job(w, id, JOB_COMPLETED);
    assert_says(world_job(w, id)->reason, "all 4 ranks exited with 0");
    assert_int_equal(world_attempt(w, id)->outcome, OUTCOME_COMPLETED);
    assert_int_equal(core_node_free_slots(w->core, "node0"), 2);
    assert_int_equal(world_job(w, id)->restarts, 0);
    assert_true(core_job_ettr(w->core, id, w->now_ms) > 0.9);
    struct link_order *orders = NULL;
    assert_int_equal(core_node_orders(w->core, "node0", &orders), 0);
    free(orders);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_happy_path),
    };
    return cmocka_run_group_tests_name("core life", tests, NULL, NULL);
}
