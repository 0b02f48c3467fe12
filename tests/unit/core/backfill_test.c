/* Smaller jobs go before a larger one that waits, as far as they do not delay it. */
#include "daemon/core/explain.h"
#include "tests/unit/core/world.h"

#define HOUR "limits: {time: 1h}\n"

static struct world *with_head(const char *limit, int head_ranks, int64_t *head)
{
    struct world *w = world_new(3, 2);
    world_run(w, 4, limit);
    *head = world_run(w, head_ranks, "");
    world_pass(w, 300);
    assert_job(w, *head, JOB_PENDING);
    return w;
}

static void test_shorter_jobs_go_first(void **state)
{
    (void)state;
    int64_t head;
    struct world *w = with_head(HOUR, 6, &head);
    int64_t without = world_run(w, 1, ""), longer = world_run(w, 1, "limits: {time: 2h}\n");
    int64_t shorter = world_run(w, 1, "limits: {time: 30m}\n");
    world_pass(w, 300);
    assert_job(w, without, JOB_PENDING);
    assert_says(world_job(w, without)->reason, "would fit, but delay job 2 (prog)");
    assert_job(w, longer, JOB_PENDING);
    assert_job(w, shorter, JOB_RUNNING);
    struct verdict v;
    assert_int_equal(explain_job(w->core, world_time(w), without, &v), 0);
    assert_int_equal(v.kind, VERDICT_OTHER);
    assert_says(v.sentence, "would fit, but delay job 2");
    verdict_clear(&v);
    world_verb(w, head, CORE_CANCEL);
    world_pass(w, 300);
    assert_job(w, without, JOB_RUNNING);
    world_free(w);
}

static void test_room_beside_the_head(void **state)
{
    (void)state;
    int64_t head;
    struct world *w = with_head(HOUR, 4, &head); /* in an hour six slots are free */
    int64_t a = world_run(w, 2, "");
    world_pass(w, 300);
    assert_job(w, a, JOB_RUNNING);
    world_free(w);
}

static void test_nobody_waits_for_the_unknown(void **state)
{
    (void)state;
    int64_t head;
    struct world *w = with_head("", 6, &head);
    int64_t a = world_run(w, 2, "");
    world_pass(w, 300);
    assert_job(w, a, JOB_RUNNING);
    world_free(w);
}

/* A job that can never run stands in nobody's way. */
static void test_never_is_no_head(void **state)
{
    (void)state;
    int64_t head;
    struct world *w = with_head(HOUR, 7, &head);
    int64_t a = world_run(w, 2, "");
    world_pass(w, 300);
    assert_job(w, a, JOB_RUNNING);
    world_free(w);
}

/* A job that is still being started has its time limit, too. */
static void test_limits_count_while_starting(void **state)
{
    (void)state;
    int64_t head;
    struct world *w = with_head(HOUR, 6, &head);
    for (size_t i = 0; i < w->n_agents; i++)
        w->agents[i].slow = true;
    int64_t shorter = world_run(w, 1, "limits: {time: 5m}\n"), endless = world_run(w, 1, "");
    world_pass(w, 300);
    assert_job(w, shorter, JOB_STARTING);
    assert_job(w, endless, JOB_PENDING);
    assert_says(world_job(w, endless)->reason, "would fit, but delay job 2");
    world_free(w);
}

static void test_spares_delay_as_well(void **state)
{
    (void)state;
    struct world *w = world_new(4, 2);
    world_run(w, 4, HOUR);
    world_run(w, 6, "");
    int64_t spared = world_run(w, 2, "placement: {spares: 1}\n"), plain = world_run(w, 2, "");
    world_pass(w, 300);
    assert_job(w, spared, JOB_PENDING); /* 2 ranks and 2 spare slots: the head would lack two */
    assert_job(w, plain, JOB_RUNNING);
    world_free(w);
}

/* A head that lost a node and keeps the rest of its slots is waited for like any other. */
static void test_a_head_may_keep_slots(void **state)
{
    (void)state;
    struct world *w = world_new(3, 2);
    int64_t k = world_run(w, 4, "priority: 5\n");
    world_run(w, 1, "limits: {time: 5m}\n");
    world_pass(w, 300);
    struct agent *g = world_agent(w, world_attempt(w, k)->placement[3].node);
    g->alive = false;
    world_unlink(w, g);
    world_pass(w, 8000);
    assert_job(w, k, JOB_RESTARTING);
    int64_t endless = world_run(w, 1, "");
    world_pass(w, 300);
    assert_job(w, endless, JOB_PENDING);
    world_free(w);
}

/* Also when another job that keeps slots starts in the same round. */
static void test_a_head_is_not_overlooked(void **state)
{
    (void)state;
    struct world *w = world_new(4, 2);
    int64_t k1 = world_run(w, 4, "priority: 9\n");
    int64_t k2 = world_run(w, 2, "restart: {backoff: 20s}\n");
    world_run(w, 1, "limits: {time: 1h}\n");
    world_pass(w, 300);
    struct agent *g = world_agent(w, world_attempt(w, k1)->placement[3].node);
    world_exit(w, k2, 0, 1, 0, false);
    world_pump(w);
    g->alive = false;
    world_unlink(w, g);
    world_pass(w, 8000);
    assert_job(w, k1, JOB_RESTARTING);
    assert_job(w, k2, JOB_RESTARTING);
    int64_t endless = world_run(w, 1, "");
    world_pass(w, 300);
    assert_job(w, endless, JOB_PENDING);
    world_pass(w, 30000);
    assert_job(w, k2, JOB_RUNNING);
    assert_job(w, endless, JOB_PENDING);
    world_free(w);
}

/* Held back for a start that nobody knows any more: let go, and not overtaken by a later one. */
static void test_held_back_are_looked_at_again(void **state)
{
    (void)state;
    struct world *w = world_new(4, 2);
    enum core_refusal why;
    struct err err = {""};
    world_run(w, 4, HOUR);
    world_run(w, 8, "");
    int64_t c = world_run(w, 2, "");
    world_pass(w, 300);
    assert_job(w, c, JOB_PENDING);
    assert_int_equal(core_drain(w->core, world_time(w), "node3", "gone", 0, false, &why, &err), 0);
    world_pass(w, 500);
    assert_job(w, c, JOB_RUNNING);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shorter_jobs_go_first),         cmocka_unit_test(test_room_beside_the_head),
        cmocka_unit_test(test_nobody_waits_for_the_unknown),  cmocka_unit_test(test_never_is_no_head),
        cmocka_unit_test(test_limits_count_while_starting),   cmocka_unit_test(test_spares_delay_as_well),
        cmocka_unit_test(test_a_head_may_keep_slots),         cmocka_unit_test(test_a_head_is_not_overlooked),
        cmocka_unit_test(test_held_back_are_looked_at_again),
    };
    return cmocka_run_group_tests_name("core backfill", tests, NULL, NULL);
}
