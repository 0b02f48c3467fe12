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
    int64_t productive_ms = world_job(w, id)->productive_ms;
    world_say_step(w, id, "STEP", 20); /* repeated */
    world_say_step(w, id, "STEP", 7);  /* late */
    assert_int_equal(world_job(w, id)->progress.step, 20);
    assert_int_equal(world_job(w, id)->productive_ms, productive_ms);
    assert_int_equal(world_attempt(w, id)->lost.replay, 0);
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

static void test_rank_failure_restarts_from_checkpoint(void **state)
{
    (void)state;
    struct world *w = world_new(3, 2);
    int64_t id = world_submit(w, train);
    world_train(w, id, 1, 25, 500, 10);
    int64_t died_ms = w->now_ms;
    world_exit(w, id, 2, 0, 9, false);
    w->now_ms += 30; /* noticed 30 ms later */
    w->mono_ms += 30;
    world_pump(w);
    assert_job(w, id, JOB_RESTARTING);
    const struct job_record *job = world_job(w, id);
    assert_int_equal(job->first_failure_rank, 2);
    assert_int_equal(job->exit_code, 137);
    assert_says(job->reason, "restart 1 of 2 from step 20 after a pause of 1");
    assert_says(job->reason, "rank 2 on node1 was killed by signal 9 (SIGKILL)");
    const struct attempt_record *first = core_attempt(w->core, id, 1);
    assert_int_equal(first->state, ATTEMPT_ENDED);
    assert_int_equal(first->outcome, OUTCOME_FAILED);
    assert_int_equal(first->to_step, 25);
    assert_int_equal(first->nodes[0].report.ranks[0].signal, 9); /* MPI ranks spin: killed at once */
    assert_true(job->not_before_ms >= died_ms + 1030 && job->not_before_ms <= died_ms + 1130);
    world_pass(w, 900);
    assert_int_equal(job->attempt, 1);
    world_pass(w, 300);
    assert_job(w, id, JOB_RUNNING);
    assert_int_equal(job->attempt, 2);
    assert_int_equal(job->restarts, 1);
    assert_true(strcmp(first->token, world_attempt(w, id)->token) != 0);
    world_pass(w, 700);
    world_train(w, id, 21, 30, 500, 10);
    const struct attempt_record *second = world_attempt(w, id);
    assert_int_equal(second->from_step, 20);
    assert_int_equal(second->lost.detect, 30);
    assert_true(second->lost.place >= 1000 && second->lost.place <= 1200);
    assert_true(second->lost.load >= 1200 && second->lost.load <= 1500);
    assert_int_equal(second->lost.replay, 4 * 500); /* steps 22 to 25; the first step counts as loading */
    assert_int_equal(job->productive_ms, 24 * 500 + 5 * 500);
    assert_int_equal(job->lost.replay, second->lost.replay);
    world_finish(w, id);
    assert_job(w, id, JOB_COMPLETED);
    world_free(w);
}

/* The report of the rank that died of it arrives before the report of the one that began it. */
static void test_first_failing_rank_by_time(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_submit(w, train);
    world_pass(w, 100);
    world_exit(w, id, 3, 0, 11, false);
    struct shim *late = world_rank_shim(w, id, 3);
    late->unsent = false;
    w->now_ms += 5;
    w->mono_ms += 5;
    late->stubborn = true;
    world_exit(w, id, 0, 1, 0, false);
    core_node_report(w->core, world_time(w), "node0", &world_rank_shim(w, id, 0)->report);
    core_turn(w->core, world_time(w));
    assert_int_equal(world_job(w, id)->first_failure_rank, 0);
    late->unsent = true;
    world_pump(w);
    assert_int_equal(world_job(w, id)->first_failure_rank, 3);
    assert_says(world_job(w, id)->reason, "rank 3 on node1 was killed by signal 11 (SIGSEGV)");
    world_free(w);
}

/* Fails once and lets the backoff pass. */
static void fail_once(struct world *w, int64_t id, int code)
{
    world_exit(w, id, 1, code, 0, false);
    world_pump(w);
}

