/* Elastic jobs: they start with what there is, go on with fewer ranks when a node is lost for which nothing is free, and grow again, each
 * interruption being worth it. */
#include "tests/unit/core/world.h"

/* One rank a replica; any dp from low to high. */
static char *elastic_yaml(const char *name, int low, int high, const char *more)
{
    return str_printf(
        "name: %s\ntrain:\n  model: {arch: gpt2, layers: 1, hidden: 16, heads: 2, context: 16}\n"
        "  data: {path: a}\n  steps: 100000\n  batch: {global: 60, micro: 1}\n"
        "checkpoint: {directory: ck-%s}\nparallel: {dp: %d..%d, regrow: 60s}\n%s",
        name, name, low, high, more);
}

static int64_t submit_elastic(struct world *w, const char *name, int low, int high, const char *more)
{
    char *yaml = elastic_yaml(name, low, high, more);
    int64_t id = world_submit(w, yaml);
    free(yaml);
    return id;
}

static void assert_world(const struct world *w, int64_t id, size_t ranks)
{
    const struct attempt_record *a = world_attempt(w, id);
    assert_non_null(a);
    assert_int_equal(a->world, ranks);
    assert_int_equal(world_job(w, id)->spec->ranks, ranks);
    for (size_t i = 0; i < ranks; i++) {
        assert_int_equal(a->placement[i].rank, i);
        assert_int_equal(a->placement[i].dp, i);
    }
}

/* It runs, saves when asked, and has saved a checkpoint. */
static void begin_training(struct world *w, int64_t id, int64_t step)
{
    assert_job(w, id, JOB_RUNNING);
    world_say(w, id, 0, "CHECKPOINT_ON", "SIGUSR1");
    world_say_step(w, id, "STEP", step);
    world_say_step(w, id, "CHECKPOINT_DURABLE", step);
}

static void lose(struct world *w, const char *name)
{
    struct agent *g = world_agent(w, name);
    g->alive = false;
    for (size_t i = 0; i < WORLD_SHIMS; i++)
        if (g->shims[i].used) {
            link_report_clear(&g->shims[i].report);
            g->shims[i].used = false;
        }
    world_unlink(w, g);
    world_pass(w, 8000);
}

static void bring_back(struct world *w, const char *name)
{
    struct agent *g = world_agent(w, name);
    g->alive = true;
    (void)snprintf(g->boot, sizeof(g->boot), "boot-%lld", (long long)w->now_ms);
    world_relink(w, g);
}

static int64_t asked(struct world *w, int64_t id)
{
    return world_rank_shim(w, id, 0)->checkpoint;
}

static size_t count(const char *log, const char *kind)
{
    size_t n = 0;
    for (const char *at = strstr(log, kind); at; at = strstr(at + 1, kind))
        n++;
    return n;
}

static struct world *four_nodes(int64_t *id)
{
    struct world *w = world_new(4, 1);
    *id = submit_elastic(w, "a", 2, 4, "");
    world_pass(w, 500);
    assert_world(w, *id, 4);
    begin_training(w, *id, 10);
    return w;
}

/* ---- starting ---- */

static void starts_with_what_fits(void **state)
{
    (void)state;
    struct world *w = world_new(3, 1);
    int64_t id = submit_elastic(w, "a", 2, 4, "");
    world_pass(w, 500);
    assert_job(w, id, JOB_RUNNING);
    assert_world(w, id, 3);
    assert_says(w->log, "shrunk: starts with dp 3 of 2..4, the largest that fits now\n");
    assert_says(world_job(w, id)->reason, "3 ranks run on 3 nodes, with dp 3 of up to 4: it grows");
    world_free(w);
}

static void waits_for_its_smallest_size(void **state)
{
    (void)state;
    struct world *w = world_new(3, 1);
    int64_t other = world_run(w, 2, ""), id = submit_elastic(w, "a", 2, 3, "");
    world_pass(w, 500);
    assert_job(w, id, JOB_PENDING);
    assert_says(world_job(w, id)->reason, "(with dp 2, the least of 2..3)");
    world_finish(w, other);
    world_pass(w, 500);
    assert_world(w, id, 3);
    world_free(w);
}

/* What was found of a job with one size in the same round says nothing of one with several. */
static void others_of_its_largest_size_do_not_matter(void **state)
{
    (void)state;
    struct world *w = world_new(4, 1);
    int64_t first = world_run(w, 3, ""), fixed = submit_elastic(w, "a", 4, 4, "priority: 3\n"),
            id = submit_elastic(w, "b", 2, 4, "");
    struct agent *g = world_agent(w, "node3");
    g->alive = false;
    world_unlink(w, g);
    world_pass(w, 8000);
    world_finish(w, first);
    world_pass(w, 500);
    assert_job(w, fixed, JOB_PENDING);
    assert_job(w, id, JOB_RUNNING);
    assert_world(w, id, 3);
    world_free(w);
}

