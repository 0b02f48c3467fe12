/* Nodes coming, going and draining, and what becomes of the jobs on them. */
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

static void drain(struct world *w, const char *node, int64_t deadline_ms, bool now)
{
    enum core_refusal why;
    struct err err = {""};
    if (core_drain(w->core, world_time(w), node, "new kernel", deadline_ms, now, &why, &err) != 0)
        fail_msg("%s", err.text);
    world_pump(w);
}

static void undrain(struct world *w, const char *node)
{
    enum core_refusal why;
    struct err err = {""};
    if (core_undrain(w->core, world_time(w), node, &why, &err) != 0)
        fail_msg("%s", err.text);
    world_pump(w);
}

static void test_silence(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    w->agents[1].mute = true;
    world_pass(w, 2300);
    assert_node(w, "node1", NODE_UP);
    world_pass(w, 300);
    assert_node(w, "node1", NODE_SUSPECT);
    assert_says(core_node(w->core, "node1")->reason, "not heard from for 2.5 s");
    w->agents[1].mute = false;
    world_pass(w, 1000);
    assert_node(w, "node1", NODE_UP);
    w->agents[1].mute = true;
    world_pass(w, 5200);
    assert_node(w, "node1", NODE_DOWN);
    assert_node(w, "node0", NODE_UP);
    world_free(w);
}

static void test_node_down_moves_its_job(void **state)
{
    (void)state;
    struct world *w = world_new(4, 2);
    int64_t id = world_submit(w, train);
    world_train(w, id, 1, 15, 100, 10);
    w->agents[1].alive = false;
    world_pass(w, 4000);
    assert_job(w, id, JOB_RUNNING);
    world_pass(w, 1500);
    assert_job(w, id, JOB_RUNNING);
    assert_int_equal(world_job(w, id)->attempt, 2);
    assert_int_equal(core_attempt(w->core, id, 1)->outcome, OUTCOME_NODE);
    assert_string_equal(world_attempt(w, id)->placement[3].node, "node2");
    assert_int_equal(world_attempt(w, id)->lost.detect, 5000);
    assert_int_equal(world_job(w, id)->restarts, 1);
    world_free(w);
}

/* The node comes back with old ranks still running: they are killed first, and it gets no work until then. */
static void test_returning_node_is_cleared_first(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_submit(w, train);
    struct shim *old = world_rank_shim(w, id, 2);
    w->agents[1].linked = false;
    core_node_link_lost(w->core, world_time(w), "node1");
    world_pump(w);
    assert_node(w, "node1", NODE_SUSPECT);
    world_pass(w, 5200);
    assert_node(w, "node1", NODE_DOWN);
    assert_job(w, id, JOB_RESTARTING);
    assert_says(world_job(w, id)->reason, "the nodes that are up and not draining have 2");
    agent_hello(w, &w->agents[1]); /* its agent is back, the shim still runs ranks */
    core_turn(w->core, world_time(w));
    assert_node(w, "node1", NODE_UP);
    assert_int_equal(world_job(w, id)->attempt, 1);
    struct link_order *orders = NULL;
    assert_int_equal(core_node_orders(w->core, "node1", &orders), 0);
    free(orders);
    assert_int_equal(old->report.phase, REPORT_RUNNING);
    world_pump(w);
    assert_job(w, id, JOB_RUNNING);
    assert_int_equal(world_job(w, id)->attempt, 2);
    world_free(w);
}

/* As above, but the node was only stopped for a while: its link never broke, so there is no new hello to tell what runs there. */
static void test_waking_node_is_cleared_first(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_submit(w, train);
    w->agents[1].mute = true;
    world_pass(w, 6000);
    assert_node(w, "node1", NODE_DOWN);
    core_node_heartbeat(w->core, world_time(w), "node1");
    core_turn(w->core, world_time(w));
    assert_node(w, "node1", NODE_UP);
    assert_int_equal(world_job(w, id)->attempt, 1);
    w->agents[1].mute = false;
    world_pump(w);
    assert_job(w, id, JOB_RUNNING);
    assert_int_equal(world_job(w, id)->attempt, 2);
    world_free(w);
}