static void test_budget_ends_the_job(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_run(w, 4, "restart: {max: 2, window: 1h, backoff: 1s}\n");
    int64_t pauses[2];
    for (int i = 0; i < 2; i++) {
        fail_once(w, id, 1);
        assert_job(w, id, JOB_RESTARTING);
        pauses[i] = world_job(w, id)->not_before_ms - w->now_ms;
        world_pass(w, 3000);
        assert_job(w, id, JOB_RUNNING);
    }
    assert_true(pauses[1] >= 2000 && pauses[1] <= 2200 && pauses[0] <= 1100);
    fail_once(w, id, 1);
    assert_job(w, id, JOB_FAILED);
    assert_says(world_job(w, id)->reason, "restart.max is 2");
    assert_says(world_job(w, id)->reason, "rank 1 on node0 exited with 1");
    assert_int_equal(world_job(w, id)->restarts, 2);
    world_free(w);
}

static void test_failures_outside_the_window_do_not_count(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_run(w, 4, "restart: {max: 1, window: 10s, backoff: 1s}\n");
    for (int i = 0; i < 4; i++) {
        fail_once(w, id, 1);
        assert_job(w, id, JOB_RESTARTING);
        world_pass(w, 12000);
        assert_job(w, id, JOB_RUNNING);
    }
    world_free(w);
}