/* One that waits is given its room by those that go before it, but for its smallest size only. */
static void it_waits_for_no_more_than_its_smallest_size(void **state)
{
    (void)state;
    struct world *w = world_new(3, 1);
    int64_t first = world_run(w, 2, "limits: {time: 1h}\n"), id = submit_elastic(w, "a", 2, 3, "");
    world_pass(w, 500);
    assert_job(w, id, JOB_PENDING);
    int64_t small = world_run(w, 1, "");
    world_pass(w, 500);
    assert_job(w, small, JOB_RUNNING);
    world_finish(w, first);
    world_pass(w, 500);
    assert_world(w, id, 2);
    world_free(w);
}

/* Where all that is free would delay a job that goes before it, its smallest size may not. */
static void it_is_content_with_less_behind_another(void **state)
{
    (void)state;
    struct world *w = world_new(6, 1);
    int64_t first = world_run(w, 3, "limits: {time: 1h}\n"), head = world_run(w, 4, "");
    int64_t id = submit_elastic(w, "a", 2, 3, "");
    world_pass(w, 500);
    assert_job(w, head, JOB_PENDING);
    assert_job(w, id, JOB_RUNNING);
    assert_world(w, id, 2);
    world_finish(w, first);
    world_pass(w, 500);
    assert_job(w, head, JOB_RUNNING);
    world_free(w);
}

static void the_order_has_the_size(void **state)
{
    (void)state;
    struct world *w = world_new(3, 1);
    (void)submit_elastic(w, "a", 2, 4, "");
    world_pass(w, 500);
    struct link_order *orders = NULL;
    assert_int_equal(core_node_orders(w->core, "node0", &orders), 1);
    assert_int_equal(orders[0].world, 3);
    assert_int_equal(orders[0].argc, 5);
    assert_string_equal(orders[0].argv[3], "--set");
    assert_string_equal(orders[0].argv[4], "parallel.dp=3");
    link_order_clear(&orders[0]);
    free(orders);
    world_free(w);
}

/* ---- shrinking ---- */

static void a_lost_node_makes_it_smaller(void **state)
{
    (void)state;
    int64_t id;
    struct world *w = four_nodes(&id);
    lose(w, "node1");
    assert_job(w, id, JOB_RUNNING);
    assert_world(w, id, 3);
    const struct attempt_record *a = world_attempt(w, id);
    assert_string_equal(a->placement[0].node,
                        "node0"); /* it stays; the replica that was lost takes the last one's place */
    assert_string_equal(a->placement[1].node, "node3");
    assert_string_equal(a->placement[2].node, "node2");
    assert_int_equal(a->from_step, 10);
    assert_says(w->log, "shrunk: continues with dp 3 instead of 4: node1 is down, no spare is free\n");
    lose(w, "node0");
    assert_world(w, id, 2);
    lose(w, "node2");
    assert_job(w, id, JOB_RESTARTING);
    assert_says(world_job(w, id)->reason, "(with dp 2, the least of 2..4)");
    world_free(w);
}

static void free_nodes_come_first(void **state)
{
    (void)state;
    struct world *w = world_new(5, 1);
    int64_t id = submit_elastic(w, "a", 2, 4, "");
    world_pass(w, 500);
    begin_training(w, id, 10);
    lose(w, "node1");
    assert_job(w, id, JOB_RUNNING);
    assert_world(w, id, 4);
    assert_string_equal(world_attempt(w, id)->placement[1].node, "node4");
    assert_null(strstr(w->log, "shrunk"));
    world_free(w);
}

static void spares_come_first(void **state)
{
    (void)state;
    struct world *w = world_new(5, 1);
    int64_t id = submit_elastic(w, "a", 2, 4, "placement: {spares: 1}\n");
    world_pass(w, 500);
    assert_int_equal(world_attempt(w, id)->n_spares, 1);
    begin_training(w, id, 10);
    int64_t other = world_run(w, 1, "");
    lose(w, "node1");
    assert_world(w, id, 4);
    assert_job(w, other, JOB_PENDING);
    lose(w, "node2");
    assert_world(w, id, 3);
    world_free(w);
}

/* ---- growing ---- */

