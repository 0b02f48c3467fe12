/* What a job keeps between two attempts: its slots are nobody else's meanwhile, and only what lost its node moves. */
#include "tests/unit/core/world.h"

#define LONG_PAUSE "restart: {max: 5, backoff: 60s}\n"

static char *placement_text(const struct attempt_record *a)
{
    char *text = str_dup("");
    for (size_t i = 0; i < a->world; i++) {
        char *longer = str_printf("%s%s%s.%lld", text, i ? " " : "", a->placement[i].node,
                                  (long long)a->placement[i].slot);
        free(text);
        text = longer;
    }
    return text;
}

/* A job of 4 ranks on 2 of 3 nodes, whose rank 1 has just failed: it pauses. */
static struct world *pausing(int64_t *id, char **was)
{
    struct world *w = world_new(3, 2);
    *id = world_run(w, 4, LONG_PAUSE);
    world_pass(w, 300);
    assert_job(w, *id, JOB_RUNNING);
    *was = placement_text(world_attempt(w, *id));
    world_exit(w, *id, 1, 1, 0, false);
    world_pump(w);
    world_pass(w, 1000);
    assert_job(w, *id, JOB_RESTARTING);
    return w;
}

static void test_nobody_takes_them(void **state)
{
    (void)state;
    int64_t id;
    char *was;
    struct world *w = pausing(&id, &was);
    int64_t other = world_run(w, 4, "");
    world_pass(w, 1000);
    assert_job(w, other, JOB_PENDING);
    assert_int_equal(core_node_free_slots(w->core, "node0"), 0);
    world_pass(w, 70000);
    assert_job(w, id, JOB_RUNNING);
    char *now = placement_text(world_attempt(w, id));
    assert_string_equal(now, was);
    free(now);
    free(was);
    world_free(w);
}

static void test_not_for_ever(void **state)
{
    (void)state;
    struct world *w = world_new(3, 2);
    int64_t id = world_run(w, 6, "");
    world_pass(w, 300);
    struct agent *g = world_agent(w, "node2");
    g->alive = false;
    world_unlink(w, g);
    world_pass(w, 8000);
    assert_job(w, id, JOB_RESTARTING); /* its third node is down */
    int64_t other = world_run(w, 4, "");
    world_pass(w, 300000);
    assert_job(w, other, JOB_PENDING);
    world_pass(w, 400000);
    assert_job(w, other, JOB_RUNNING);
    assert_job(w, id, JOB_RESTARTING);
    world_free(w);
}

static void test_wishes_give_them_back(void **state)
{
    (void)state;
    static const enum core_job_verb verbs[] = {CORE_CANCEL, CORE_HOLD};
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        int64_t id;
        char *was;
        struct world *w = pausing(&id, &was);
        int64_t other = world_run(w, 6, "");
        world_verb(w, id, verbs[i]);
        world_pass(w, 1000);
        assert_job(w, other, JOB_RUNNING);
        free(was);
        world_free(w);
    }
}

static void test_controller_restart_keeps(void **state)
{
    (void)state;
    int64_t id;
    char *was;
    struct world *w = pausing(&id, &was);
    world_restart(w);
    int64_t other = world_run(w, 4, "");
    world_pass(w, 20000);
    assert_job(w, other, JOB_PENDING);
    world_pass(w, 60000);
    assert_job(w, id, JOB_RUNNING);
    char *now = placement_text(world_attempt(w, id));
    assert_string_equal(now, was);
    free(now);
    free(was);
    world_free(w);
}

/* What a wish gave back stays given back, also for a controller that starts anew. */
static void test_controller_restart_keeps_no_more(void **state)
{
    (void)state;
    struct world *w = world_new(3, 2);
    int64_t id = world_run(w, 4, "");
    world_pass(w, 300);
    world_verb(w, id, CORE_HOLD);
    world_pass(w, 1000);
    int64_t other = world_run(w, 6, "priority: 20\n");
    world_pass(w, 300);
    assert_job(w, other, JOB_RUNNING);
    world_verb(w, id, CORE_RELEASE);
    world_restart(w);
    world_pass(w, 300);
    assert_false(core_job_keeps(w->core, id));
    assert_job(w, id, JOB_PENDING);
    world_free(w);
}

/* After its own start the controller lets all nodes report before it moves anybody. */
static void test_nodes_may_report_first(void **state)
{
    (void)state;
    struct world *w = world_new(4, 2);
    int64_t id = world_run(w, 4, "restart: {backoff: 3s}\n");
    world_pass(w, 300);
    char *was = placement_text(world_attempt(w, id));
    world_exit(w, id, 1, 1, 0, false);
    world_pump(w);
    world_pass(w, 500);
    core_free(w->core);
    w->core = core_new(&w->config, world_time(w));
    world_load(w);
    w->now_ms += 4000;
    w->mono_ms += 4000;
    agent_hello(w, &w->agents[3]);
    agent_hello(w, &w->agents[2]);
    world_pump(w);
    assert_job(w, id, JOB_RESTARTING);
    agent_hello(w, &w->agents[0]);
    agent_hello(w, &w->agents[1]);
    world_pass(w, 500);
    assert_job(w, id, JOB_RUNNING);
    char *now = placement_text(world_attempt(w, id));
    assert_string_equal(now, was);
    free(now);
    free(was);
    world_free(w);
}