static void test_exit_codes(void **state)
{
    (void)state;
    static const struct {
        int code;
        enum job_state then;
        enum attempt_outcome outcome;
        const char *says;
    } rows[] = {
        {1, JOB_RESTARTING, OUTCOME_FAILED, "rank 1 on node0 exited with 1"},
        {93, JOB_FAILED, OUTCOME_FAILED, "exited with 93 (do not retry)"},
        {94, JOB_RESTARTING, OUTCOME_FAILED, "restart 1 of 2"},
        {95, JOB_RUNNING, OUTCOME_NODE, "superseded"}, /* starts again at once */
        {75, JOB_RUNNING, OUTCOME_NODE, "stopped from outside"},
        {2, JOB_RESTARTING, OUTCOME_FAILED, "bad configuration"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world *w = world_new(2, 2);
        int64_t id = world_submit(w, train);
        fail_once(w, id, rows[i].code);
        assert_job(w, id, rows[i].then);
        assert_int_equal(core_attempt(w->core, id, 1)->outcome, rows[i].outcome);
        assert_says(w->log, rows[i].says);
        world_free(w);
    }
}

static void test_no_progress_ends_the_job(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id =
        world_run(w, 4, "checkpoint: {directory: ck}\nrestart: {max: 50, window: 1h, backoff: 1s}\n");
    fail_once(w, id, 1);
    world_pass(w, 9000);
    world_train(w, id, 1, 10, 100, 10); /* a new checkpoint: the count begins again */
    for (int i = 0; i < 3; i++) {
        assert_job(w, id, JOB_RUNNING);
        fail_once(w, id, 1);
        world_pass(w, 20000);
    }
    assert_job(w, id, JOB_RUNNING); /* the attempt with the checkpoint was one of these */
    fail_once(w, id, 1);
    assert_job(w, id, JOB_FAILED);
    assert_says(world_job(w, id)->reason, "no progress: 3 attempts in a row passed no new checkpoint");
    assert_says(world_job(w, id)->reason, "rank 1 on node0");
    world_free(w);
}

static void test_program_without_checkpoints_is_not_ended_for_no_progress(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_run(w, 4, "restart: {max: 50, window: 1h, backoff: 1s}\n");
    for (int i = 0; i < 5; i++) {
        fail_once(w, id, 1);
        world_pass(w, 40000);
        assert_job(w, id, JOB_RUNNING);
    }
    world_free(w);
}

static void test_exit_0_before_it_finished(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_submit(w, train);
    world_exit(w, id, 2, 0, 0, false);
    world_pump(w);
    assert_job(w, id, JOB_RESTARTING);
    assert_says(world_job(w, id)->reason, "rank 2 on node1 exited with 0 before it finished");
    world_free(w);
}

static void test_plain_ranks_end_at_different_times(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    w->mpi = false;
    int64_t id = world_run(w, 4, "");
    for (int64_t rank = 3; rank >= 0; rank--) {
        assert_job(w, id, JOB_RUNNING);
        world_exit(w, id, rank, 0, 0, false);
        world_pass(w, 2000);
    }
    assert_job(w, id, JOB_COMPLETED);
    world_free(w);
}

/* A failing plain program gets SIGTERM and its grace; its ranks must be gone before the next attempt. */
static void test_old_ranks_go_before_new_ones_come(void **state)
{
    (void)state;
    struct world *w = world_new(4, 2);
    w->mpi = false;
    int64_t id = world_run(w, 4, "");
    struct shim *s = world_rank_shim(w, id, 2);
    s->stubborn = true;
    fail_once(w, id, 1);
    struct link_order *orders = NULL;
    assert_int_equal(core_node_orders(w->core, "node1", &orders), 1);
    assert_int_equal(orders[0].phase, ORDER_STOP);
    assert_false(orders[0].kill);
    assert_int_equal(orders[0].grace_ms, 30000);
    link_order_clear(orders);
    free(orders);
    world_pass(w, 20000);
    assert_int_equal(world_job(w, id)->attempt, 1);
    assert_job(w, id, JOB_RESTARTING);
    shim_end_ranks(w, s, 0, 9);
    world_pass(w, 2000);
    assert_int_equal(world_job(w, id)->attempt, 2);
    assert_job(w, id, JOB_RUNNING);
    world_free(w);
}

static void test_refusal_costs_nothing(void **state)
{
    (void)state;
    struct world *w = world_new(3, 2);
    w->agents[1].refuse = true;
    int64_t id = world_submit(w, train);
    assert_job(w, id, JOB_RUNNING);
    assert_int_equal(world_job(w, id)->attempt, 2);
    assert_int_equal(world_job(w, id)->restarts, 0);
    assert_int_equal(core_attempt(w->core, id, 1)->outcome, OUTCOME_NODE);
    assert_says(core_attempt(w->core, id, 1)->reason, "node1 could not prepare it: no space left on device");
    assert_string_equal(world_attempt(w, id)->placement[3].node, "node2");
    world_free(w);
}

static void test_only_node_refuses(void **state)
{
    (void)state;
    struct world *w = world_new(1, 2);
    w->agents[0].refuse = true;
    int64_t id = world_run(w, 2, "");
    assert_job(w, id, JOB_PENDING);
    assert_says(world_job(w, id)->reason,
                "node0 could not prepare it and is avoided for a while: no space left");
    int64_t attempts = world_job(w, id)->attempt;
    world_pass(w, 60000);
    assert_true(world_job(w, id)->attempt - attempts <= 5); /* ever longer pauses */
    w->agents[0].refuse = false;
    world_pass(w, 200000);
    assert_job(w, id, JOB_RUNNING);
    world_free(w);
}

static void test_prepare_times_out(void **state)
{
    (void)state;
    struct world *w = world_new(3, 2);
    w->agents[0].slow = true;
    int64_t id = world_submit(w, train);
    assert_job(w, id, JOB_STARTING);
    world_pass(w, 14000);
    assert_int_equal(world_job(w, id)->attempt, 1);
    world_pass(w, 2000);
    assert_job(w, id, JOB_RUNNING);
    assert_int_equal(world_job(w, id)->attempt, 2);
    assert_says(core_attempt(w->core, id, 1)->reason, "node0 did not get ready in time");
    world_free(w);
}

static void test_several_nodes_are_late(void **state)
{
    (void)state;
    struct world *w = world_new(5, 2);
    w->agents[0].slow = w->agents[2].slow = true;
    int64_t id = world_run(w, 6, "");
    world_pass(w, 15100);
    assert_says(core_attempt(w->core, id, 1)->reason, "node0 and 1 more did not get ready in time");
    assert_job(w, id, JOB_RUNNING);
    assert_int_equal(world_job(w, id)->attempt, 2);
    world_free(w);
}

/* Ready, told to go, and then nothing more is heard of its ranks. */
static void test_launch_times_out(void **state)
{
    (void)state;
    struct world *w = world_new(3, 2);
    int64_t id = world_submit(w, train);
    world_verb(w, id, CORE_CANCEL);
    w->agents[1].slow = true;
    int64_t next = world_run(w, 4, "");
    struct shim *s = world_rank_shim(w, next, 2);
    shim_set(s, REPORT_READY);
    s->phase = ORDER_GO; /* as if it had obeyed */
    world_pump(w);
    assert_int_equal(world_attempt(w, next)->state, ATTEMPT_LAUNCHING);
    w->agents[1].slow = false;
    world_pass(w, 59000);
    assert_int_equal(world_attempt(w, next)->state, ATTEMPT_LAUNCHING);
    world_pass(w, 2000);
    assert_says(core_attempt(w->core, next, 1)->reason, "node1 did not report that its ranks run in time");
    assert_job(w, next, JOB_RUNNING);
    world_free(w);
}

/* A report that speaks of ranks of other nodes is believed only for its own. */
static void test_reports_speak_for_their_own_ranks(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_submit(w, train);
    struct link_rank ranks[] = {{.rank = 0, .state = RANK_EXITED, .code = 1},
                                {.rank = 77, .state = RANK_EXITED, .code = 1},
                                {.rank = -1, .state = RANK_EXITED, .code = 1}};
    struct link_report r = {id, 1, 50, REPORT_RUNNING, "", 1, 1, ranks, 3};
    core_node_report(w->core, world_time(w), "node1", &r);
    world_pump(w);
    assert_job(w, id, JOB_RUNNING);
    world_free(w);
}

static void test_time_limit(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_run(w, 4, "limits: {time: 60s}\n");
    world_pass(w, 59000);
    assert_job(w, id, JOB_RUNNING);
    world_pass(w, 1500);
    assert_job(w, id, JOB_FAILED);
    assert_says(world_job(w, id)->reason, "time limit of");
    assert_int_equal(world_attempt(w, id)->outcome, OUTCOME_TIME_LIMIT);
    world_free(w);
}

static void test_shim_lost_is_a_node_fault(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_submit(w, train);
    world_train(w, id, 1, 12, 100, 10);
    struct shim *s = world_rank_shim(w, id, 2);
    shim_end_ranks(w, s, 0, 9);
    shim_set(s, REPORT_LOST);
    s->report.rev = 1; /* the agent's word: it does not know the shim's last revision */
    world_pump(w);
    assert_job(w, id, JOB_RUNNING); /* at once, on the same nodes */
    assert_int_equal(world_job(w, id)->attempt, 2);
    assert_int_equal(core_attempt(w->core, id, 1)->outcome, OUTCOME_NODE);
    assert_says(core_attempt(w->core, id, 1)->reason, "the shim on node1 was lost");
    assert_int_equal(world_job(w, id)->restarts, 1);
    world_free(w);
}

/* A rank dies because a node vanished: the node is to blame, although the rank's report came first. */
static void test_lost_node_explains_failing_ranks(void **state)
{
    (void)state;
    struct world *w = world_new(3, 2);
    int64_t id = world_submit(w, train);
    world_train(w, id, 1, 12, 100, 10);
    w->agents[1].alive = false;
    world_exit(w, id, 0, 1, 0, false);
    world_pass(w, 1000);
    assert_job(w, id, JOB_RESTARTING);
    assert_int_equal(world_job(w, id)->attempt, 1); /* node1 may still run old ranks */
    world_pass(w, 6000);
    assert_node(w, "node1", NODE_DOWN);
    assert_job(w, id, JOB_RUNNING);
    assert_int_equal(core_attempt(w->core, id, 1)->outcome, OUTCOME_NODE);
    assert_says(core_attempt(w->core, id, 1)->reason, "node1 went down");
    world_free(w);
}

static void test_same_key_same_job(void **state)
{
    (void)state;
    struct world *w = world_new(1, 2);
    int64_t first = 0, second = 0;
    struct err err = {""};
    const char *yaml = "name: k\nrun: {command: [x], ranks: 1}\n";
    assert_int_equal(world_try_submit(w, yaml, "key-1", &first, &err), 0);
    world_restart(w);
    assert_int_equal(world_try_submit(w, yaml, "key-1", &second, &err), 0);
    assert_int_equal(first, second);
    assert_int_equal(world_try_submit(w, yaml, "key-2", &second, &err), 0);
    assert_int_equal(second, first + 1);
    world_free(w);
}

static void test_one_checkpoint_directory_one_live_job(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_submit(w, train), other = 0;
    struct err err = {""};
    const char *same =
        "name: o\nrun: {command: [x], ranks: 1}\ncheckpoint: {directory: /home/ann/./x/..//ckpt/}\n";
    assert_int_equal(world_try_submit(w, same, NULL, &other, &err), -1);
    assert_says(err.text, "job 1 (t) already uses the checkpoint directory /home/ann/ckpt");
    world_restart(w);
    assert_int_equal(world_try_submit(w, same, NULL, &other, &err), -1);
    world_verb(w, id, CORE_CANCEL);
    assert_int_equal(world_try_submit(w, same, NULL, &other, &err), 0);
    enum core_refusal why;
    assert_int_equal(core_job_request(w->core, world_time(w), id, CORE_REQUEUE, "ann", &why, &err), -1);
    assert_int_equal(why, CORE_REFUSED);
    assert_says(err.text, "job 2 (o) already uses");
    world_free(w);
}

static void test_queue_order(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t first = world_run(w, 4, "");
    int64_t low = world_run(w, 4, "priority: -1\n"), normal = world_run(w, 4, "");
    int64_t high = world_run(w, 4, "priority: 5\n"), held = world_run(w, 4, "priority: 9\n");
    world_verb(w, held, CORE_HOLD);
    assert_says(world_job(w, high)->reason, "waits for 4 free slots: other jobs hold them");
    int64_t order[] = {first, high, normal, low};
    for (size_t i = 0; i < 4; i++) {
        assert_job(w, order[i], JOB_RUNNING);
        world_finish(w, order[i]);
    }
    assert_job(w, held, JOB_HELD);
    world_free(w);
}

/* A large job waits, a small one behind it runs; one that can never fit says so. */
static void test_what_does_not_fit_does_not_block(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t first = world_run(w, 2, ""), large = world_run(w, 4, ""), never = world_run(w, 16, "");
    int64_t small = world_run(w, 2, "");
    assert_job(w, first, JOB_RUNNING);
    assert_job(w, large, JOB_PENDING);
    assert_job(w, never, JOB_PENDING);
    assert_job(w, small, JOB_RUNNING);
    assert_string_equal(world_job(w, never)->reason, "never fits: needs 16 slots, the cluster has 4");
    world_free(w);
}

/* Submits to a cluster whose nodes join later. */
static void test_nodes_join_later(void **state)
{
    (void)state;
    struct world *w = world_new(0, 2);
    int64_t id = world_run(w, 2, "");
    assert_says(world_job(w, id)->reason, "none has joined");
    struct agent *g = &w->agents[0];
    (void)snprintf(g->name, sizeof(g->name), "node0");
    g->alive = true;
    g->slots = 2;
    w->n_agents = 1;
    world_relink(w, g);
    assert_job(w, id, JOB_RUNNING);
    world_free(w);
}

/* Racks of two pods may have one name, and are two. */
static void test_the_map_says_racks(void **state)
{
    (void)state;
    static const struct {
        const char *rack, *pod, *domain;
    } rows[] = {{"rack0", "pod1", "pod1/rack0"}, {"rack0", NULL, "rack0"}, {NULL, "pod1", ""}};
    struct world *w = world_new(3, 1);
    for (size_t i = 0; i < 3; i++) {
        w->agents[i].rack = rows[i].rack;
        w->agents[i].pod = rows[i].pod;
        world_relink(w, &w->agents[i]);
    }
    world_run(w, 3, "");
    struct link_order *o = NULL;
    assert_int_equal(core_node_orders(w->core, "node0", &o), 1);
    assert_int_equal(o->n_map, 3);
    for (size_t i = 0; i < 3; i++) {
        size_t node = (size_t)(o->map[i].node[4] - '0');
        assert_string_equal(o->map[i].domain, rows[node].domain);
    }
    assert_false(o->memory_tier);
    link_order_clear(o);
    free(o);
    world_free(w);
}

static void test_orders_say_everything(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_run(w, 4,
                           "env: {A: b}\nresources: {cpus: 3, memory: 2GiB}\nlimits: {grace: 7s}\n"
                           "checkpoint: {memory: {every: 1, buddy: false}}\n");
    struct link_order *o = NULL;
    assert_int_equal(core_node_orders(w->core, "node1", &o), 1);
    assert_int_equal(o->phase, ORDER_GO);
    assert_string_equal(o->argv[0], "prog");
    assert_string_equal(o->env_keys[0], "A");
    assert_string_equal(o->env_values[0], "b");
    assert_string_equal(o->device, "cpu");
    assert_string_equal(o->user, "ann");
    assert_int_equal(o->uid, 1000);
    assert_int_equal(o->cpus, 3);
    assert_int_equal(o->memory, (int64_t)2 << 30);
    assert_int_equal(o->grace_ms, 7000);
    assert_int_equal(o->world, 4);
    assert_int_equal(o->node_rank, 1);
    assert_int_equal(o->n_ranks, 2);
    assert_int_equal(o->ranks[0].rank, 2);
    assert_int_equal(o->ranks[1].slot, 1);
    assert_int_equal(o->n_map, 2);
    assert_string_equal(o->map[1].node, "node1");
    assert_int_equal(o->map[1].ranks[1], 3);
    assert_string_equal(o->map[1].domain, "");
    assert_true(o->memory_tier);
    assert_false(o->buddy);
    assert_string_equal(o->spec, world_job(w, id)->yaml);
    link_order_clear(o);
    free(o);
    world_free(w);
}

static void test_progress_only_changes_are_marked(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_submit(w, train);
    world_train(w, id, 1, 2, 100, 0);
    struct link_progress p = {id, 1, 0, json_object()};
    json_object_set_new(p.values, "LOSS", json_string("2.5"));
    json_object_set_new(p.values, "STEP", json_string("junk"));
    json_object_set_new(p.values, "PHASE", json_string("training"));
    int64_t rev = world_job(w, id)->rev;
    core_node_progress(w->core, world_time(w), "node0", &p);
    const struct core_changes *c = core_changes(w->core);
    assert_int_equal(c->n_jobs, 1);
    assert_true(c->jobs_progress_only[0]);
    assert_true(c->jobs[0]->rev > rev);
    assert_int_equal(c->n_attempts + c->n_nodes + c->n_events, 0);
    assert_true(world_job(w, id)->progress.loss == 2.5);
    assert_int_equal(world_job(w, id)->progress.step, 2);
    assert_string_equal(world_job(w, id)->progress.phase, "training");
    p.attempt = 9; /* of an attempt that is not: ignored */
    core_changes_clear(w->core);
    core_node_progress(w->core, world_time(w), "node0", &p);
    assert_int_equal(core_changes(w->core)->n_jobs, 0);
    json_decref(p.values);
    world_free(w);
}

/* A failure after new progress pauses as the first one does, however many there were in the window. */
static void test_progress_resets_the_pause(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id =
        world_run(w, 4, "checkpoint: {directory: ck}\nrestart: {max: 50, window: 1h, backoff: 1s}\n");
    for (int64_t i = 0; i < 5; i++) {
        world_pass(w, 5000);
        assert_job(w, id, JOB_RUNNING);
        world_train(w, id, i * 10 + 1, i * 10 + 10, 100, 10);
        world_exit(w, id, 1, 1, 0, false);
        world_pump(w);
        int64_t pause_ms = world_job(w, id)->not_before_ms - w->now_ms;
        assert_true(pause_ms >= 1000 && pause_ms <= 1100);
    }
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_happy_path),
        cmocka_unit_test(test_rank_failure_restarts_from_checkpoint),
        cmocka_unit_test(test_first_failing_rank_by_time),
        cmocka_unit_test(test_budget_ends_the_job),
        cmocka_unit_test(test_failures_outside_the_window_do_not_count),
        cmocka_unit_test(test_exit_codes),
        cmocka_unit_test(test_no_progress_ends_the_job),
        cmocka_unit_test(test_program_without_checkpoints_is_not_ended_for_no_progress),
        cmocka_unit_test(test_exit_0_before_it_finished),
        cmocka_unit_test(test_plain_ranks_end_at_different_times),
        cmocka_unit_test(test_old_ranks_go_before_new_ones_come),
        cmocka_unit_test(test_refusal_costs_nothing),
        cmocka_unit_test(test_only_node_refuses),
        cmocka_unit_test(test_prepare_times_out),
        cmocka_unit_test(test_several_nodes_are_late),
        cmocka_unit_test(test_launch_times_out),
        cmocka_unit_test(test_reports_speak_for_their_own_ranks),
        cmocka_unit_test(test_time_limit),
        cmocka_unit_test(test_shim_lost_is_a_node_fault),
        cmocka_unit_test(test_lost_node_explains_failing_ranks),
        cmocka_unit_test(test_same_key_same_job),
        cmocka_unit_test(test_one_checkpoint_directory_one_live_job),
        cmocka_unit_test(test_queue_order),
        cmocka_unit_test(test_what_does_not_fit_does_not_block),
        cmocka_unit_test(test_nodes_join_later),
        cmocka_unit_test(test_orders_say_everything),
        cmocka_unit_test(test_the_map_says_racks),
        cmocka_unit_test(test_progress_only_changes_are_marked),
        cmocka_unit_test(test_progress_resets_the_pause),
    };
    return cmocka_run_group_tests_name("core life", tests, NULL, NULL);
}