static void grows_when_the_node_is_back(void **state)
{
    (void)state;
    int64_t id;
    struct world *w = four_nodes(&id);
    lose(w, "node3");
    begin_training(w, id, 20);
    bring_back(w, "node3");
    world_pass(w, 50000); /* not before regrow */
    assert_int_equal(asked(w, id), 0);
    assert_int_equal(world_attempt(w, id)->number, 2);
    world_pass(w, 12000);
    assert_int_equal(asked(w, id), 1);
    world_pass(w, 1000);
    assert_int_equal(world_attempt(w, id)->number, 2);
    world_say_step(w, id, "CHECKPOINT_DURABLE", 30);
    world_pass(w, 1000);
    assert_job(w, id, JOB_RUNNING);
    assert_world(w, id, 4);
    assert_int_equal(world_attempt(w, id)->number, 3);
    assert_int_equal(world_attempt(w, id)->from_step, 30);
    assert_string_equal(world_attempt(w, id)->placement[1].node, "node1");
    assert_string_equal(world_attempt(w, id)->placement[3].node, "node3");
    assert_int_equal(core_attempt(w->core, id, 2)->outcome, OUTCOME_RESIZED);
    assert_says(w->log, "checkpoint_asked: there is room for dp 4: job 1 is asked for a checkpoint");
    assert_says(w->log, "starts again from step 30 (not charged): grows from dp 3 to 4: node3 is back\n");
    assert_says(w->log, "grown: continues with dp 4 instead of 3\n");
    assert_int_equal(world_job(w, id)->restarts, 1); /* the lost node's alone */
    world_say_step(w, id, "STEP", 31);
    assert_true(world_attempt(w, id)->lost.load > 0); /* it is an interruption, and booked as one */
    world_free(w);
}

/* It runs ten times as long as a checkpoint takes it. */
static void a_costly_checkpoint_makes_it_wait(void **state)
{
    (void)state;
    int64_t id;
    struct world *w = four_nodes(&id);
    lose(w, "node3");
    struct link_progress p = {
        id, 2, 0, json_pack("{s:s,s:s}", "CHECKPOINT_DURABLE", "20", "CHECKPOINT_DURABLE_MS", "20000")};
    core_node_progress(w->core, world_time(w), world_attempt(w, id)->placement[0].node, &p);
    json_decref(p.values);
    begin_training(w, id, 21);
    bring_back(w, "node3");
    world_pass(w, 190000);
    assert_int_equal(asked(w, id), 0);
    world_pass(w, 12000);
    assert_int_equal(asked(w, id), 1);
    world_free(w);
}

/* How rarely it saves by itself does not matter: it is asked. */
static void its_own_checkpoints_may_be_rare(void **state)
{
    (void)state;
    int64_t id;
    struct world *w = four_nodes(&id);
    lose(w, "node3");
    bring_back(w, "node3");
    world_pass(w, 200000);
    assert_int_equal(asked(w, id), 0); /* it has not said that it can be */
    world_say(w, id, 0, "CHECKPOINT_ON", "SIGUSR1");
    assert_int_equal(asked(w, id), 1);
    world_say_step(w, id, "CHECKPOINT_DURABLE", 40);
    world_pass(w, 1000);
    assert_world(w, id, 4);
    world_free(w);
}

/* A node that comes and goes costs no more than its own losses. */
static void a_flapping_node_is_not_waited_for(void **state)
{
    (void)state;
    int64_t id;
    struct world *w = four_nodes(&id);
    lose(w, "node3");
    begin_training(w, id, 20);
    world_pass(w, 60000);
    for (int i = 0; i < 10; i++) {
        bring_back(w, "node3");
        world_pass(w, 20000);
        lose(w, "node3");
    }
    assert_int_equal(world_attempt(w, id)->number, 2);
    assert_int_equal(asked(w, id), 0);
    world_free(w);
}

static void at_its_largest_nothing_happens(void **state)
{
    (void)state;
    struct world *w = world_new(6, 1);
    int64_t id = submit_elastic(w, "a", 2, 4, "");
    world_pass(w, 500);
    begin_training(w, id, 10);
    world_pass(w, 300000);
    assert_int_equal(world_attempt(w, id)->number, 1);
    assert_int_equal(asked(w, id), 0);
    world_free(w);
}

static void gives_up_without_an_answer(void **state)
{
    (void)state;
    int64_t id;
    struct world *w = four_nodes(&id);
    lose(w, "node3");
    begin_training(w, id, 20);
    bring_back(w, "node3");
    world_pass(w, 62000);
    assert_int_equal(asked(w, id), 1);
    world_pass(w, 31000);
    assert_says(w->log, "not_grown: stays at dp 3 for now: none was durable within");
    assert_int_equal(world_attempt(w, id)->number, 2);
    world_pass(w, 50000);
    assert_int_equal(asked(w, id), 1);
    world_pass(w, 10000);
    assert_int_equal(asked(w, id), 2);
    world_free(w);
}