/* A node that refuses again and again does not keep the slots idle for ever. */
static void test_refusals_do_not_keep(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_run(w, 4, "");
    world_pass(w, 300);
    world_agent(w, "node1")->refuse = true;
    world_exit(w, id, 1, 1, 0, false);
    world_pump(w);
    int64_t other = world_run(w, 2, "");
    world_pass(w, 500000);
    assert_job(w, other, JOB_PENDING);
    world_pass(w, 900000);
    assert_job(w, other, JOB_RUNNING);
    world_free(w);
}

/* What a node came back as decides who may stay: without its GPUs, or with too little memory, nobody who needs them. */
static void test_nodes_that_changed(void **state)
{
    (void)state;
    struct world *w = world_new(3, 2);
    int64_t id = world_run(w, 4, "resources: {memory: 20GiB}\nrestart: {backoff: 20s}\n");
    world_pass(w, 300);
    world_exit(w, id, 1, 1, 0, false);
    world_pump(w);
    world_pass(w, 500);
    struct link_inventory small = {.slots = 2, .cores = 2, .memory = (int64_t)30 << 30};
    struct core_hello hello = {"node1", "boot-1", &small, NULL, 0};
    core_node_hello(w->core, world_time(w), &hello);
    core_turn(w->core, world_time(w));
    world_pass(w, 40000);
    assert_job(w, id, JOB_RUNNING);
    const struct attempt_record *a = world_attempt(w, id);
    int on_node1 = 0;
    for (size_t r = 0; r < a->world; r++)
        on_node1 += strcmp(a->placement[r].node, "node1") == 0;
    assert_true(on_node1 <= 1); /* 30 GiB hold one rank of 20 */
    world_free(w);
}

/* A node that comes back with fewer slots has only those. */
static void test_slots_that_are_gone_are_not_kept(void **state)
{
    (void)state;
    struct world *w = world_new(3, 4);
    int64_t id = world_run(w, 8, "restart: {backoff: 20s}\n");
    world_pass(w, 300);
    world_exit(w, id, 7, 1, 0, false);
    world_pump(w);
    world_pass(w, 500);
    struct agent *g = world_agent(w, "node1");
    world_unlink(w, g);
    g->slots = 2;
    world_relink(w, g);
    assert_int_equal(core_node_free_slots(w->core, "node1"), 0);
    world_pass(w, 40000);
    assert_job(w, id, JOB_RUNNING);
    const struct attempt_record *a = world_attempt(w, id);
    for (size_t r = 0; r < a->world; r++)
        assert_true(strcmp(a->placement[r].node, "node1") != 0 || a->placement[r].slot < 2);
    world_free(w);
}

/* Weeks of restarts do not fill the memory: only the newest attempts keep placement and reports. */
static void test_old_attempts_are_trimmed(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_run(w, 4, "restart: {max: 100, backoff: 0s}\n");
    for (int i = 0; i < ATTEMPTS_DETAILED + 4; i++) {
        world_pass(w, 500);
        assert_job(w, id, JOB_RUNNING);
        world_exit(w, id, 1, 1, 0, false);
        world_pump(w);
    }
    world_pass(w, 500);
    int64_t newest = world_job(w, id)->attempt;
    assert_int_equal(newest, ATTEMPTS_DETAILED + 5);
    for (int64_t n = 1; n <= newest; n++) {
        const struct attempt_record *a = core_attempt(w->core, id, n);
        assert_non_null(a);
        assert_int_equal(a->world, n + ATTEMPTS_DETAILED > newest ? 4 : 0);
        assert_int_equal(world_stored_attempt(w, id, n)->world, 4); /* the store has it all */
    }
    world_free(w);
}

/* ---- what ended attempts hold in memory ---- */

#define IN_MEMORY LONG_PAUSE "checkpoint: {memory: {every: 1}}\n"

static bool keeps_memory(const struct world *w, const char *node, int64_t id)
{
    int64_t *jobs;
    size_t n = core_node_keep(w->core, node, &jobs);
    bool found = false;
    for (size_t i = 0; i < n; i++) {
        found = found || jobs[i] == id;
        assert_true(i == 0 || jobs[i] > jobs[i - 1]);
    }
    free(jobs);
    return found;
}

/* As pausing(), of a job with copies in memory: on which of the three nodes do they stay? */
static struct world *pausing_in_memory(int64_t *id, const char *more)
{
    struct world *w = world_new(3, 2);
    *id = world_run(w, 4, more);
    world_pass(w, 300);
    assert_job(w, *id, JOB_RUNNING);
    world_exit(w, *id, 1, 1, 0, false);
    world_pump(w);
    world_pass(w, 1000);
    assert_job(w, *id, JOB_RESTARTING);
    return w;
}

