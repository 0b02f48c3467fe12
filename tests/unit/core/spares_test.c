/* Spares: nodes that a job holds for a repair, from its start or as soon as they can be had. */
#include "tests/unit/core/world.h"

static void lose(struct world *w, const char *name)
{
    struct agent *g = world_agent(w, name);
    g->alive = false;
    world_unlink(w, g);
    world_pass(w, 8000);
}

static bool spare_on(const struct world *w, int64_t id, const char *node)
{
    const struct attempt_record *a = world_attempt(w, id);
    for (size_t i = 0; i < a->n_spares; i++)
        if (strcmp(a->spares[i].node, node) == 0)
            return true;
    return false;
}

/* Only the ranks of the lost node move, onto the spare. */
static void test_a_spare_takes_over(void **state)
{
    (void)state;
    struct world *w = world_new(4, 2);
    int64_t id = world_run(w, 4, "placement: {spares: 1}\n");
    world_pass(w, 300);
    struct placed_rank was[4];
    memcpy(was, world_attempt(w, id)->placement, sizeof(was));
    const char *spare = world_attempt(w, id)->n_spares == 2 ? world_attempt(w, id)->spares[0].node : "";
    char name[LINK_NODE_NAME_MAX + 1];
    (void)snprintf(name, sizeof(name), "%s", spare);
    assert_true(name[0] != '\0');
    assert_int_equal(core_node_free_slots(w->core, name), 0);
    int64_t other = world_run(w, 4, "");
    world_pass(w, 300);
    assert_job(w, other, JOB_PENDING); /* the spare is not for it */
    lose(w, was[3].node);
    world_pass(w, 2000);
    assert_job(w, id, JOB_RUNNING);
    const struct attempt_record *a = world_attempt(w, id);
    for (int r = 0; r < 4; r++)
        if (strcmp(was[r].node, was[3].node) == 0)
            assert_string_equal(a->placement[r].node, name);
        else
            assert_memory_equal(&a->placement[r], &was[r], sizeof(was[r]));
    world_free(w);
}

/* A job that had to start without gets them when a node comes free, and again after it used one. */
static void test_added_when_free(void **state)
{
    (void)state;
    struct world *w = world_new(3, 2);
    int64_t other = world_run(w, 2, ""), id = world_run(w, 4, "placement: {spares: 1}\n");
    world_pass(w, 300);
    assert_job(w, id, JOB_RUNNING);
    assert_int_equal(world_attempt(w, id)->n_spares, 0);
    char node[LINK_NODE_NAME_MAX + 1];
    (void)snprintf(node, sizeof(node), "%s", world_attempt(w, other)->placement[0].node);
    world_verb(w, other, CORE_CANCEL);
    world_pass(w, 300);
    assert_true(spare_on(w, id, node));
    assert_says(w->log, "spares: attempt 1 has 1 of 1 spare nodes");
    assert_int_equal(world_stored_attempt(w, id, 1)->n_spares, 2);
    world_restart(w);
    assert_true(spare_on(w, id, node)); /* it is on record */
    assert_int_equal(core_node_free_slots(w->core, node), 0);
    world_free(w);
}

/* Not at the cost of a job that waits and whose time is known. */
static void test_added_without_delaying(void **state)
{
    (void)state;
    struct world *w = world_new(4, 2);
    int64_t a = world_run(w, 2, ""), b = world_run(w, 2, "limits: {time: 1h}\n");
    int64_t id = world_run(w, 4, "placement: {spares: 1}\n");
    int64_t head = world_run(w, 4, "");
    world_pass(w, 300);
    assert_job(w, head, JOB_PENDING); /* can start in an hour on the nodes of a and b */
    world_verb(w, a, CORE_CANCEL);
    world_pass(w, 300);
    assert_int_equal(world_attempt(w, id)->n_spares, 0);
    world_verb(w, b, CORE_CANCEL);
    world_pass(w, 300);
    assert_job(w, head, JOB_RUNNING);
    world_free(w);
}

static int64_t spare_nodes(const struct world *w, int64_t id)
{
    const struct attempt_record *a = world_attempt(w, id);
    int64_t n = 0;
    for (size_t i = 0; i < a->n_spares; i++)
        n += i == 0 || strcmp(a->spares[i - 1].node, a->spares[i].node) != 0;
    return n;
}