/* ---- others ---- */

static void those_who_wait_go_first(void **state)
{
    (void)state;
    int64_t id;
    struct world *w = four_nodes(&id);
    lose(w, "node3");
    begin_training(w, id, 20);
    int64_t other = world_run(w, 2, "");
    bring_back(w, "node3");
    world_pass(w, 200000);
    assert_job(w, other, JOB_PENDING); /* nor does it fit */
    assert_int_equal(asked(w, id), 0);
    world_verb(w, other, CORE_CANCEL);
    world_pass(w, 31000);
    assert_int_equal(asked(w, id), 1);
    world_free(w);
}

static void room_that_is_taken_interrupts_nobody(void **state)
{
    (void)state;
    int64_t id;
    struct world *w = four_nodes(&id);
    lose(w, "node3");
    begin_training(w, id, 20);
    bring_back(w, "node3");
    world_pass(w, 62000);
    assert_int_equal(asked(w, id), 1);
    int64_t other = world_run(w, 1, "");
    world_pass(w, 500);
    assert_job(w, other, JOB_RUNNING);
    world_say_step(w, id, "CHECKPOINT_DURABLE", 30);
    world_pass(w, 60000);
    assert_int_equal(world_attempt(w, id)->number, 2);
    assert_says(w->log, "not_grown: stays at dp 3 for now: the room was taken meanwhile\n");
    world_free(w);
}

/* What it is stopped for is its own from then on. */
static void nobody_comes_in_between(void **state)
{
    (void)state;
    int64_t id;
    struct world *w = four_nodes(&id);
    lose(w, "node3");
    begin_training(w, id, 20);
    bring_back(w, "node3");
    world_pass(w, 62000);
    for (size_t i = 0; i < 3; i++)
        world_rank_shim(w, id, (int64_t)i)->stubborn = true;
    world_say_step(w, id, "CHECKPOINT_DURABLE", 30);
    assert_int_equal(world_attempt(w, id)->state, ATTEMPT_STOPPING);
    assert_int_equal(core_node_free_slots(w->core, "node3"), 0);
    int64_t other = world_run(w, 1, "priority: 9\n");
    world_restart(w);
    world_pass(w, 500);
    assert_int_equal(core_node_free_slots(w->core, "node3"), 0);
    assert_job(w, other, JOB_PENDING);
    for (size_t i = 0; i < 3; i++)
        shim_end_ranks(w, world_rank_shim(w, id, (int64_t)i), 0, 15);
    world_pass(w, 12000);
    assert_world(w, id, 4);
    assert_job(w, id, JOB_RUNNING);
    assert_job(w, other, JOB_PENDING);
    world_free(w);
}

static void two_compete_for_one_node(void **state)
{
    (void)state;
    struct world *w = world_new(6, 1);
    int64_t a = submit_elastic(w, "a", 2, 3, ""), b = submit_elastic(w, "b", 2, 3, "");
    world_pass(w, 500);
    assert_world(w, a, 3);
    assert_world(w, b, 3);
    begin_training(w, a, 10);
    begin_training(w, b, 10);
    lose(w, world_attempt(w, a)->placement[0].node);
    lose(w, world_attempt(w, b)->placement[0].node);
    assert_world(w, a, 2);
    assert_world(w, b, 2);
    begin_training(w, a, 20);
    begin_training(w, b, 20);
    bring_back(w, "node0");
    world_pass(w, 62000);
    world_say_step(w, b, "CHECKPOINT_DURABLE", 30); /* both were asked */
    world_pass(w, 500);
    world_say_step(w, a, "CHECKPOINT_DURABLE", 30);
    world_pass(w, 300000);
    assert_world(w, a, 2);
    assert_world(w, b, 3);
    assert_int_equal(world_attempt(w, a)->number, 2);
    assert_int_equal(world_attempt(w, b)->number, 3);
    world_free(w);
}

/* A job that waits for slots is not overtaken by one that starts again for another reason. */
static void a_restart_takes_no_more_while_others_wait(void **state)
{
    (void)state;
    int64_t id;
    struct world *w = four_nodes(&id);
    lose(w, "node3");
    begin_training(w, id, 20);
    int64_t other = world_run(w, 2, "");
    bring_back(w, "node3");
    world_pass(w, 1000);
    world_exit(w, id, 1, 1, 0, false);
    world_pass(w, 15000);
    assert_job(w, id, JOB_RUNNING);
    assert_world(w, id, 3);
    world_verb(w, other, CORE_CANCEL);
    begin_training(w, id, 30);
    world_exit(w, id, 1, 1, 0, false);
    world_pass(w, 15000);
    assert_world(w, id, 4);
    world_free(w);
}