static void test_link_back_in_time_changes_nothing(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_submit(w, train);
    world_train(w, id, 1, 5, 100, 0);
    world_unlink(w, &w->agents[1]);
    world_pass(w, 4000);
    assert_node(w, "node1", NODE_SUSPECT);
    world_relink(w, &w->agents[1]);
    world_pass(w, 10000);
    assert_node(w, "node1", NODE_UP);
    assert_job(w, id, JOB_RUNNING);
    assert_int_equal(world_job(w, id)->attempt, 1);
    world_free(w);
}

/* The agent's folder was wiped, or the machine rebooted: what it should run is not there. */
static void test_node_back_without_its_attempt(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_submit(w, train);
    world_unlink(w, &w->agents[1]);
    struct shim *s = world_rank_shim(w, id, 2);
    link_report_clear(&s->report);
    s->used = false;
    world_relink(w, &w->agents[1]);
    assert_int_equal(core_attempt(w->core, id, 1)->outcome, OUTCOME_NODE);
    assert_says(core_attempt(w->core, id, 1)->reason, "node1 came back without it");
    assert_job(w, id, JOB_RUNNING);
    assert_int_equal(world_job(w, id)->attempt, 2);
    world_free(w);
}

/* The order to prepare went out just as the link broke. */
static void test_lost_order_is_sent_again(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    w->agents[1].linked = false; /* the controller has not noticed yet */
    int64_t id = world_submit(w, train);
    assert_job(w, id, JOB_STARTING);
    world_relink(w, &w->agents[1]);
    assert_job(w, id, JOB_RUNNING);
    assert_int_equal(world_job(w, id)->attempt, 1);
    world_free(w);
}

static void test_drain_asks_for_a_checkpoint(void **state)
{
    (void)state;
    struct world *w = world_new(3, 2);
    int64_t id = world_submit(w, train);
    world_say(w, id, 0, "CHECKPOINT_ON", "SIGUSR1");
    world_train(w, id, 1, 13, 100, 10);
    drain(w, "node1", 0, false);
    assert_node(w, "node1", NODE_DRAINING);
    assert_string_equal(core_node(w->core, "node1")->reason,
                        "new kernel -- waits for job 1 to save a checkpoint");
    assert_job(w, id, JOB_RUNNING);
    assert_int_equal(world_attempt(w, id)->checkpoint_request, 1);
    assert_int_equal(world_rank_shim(w, id, 0)->checkpoint, 1);
    world_pass(w, 3000);
    assert_int_equal(world_job(w, id)->attempt, 1);
    world_say_step(w, id, "CHECKPOINT_DURABLE", 14);
    assert_node(w, "node1", NODE_DRAINED);
    assert_string_equal(core_node(w->core, "node1")->reason, "new kernel");
    assert_job(w, id, JOB_RUNNING);
    assert_int_equal(world_job(w, id)->attempt, 2);
    assert_int_equal(world_job(w, id)->restarts, 0);
    assert_int_equal(core_attempt(w->core, id, 1)->outcome, OUTCOME_DRAINED);
    assert_int_equal(core_attempt(w->core, id, 1)->nodes[0].report.ranks[0].signal, 15); /* with grace */
    assert_string_equal(world_attempt(w, id)->placement[3].node, "node2");
    undrain(w, "node1");
    assert_node(w, "node1", NODE_UP);
    assert_string_equal(core_node(w->core, "node1")->reason, "");
    world_free(w);
}

