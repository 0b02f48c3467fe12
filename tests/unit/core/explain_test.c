/* Why a job waits: the sentence, who blocks, and what would change it; and that asking changes nothing. */
#include "daemon/core/explain.h"
#include "tests/unit/core/world.h"

static struct verdict ask(struct world *w, int64_t id)
{
    struct verdict v;
    assert_int_equal(explain_job(w->core, world_time(w), id, &v), 0);
    assert_int_equal(core_changes(w->core)->n_jobs, 0);
    return v;
}

static bool offers(const struct verdict *v, const char *part)
{
    for (size_t i = 0; i < v->n_changes; i++)
        if (strstr(v->changes[i], part))
            return true;
    return false;
}

static void test_capacity(void **state)
{
    (void)state;
    struct world *w = world_new(4, 2);
    int64_t a = world_run(w, 2, "limits: {time: 2h}\n"), b = world_run(w, 4, "limits: {time: 1h}\n");
    world_run(w, 1, "");
    int64_t big = world_run(w, 4, "");
    world_pass(w, 500);
    struct verdict v = ask(w, big);
    assert_int_equal(v.kind, VERDICT_CAPACITY);
    assert_int_equal(v.need_ranks, 4);
    assert_int_equal(v.free_slots, 1);
    assert_int_equal(v.all_slots, 8);
    assert_int_equal(v.n_blockers, 1); /* b ends first, and its slots suffice */
    assert_int_equal(v.blockers[0].job, b);
    assert_int_equal(v.blockers[0].slots, 4);
    assert_int_equal(v.blockers[0].until_ms, world_job(w, b)->started_ms + 3600000);
    assert_int_equal(v.starts_ms, v.blockers[0].until_ms);
    assert_true(offers(&v, "with 1 rank it would start now"));
    verdict_clear(&v);
    v = ask(w, a);
    assert_int_equal(v.kind, VERDICT_RUNS);
    verdict_clear(&v);
    world_free(w);
}

static void test_never_and_now(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t huge = world_run(w, 5, "");
    struct verdict v = ask(w, huge);
    assert_int_equal(v.kind, VERDICT_NEVER);
    assert_says(v.sentence, "never fits");
    assert_int_equal(v.n_blockers, 0);
    verdict_clear(&v);
    struct job_spec *spec = world_spec("name: p\nrun: {command: [x], ranks: 3}\n");
    explain_spec(w->core, world_time(w), spec, &v);
    assert_int_equal(v.kind, VERDICT_NOW);
    assert_int_equal(json_array_size(v.placement), 3);
    assert_non_null(v.cost);
    verdict_clear(&v);
    job_spec_free(spec);
    world_free(w);
}

static void test_nodes_out_of_service(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    enum core_refusal why;
    struct err err = {""};
    assert_int_equal(core_drain(w->core, world_time(w), "node1", "disk", 0, false, &why, &err), 0);
    world_pump(w);
    int64_t id = world_run(w, 4, "");
    struct verdict v = ask(w, id);
    assert_int_equal(v.kind, VERDICT_CAPACITY);
    assert_int_equal(v.usable_slots, 2);
    assert_true(offers(&v, "with node1 back in service it would start now"));
    verdict_clear(&v);
    world_free(w);
}

static void test_held(void **state)
{
    (void)state;
    struct world *w = world_new(1, 1);
    int64_t id = world_run(w, 1, "");
    world_verb(w, id, CORE_HOLD);
    world_pass(w, 500);
    struct verdict v = ask(w, id);
    assert_int_equal(v.kind, VERDICT_OTHER);
    assert_says(v.sentence, "is held");
    assert_true(offers(&v, "belay release 1"));
    verdict_clear(&v);
    assert_int_equal(explain_job(w->core, world_time(w), 99, &v), -1);
    world_free(w);
}

/* What was sent is what is read. */
static void test_round_trip(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    world_run(w, 3, "limits: {time: 1h}\n");
    int64_t id = world_run(w, 4, "");
    world_pass(w, 500);
    struct verdict v = ask(w, id), back;
    struct err err;
    json_t *sent = verdict_encode(&v);
    assert_int_equal(verdict_decode(sent, &back, &err), 0);
    json_t *again = verdict_encode(&back);
    assert_true(json_equal(sent, again));
    json_object_del(sent, "sentence");
    verdict_clear(&back);
    assert_int_equal(verdict_decode(sent, &back, &err), -1);
    json_decref(sent);
    json_decref(again);
    verdict_clear(&v);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_capacity),
        cmocka_unit_test(test_never_and_now),
        cmocka_unit_test(test_nodes_out_of_service),
        cmocka_unit_test(test_held),
        cmocka_unit_test(test_round_trip),
    };
    return cmocka_run_group_tests_name("core explain", tests, NULL, NULL);
}