/* ---- drains and restarts of the controller ---- */

static void a_drain_makes_it_smaller(void **state)
{
    (void)state;
    int64_t id;
    struct world *w = four_nodes(&id);
    enum core_refusal why;
    struct err err;
    assert_int_equal(core_drain(w->core, world_time(w), "node2", "fan", 0, false, &why, &err), 0);
    world_pass(w, 500);
    assert_int_equal(asked(w, id), 1);
    world_say_step(w, id, "CHECKPOINT_DURABLE", 11);
    world_pass(w, 1000);
    assert_world(w, id, 3);
    assert_node(w, "node2", NODE_DRAINED);
    assert_says(w->log, "shrunk: continues with dp 3 instead of 4: node2 drains, no spare is free\n");
    begin_training(w, id, 20);
    assert_int_equal(core_undrain(w->core, world_time(w), "node2", &why, &err), 0);
    world_pass(w, 62000);
    world_say_step(w, id, "CHECKPOINT_DURABLE", 30);
    world_pass(w, 1000);
    assert_world(w, id, 4);
    world_free(w);
}

/* The controller is killed after one of the commits while the job becomes smaller, and while it becomes larger. */
static void story_with_kills(int64_t shrinking, int64_t growing)
{
    int64_t id;
    struct world *w = four_nodes(&id);
    struct agent *g = world_agent(w, "node3");
    g->alive = false;
    world_unlink(w, g);
    world_pass(w, 4600);
    w->restart_at = w->commits + shrinking;
    world_pass(w, 25000);
    assert_job(w, id, JOB_RUNNING);
    assert_world(w, id, 3);
    begin_training(w, id, 20);
    bring_back(w, "node3");
    world_pass(w, 62000);
    assert_true(asked(w, id) >= 1);
    w->restart_at = w->commits + growing;
    for (int64_t step = 30; step < 40; step++) {
        world_say_step(w, id, "CHECKPOINT_DURABLE", step);
        world_pass(w, 10000);
    }
    assert_job(w, id, JOB_RUNNING);
    assert_world(w, id, 4);
    assert_int_equal(world_attempt(w, id)->number, 3);
    assert_int_equal(count(w->log, "shrunk: "), 1);
    assert_int_equal(count(w->log, "grown: "), 1);
    world_free(w);
}

static void the_controller_may_die(void **state)
{
    (void)state;
    for (int64_t k = 0; k < 16; k++)
        story_with_kills(k, k);
}

/* A request for a checkpoint is forgotten with the controller that made it: its successor asks again. */
static void a_new_controller_asks_again(void **state)
{
    (void)state;
    int64_t id;
    struct world *w = four_nodes(&id);
    lose(w, "node3");
    begin_training(w, id, 20);
    bring_back(w, "node3");
    world_pass(w, 62000);
    assert_int_equal(asked(w, id), 1);
    world_restart(w);
    world_pass(w, 500);
    assert_world(w, id, 3);
    world_pass(w, 62000);
    assert_int_equal(asked(w, id), 2);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_with_what_fits),
        cmocka_unit_test(waits_for_its_smallest_size),
        cmocka_unit_test(others_of_its_largest_size_do_not_matter),
        cmocka_unit_test(it_waits_for_no_more_than_its_smallest_size),
        cmocka_unit_test(it_is_content_with_less_behind_another),
        cmocka_unit_test(the_order_has_the_size),
        cmocka_unit_test(a_lost_node_makes_it_smaller),
        cmocka_unit_test(free_nodes_come_first),
        cmocka_unit_test(spares_come_first),
        cmocka_unit_test(grows_when_the_node_is_back),
        cmocka_unit_test(a_costly_checkpoint_makes_it_wait),
        cmocka_unit_test(its_own_checkpoints_may_be_rare),
        cmocka_unit_test(a_flapping_node_is_not_waited_for),
        cmocka_unit_test(at_its_largest_nothing_happens),
        cmocka_unit_test(gives_up_without_an_answer),
        cmocka_unit_test(those_who_wait_go_first),
        cmocka_unit_test(room_that_is_taken_interrupts_nobody),
        cmocka_unit_test(nobody_comes_in_between),
        cmocka_unit_test(two_compete_for_one_node),
        cmocka_unit_test(a_restart_takes_no_more_while_others_wait),
        cmocka_unit_test(a_drain_makes_it_smaller),
        cmocka_unit_test(the_controller_may_die),
        cmocka_unit_test(a_new_controller_asks_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