static void test_drain_waits_only_so_long(void **state)
{
    (void)state;
    static const struct {
        int64_t deadline_ms; /* from now; 0 = none */
        bool now, announced;
        int64_t moved_after_ms;
    } rows[] = {
        {0, false, true, 30000}, {60000, false, true, 60000}, {5000, false, true, 5000},
        {0, true, true, 0},      {0, false, false, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world *w = world_new(3, 2);
        int64_t id = world_submit(w, train);
        if (rows[i].announced)
            world_say(w, id, 0, "CHECKPOINT_ON", "SIGUSR1");
        drain(w, "node0", rows[i].deadline_ms ? w->now_ms + rows[i].deadline_ms : 0, rows[i].now);
        if (rows[i].moved_after_ms > 0) {
            world_pass(w, rows[i].moved_after_ms - 200);
            assert_int_equal(world_job(w, id)->attempt, 1);
            world_pass(w, 300);
        }
        assert_int_equal(world_job(w, id)->attempt, 2);
        assert_node(w, "node0", NODE_DRAINED);
        world_free(w);
    }
}

static void test_drain_without_room_elsewhere(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_submit(w, train);
    drain(w, "node1", 0, true);
    assert_node(w, "node1", NODE_DRAINED);
    assert_job(w, id, JOB_RESTARTING);
    assert_string_equal(world_job(w, id)->reason,
                        "waits for 4 slots: the nodes that are up and not draining have 2");
    undrain(w, "node1");
    assert_job(w, id, JOB_RUNNING);
    world_free(w);
}

static void test_drain_moves_what_prepares(void **state)
{
    (void)state;
    struct world *w = world_new(3, 2);
    w->agents[1].slow = true;
    int64_t id = world_submit(w, train);
    assert_job(w, id, JOB_STARTING);
    drain(w, "node1", 0, false);
    assert_job(w, id, JOB_RUNNING);
    assert_int_equal(core_attempt(w->core, id, 1)->outcome, OUTCOME_DRAINED);
    world_free(w);
}

/* What an agent kills because it was told to end everything is no failure of the job, whoever reports it first. */
static void test_leaving_charges_nobody(void **state)
{
    (void)state;
    struct world *w = world_new(4, 2);
    int64_t id = world_submit(w, train);
    world_train(w, id, 1, 15, 100, 10);
    for (size_t i = 0; i < 2; i++)
        core_node_leaving(w->core, world_time(w), w->agents[i].name, "its agent was told to end everything");
    shim_end_ranks(w, world_rank_shim(w, id, 2), 0, 9);
    shim_end_ranks(w, world_rank_shim(w, id, 0), 0, 9);
    world_pass(w, 2000);
    assert_int_equal(core_attempt(w->core, id, 1)->outcome, OUTCOME_DRAINED);
    assert_says(core_attempt(w->core, id, 1)->reason, "moves off node0, which leaves");
    assert_job(w, id, JOB_RUNNING);
    assert_int_equal(world_job(w, id)->restarts, 0);
    assert_string_equal(world_attempt(w, id)->placement[0].node, "node2");
    world_free(w);
}

static void test_leaving_node_is_used_after_its_next_hello(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    core_node_leaving(w->core, world_time(w), "node1", "its agent was told to end everything");
    int64_t id = world_submit(w, train);
    world_pass(w, 3000);
    assert_job(w, id, JOB_PENDING);
    agent_hello(w, &w->agents[1]);
    world_pass(w, 100);
    assert_job(w, id, JOB_RUNNING);
    world_free(w);
}

static void test_undrain_before_the_move(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_submit(w, train);
    world_say(w, id, 0, "CHECKPOINT_ON", "SIGUSR1");
    drain(w, "node1", 0, false);
    undrain(w, "node1");
    world_pass(w, 60000);
    assert_int_equal(world_job(w, id)->attempt, 1);
    assert_job(w, id, JOB_RUNNING);
    drain(w, "node1", 0, false); /* a second drain asks again */
    assert_int_equal(world_attempt(w, id)->checkpoint_request, 2);
    world_free(w);
}

/* Down, back and over a restart of the controller: a drain stays asked for, with the admin's words. */
static void test_drain_survives(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    drain(w, "node1", 0, false);
    assert_node(w, "node1", NODE_DRAINED);
    world_restart(w);
    world_pump(w);
    assert_node(w, "node1", NODE_DRAINED);
    assert_string_equal(core_node(w->core, "node1")->reason, "new kernel");
    world_unlink(w, &w->agents[1]);
    assert_string_equal(core_node(w->core, "node1")->reason, "new kernel -- its link closed");
    world_pass(w, 5200);
    assert_node(w, "node1", NODE_DOWN);
    world_restart(w);
    world_pump(w);
    world_relink(w, &w->agents[1]);
    assert_node(w, "node1", NODE_DRAINED);
    assert_string_equal(core_node(w->core, "node1")->reason, "new kernel");
    int64_t id = world_run(w, 3, "");
    assert_job(w, id, JOB_PENDING);
    world_free(w);
}

static void test_nothing_is_evicted_before_settling(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_submit(w, train);
    w->agents[1].linked = false;
    w->agents[1].mute = true;
    world_restart(w);
    world_pump(w);
    assert_node(w, "node1", NODE_UNKNOWN);
    assert_node(w, "node0", NODE_UP);
    world_pass(w, 9000);
    assert_node(w, "node1", NODE_UNKNOWN);
    assert_job(w, id, JOB_RUNNING);
    assert_int_equal(world_job(w, id)->attempt, 1);
    world_pass(w, 1500);
    assert_node(w, "node1", NODE_DOWN);
    assert_job(w, id, JOB_RESTARTING);
    world_free(w);
}

/* The controller itself was stopped for a while: silence in that time says nothing about the nodes. */
static void test_stalled_controller_blames_nobody(void **state)
{
    (void)state;
    struct world *w = world_new(3, 2);
    int64_t id = world_submit(w, train);
    world_pass(w, 1000);
    w->now_ms += 60000;
    w->mono_ms += 60000;
    world_pump(w);
    assert_job(w, id, JOB_RUNNING);
    assert_int_equal(world_job(w, id)->attempt, 1);
    assert_node(w, "node1", NODE_UP);
    w->agents[1].mute = true;
    world_pass(w, 8000);
    assert_node(w, "node1", NODE_DOWN);
    assert_node(w, "node0", NODE_UP);
    world_free(w);
}

static void test_unknown_nodes_are_refused(void **state)
{
    (void)state;
    struct world *w = world_new(1, 2);
    enum core_refusal why;
    struct err err = {""};
    assert_int_equal(core_drain(w->core, world_time(w), "nodeX", "r", 0, false, &why, &err), -1);
    assert_int_equal(why, CORE_NO_SUCH);
    assert_says(err.text, "there is no node nodeX");
    assert_int_equal(core_undrain(w->core, world_time(w), "node0", &why, &err), -1);
    assert_int_equal(why, CORE_REFUSED);
    core_node_heartbeat(w->core, world_time(w), "nodeX"); /* nobody: ignored */
    core_node_link_lost(w->core, world_time(w), "nodeX");
    assert_null(core_node(w->core, "nodeX"));
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_node_down_moves_its_job),
        cmocka_unit_test(test_returning_node_is_cleared_first),
        cmocka_unit_test(test_waking_node_is_cleared_first),
        cmocka_unit_test(test_link_back_in_time_changes_nothing),
        cmocka_unit_test(test_node_back_without_its_attempt),
        cmocka_unit_test(test_lost_order_is_sent_again),
        cmocka_unit_test(test_drain_asks_for_a_checkpoint),
        cmocka_unit_test(test_drain_waits_only_so_long),
        cmocka_unit_test(test_drain_without_room_elsewhere),
        cmocka_unit_test(test_drain_moves_what_prepares),
        cmocka_unit_test(test_leaving_charges_nobody),
        cmocka_unit_test(test_leaving_node_is_used_after_its_next_hello),
        cmocka_unit_test(test_undrain_before_the_move),
        cmocka_unit_test(test_drain_survives),
        cmocka_unit_test(test_nothing_is_evicted_before_settling),
        cmocka_unit_test(test_stalled_controller_blames_nobody),
        cmocka_unit_test(test_unknown_nodes_are_refused),
    };
    return cmocka_run_group_tests_name("core nodes", tests, NULL, NULL);
}