static void test_memory_stays_while_it_restarts(void **state)
{
    (void)state;
    int64_t id;
    struct world *w = pausing_in_memory(&id, IN_MEMORY);
    assert_true(keeps_memory(w, "node0", id) && keeps_memory(w, "node1", id));
    assert_false(keeps_memory(w, "node2", id));
    assert_false(keeps_memory(w, "nowhere", id));
    world_restart(w); /* another controller says the same */
    world_pass(w, 1000);
    assert_true(keeps_memory(w, "node0", id) && keeps_memory(w, "node1", id));
    world_pass(w, 70000);
    assert_job(w, id, JOB_RUNNING);
    assert_false(keeps_memory(w, "node2", id));
    world_free(w);
}

static void test_memory_stays_of_jobs_that_have_some(void **state)
{
    (void)state;
    int64_t id;
    struct world *w = pausing_in_memory(&id, LONG_PAUSE);
    assert_false(keeps_memory(w, "node0", id));
    world_free(w);
}

static void test_wishes_give_memory_back(void **state)
{
    (void)state;
    static const enum core_job_verb verbs[] = {CORE_CANCEL, CORE_HOLD};
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        int64_t id;
        struct world *w = pausing_in_memory(&id, IN_MEMORY);
        core_changes_clear(w->core);
        world_verb(w, id, verbs[i]);
        assert_false(keeps_memory(w, "node0", id));
        assert_false(keeps_memory(w, "node1", id));
        world_free(w);
    }
}

/* A preempted job has no slots until its turn comes again. */
static void test_a_requeue_gives_memory_back(void **state)
{
    (void)state;
    struct world *w = world_new(3, 2);
    int64_t id = world_run(w, 4, IN_MEMORY), other;
    world_pass(w, 300);
    other = world_run(w, 6, "priority: 20\n");
    world_verb(w, id, CORE_REQUEUE);
    world_pass(w, 3000);
    assert_job(w, other, JOB_RUNNING);
    assert_false(keeps_memory(w, "node0", id) || keeps_memory(w, "node1", id));
    world_free(w);
}

static void test_an_end_gives_memory_back(void **state)
{
    (void)state;
    struct world *w = world_new(3, 2);
    int64_t id = world_run(w, 4, IN_MEMORY);
    world_pass(w, 300);
    world_finish(w, id);
    world_pass(w, 300);
    assert_job(w, id, JOB_COMPLETED);
    assert_false(keeps_memory(w, "node0", id) || keeps_memory(w, "node1", id));
    world_free(w);
}

static void test_memory_is_not_kept_for_ever(void **state)
{
    (void)state;
    struct world *w = world_new(3, 2);
    int64_t id = world_run(w, 6, "checkpoint: {memory: {every: 1}}\n");
    world_pass(w, 300);
    struct agent *g = world_agent(w, "node2");
    g->alive = false;
    world_unlink(w, g);
    world_pass(w, 8000);
    assert_job(w, id, JOB_RESTARTING);
    assert_true(keeps_memory(w, "node0", id) && keeps_memory(w, "node1", id));
    world_pass(w, 700000);
    assert_job(w, id, JOB_RESTARTING);
    assert_false(keeps_memory(w, "node0", id) || keeps_memory(w, "node1", id));
    world_free(w);
}

static void test_a_node_that_drains_keeps_no_memory(void **state)
{
    (void)state;
    int64_t id;
    struct world *w = pausing_in_memory(&id, IN_MEMORY);
    enum core_refusal why;
    struct err err;
    assert_int_equal(core_drain(w->core, world_time(w), "node0", "broken fan", 0, false, &why, &err), 0);
    world_pump(w);
    assert_false(keeps_memory(w, "node0", id));
    assert_true(keeps_memory(w, "node1", id));
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_takes_them),
        cmocka_unit_test(test_not_for_ever),
        cmocka_unit_test(test_wishes_give_them_back),
        cmocka_unit_test(test_controller_restart_keeps),
        cmocka_unit_test(test_old_attempts_are_trimmed),
        cmocka_unit_test(test_controller_restart_keeps_no_more),
        cmocka_unit_test(test_nodes_may_report_first),
        cmocka_unit_test(test_slots_that_are_gone_are_not_kept),
        cmocka_unit_test(test_refusals_do_not_keep),
        cmocka_unit_test(test_nodes_that_changed),
        cmocka_unit_test(test_memory_stays_while_it_restarts),
        cmocka_unit_test(test_memory_stays_of_jobs_that_have_some),
        cmocka_unit_test(test_wishes_give_memory_back),
        cmocka_unit_test(test_a_requeue_gives_memory_back),
        cmocka_unit_test(test_an_end_gives_memory_back),
        cmocka_unit_test(test_memory_is_not_kept_for_ever),
        cmocka_unit_test(test_a_node_that_drains_keeps_no_memory),
    };
    return cmocka_run_group_tests_name("core keep", tests, NULL, NULL);
}