/* Nobody is given more because links broke for a moment. */
static void test_blips_do_not_add(void **state)
{
    (void)state;
    struct world *w = world_new(8, 2);
    int64_t id = world_run(w, 4, "placement: {spares: 2}\n");
    world_pass(w, 300);
    for (int blip = 0; blip < 3; blip++) {
        for (size_t i = 0; i < w->n_agents; i++)
            world_unlink(w, &w->agents[i]);
        for (size_t i = 0; i < w->n_agents; i++) {
            world_pass(w, 100);
            world_relink(w, &w->agents[i]);
        }
        world_pass(w, 3000);
        assert_int_equal(spare_nodes(w, id), 2);
    }
    world_restart(w);
    world_pass(w, 3000);
    assert_int_equal(spare_nodes(w, id), 2);
    world_free(w);
}

/* A spare that is lost or drained is replaced as often as it takes, and what it was is nobody's then. */
static void test_lost_spares_are_replaced(void **state)
{
    (void)state;
    struct world *w = world_new(7, 2);
    int64_t id = world_run(w, 4, "placement: {spares: 1}\n");
    world_pass(w, 300);
    for (int i = 0; i < 3; i++) {
        char node[LINK_NODE_NAME_MAX + 1];
        (void)snprintf(node, sizeof(node), "%s", world_attempt(w, id)->spares[0].node);
        enum core_refusal why;
        struct err err = {""};
        if (i == 1)
            assert_int_equal(core_drain(w->core, world_time(w), node, "disk", 0, false, &why, &err), 0);
        else
            lose(w, node);
        world_pass(w, 3000);
        assert_int_equal(spare_nodes(w, id), 1);
        assert_false(spare_on(w, id, node));
        assert_int_equal(core_node_free_slots(w->core, node), 2);
    }
    world_free(w);
}

/* Each on a node of its own; one that came back smaller is none. */
static void test_one_a_node(void **state)
{
    (void)state;
    struct world *w = world_new(3, 2);
    world_agent(w, "node2")->slots = 8;
    world_relink(w, world_agent(w, "node2"));
    int64_t id = world_run(w, 4, "placement: {spares: 2}\n");
    world_pass(w, 300);
    for (int i = 0; i < 3; i++) {
        int64_t other = world_run(w, 1, "");
        world_pass(w, 300);
        world_verb(w, other, CORE_CANCEL);
        world_pass(w, 300);
    }
    int64_t before = (int64_t)world_attempt(w, id)->n_spares;
    assert_true(spare_nodes(w, id) <= 2 && before <= 2 * spare_nodes(w, id) + 2);
    world_free(w);
    w = world_new(4, 2);
    id = world_run(w, 4, "placement: {spares: 1}\n");
    world_pass(w, 300);
    char node[LINK_NODE_NAME_MAX + 1];
    (void)snprintf(node, sizeof(node), "%s", world_attempt(w, id)->spares[0].node);
    world_unlink(w, world_agent(w, node));
    world_agent(w, node)->slots = 1;
    world_relink(w, world_agent(w, node));
    world_pass(w, 3000);
    assert_false(spare_on(w, id, node));
    assert_int_equal(spare_nodes(w, id), 1);
    world_free(w);
}

/* Nor while somebody waits whose time is not known. */
static void test_not_while_others_wait(void **state)
{
    (void)state;
    struct world *w = world_new(4, 2);
    int64_t b = world_run(w, 2, ""), c = world_run(w, 2, "");
    int64_t id = world_run(w, 4, "placement: {spares: 2}\n"), head = world_run(w, 4, "priority: 100\n");
    world_pass(w, 300);
    assert_job(w, id, JOB_RUNNING);
    world_verb(w, b, CORE_CANCEL);
    world_pass(w, 300);
    assert_int_equal(world_attempt(w, id)->n_spares, 0);
    world_verb(w, c, CORE_CANCEL);
    world_pass(w, 300);
    assert_job(w, head, JOB_RUNNING);
    world_free(w);
}

static void test_auto(void **state)
{
    (void)state;
    struct world *w = world_new(6, 2);
    int64_t id = world_run(w, 8, "placement: {spares: auto}\n");
    world_pass(w, 300);
    /* 4 nodes, 6.5e-3 a node-day, half a day: 0.013 expected, so one covers 99 % */
    assert_int_equal(world_attempt(w, id)->n_spares, 2);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_spare_takes_over),       cmocka_unit_test(test_added_when_free),
        cmocka_unit_test(test_added_without_delaying),   cmocka_unit_test(test_blips_do_not_add),
        cmocka_unit_test(test_lost_spares_are_replaced), cmocka_unit_test(test_one_a_node),
        cmocka_unit_test(test_not_while_others_wait),    cmocka_unit_test(test_auto),
    };
    return cmocka_run_group_tests_name("core spares", tests, NULL, NULL);
}
