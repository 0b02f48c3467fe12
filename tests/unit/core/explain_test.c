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
    explain_spec(w->core, world_time(w), spec, true, &v);
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

/* Enough slots, but none of the nodes has a group's. */
static void test_fragmented_on_nodes(void **state)
{
    (void)state;
    struct world *w = world_new(3, 2);
    world_run(w, 3, "");
    int64_t id = world_run(w, 4, "parallel: {tp: 2, dp: 2}\n");
    int64_t one = world_run(w, 1, "");
    world_pass(w, 500);
    struct verdict v = ask(w, id);
    assert_int_equal(v.kind, VERDICT_CAPACITY); /* 2 of 4 are free */
    verdict_clear(&v);
    world_verb(w, one, CORE_CANCEL);
    world_free(w);
    w = world_new(2, 2);
    int64_t ids[4];
    for (int i = 0; i < 4; i++)
        ids[i] = world_run(w, 1, "");
    world_pass(w, 500);
    bool emptied[2] = {false, false};
    for (int i = 0; i < 4; i++) { /* one slot of each node */
        bool second = strcmp(world_attempt(w, ids[i])->placement[0].node, "node1") == 0;
        if (!emptied[second])
            world_verb(w, ids[i], CORE_CANCEL);
        emptied[second] = true;
    }
    world_pass(w, 500);
    id = world_run(w, 2, "parallel: {tp: 2}\n");
    v = ask(w, id);
    assert_int_equal(v.kind, VERDICT_FRAGMENTED);
    assert_says(v.sentence, "enough slots are free, but not together");
    assert_true(offers(&v, "with placement.tp {within: rack} it would start now"));
    verdict_clear(&v);
    world_free(w);
}

/* A job that can never run hears what would fit the cluster, also when that is full. */
static void test_never_on_a_full_cluster(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    world_run(w, 4, "");
    int64_t huge = world_run(w, 9, "");
    world_pass(w, 500);
    struct verdict v = ask(w, huge);
    assert_int_equal(v.kind, VERDICT_NEVER);
    assert_true(offers(&v, "with 4 ranks it would fit this cluster"));
    verdict_clear(&v);
    world_free(w);
}

/* Who waits and goes before it may take what gets free: then no time is promised. */
static void test_others_go_first(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    world_run(w, 4, "limits: {time: 1h}\n");
    int64_t first = world_run(w, 4, ""), second = world_run(w, 2, "");
    world_pass(w, 500);
    struct verdict v = ask(w, first);
    assert_int_equal(v.ahead, 0);
    assert_true(v.starts_ms > 0);
    verdict_clear(&v);
    v = ask(w, second);
    assert_int_equal(v.ahead, 1);
    assert_int_equal(v.ahead_job, first);
    assert_int_equal(v.starts_ms, 0);
    verdict_clear(&v);
    int64_t urgent = world_run(w, 4, "priority: 5\n");
    world_pass(w, 500);
    v = ask(w, second);
    assert_int_equal(v.ahead, 2);
    assert_int_equal(v.ahead_job, urgent);
    verdict_clear(&v);
    world_free(w);
}

/* What would fit, but be held back for another, could not start now. */
static void test_would_be_held_back(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    struct verdict v;
    world_run(w, 3, "limits: {time: 1h}\n");
    world_run(w, 4, "");
    world_pass(w, 500);
    struct job_spec *endless = world_spec("name: p\nrun: {command: [x], ranks: 1}\n");
    struct job_spec *shorter = world_spec("name: p\nrun: {command: [x], ranks: 1}\nlimits: {time: 5m}\n");
    explain_spec(w->core, world_time(w), endless, false, &v);
    assert_int_equal(v.kind, VERDICT_OTHER);
    assert_says(v.sentence, "would fit, but delay job 2");
    verdict_clear(&v);
    explain_spec(w->core, world_time(w), shorter, false, &v);
    assert_int_equal(v.kind, VERDICT_NOW);
    verdict_clear(&v);
    job_spec_free(endless);
    job_spec_free(shorter);
    world_free(w);
}

/* A node that comes back goes to who waits before it. */
static void test_nodes_go_to_the_first(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    enum core_refusal why;
    struct err err = {""};
    world_run(w, 2, "");
    world_pass(w, 300);
    assert_int_equal(core_drain(w->core, world_time(w), "node1", "fan", 0, false, &why, &err), 0);
    int64_t first = world_run(w, 2, ""), second = world_run(w, 2, "");
    world_pass(w, 500);
    struct verdict v = ask(w, first);
    assert_int_equal(v.n_changes, 1);
    assert_says(v.changes[0], "with node1 back in service it would start now");
    verdict_clear(&v);
    v = ask(w, second);
    for (size_t i = 0; i < v.n_changes; i++)
        assert_null(strstr(v.changes[i], "back in service"));
    verdict_clear(&v);
    world_free(w);
}

/* Of the nodes out of service only those that it needs are named. */
static void test_fewest_nodes_are_named(void **state)
{
    (void)state;
    struct world *w = world_new(6, 2);
    enum core_refusal why;
    struct err err = {""};
    for (int i = 2; i < 6; i++)
        assert_int_equal(core_drain(w->core, world_time(w), w->agents[i].name, "disk", 0, false, &why, &err),
                         0);
    world_pump(w);
    int64_t id = world_run(w, 6, "");
    struct verdict v = ask(w, id);
    assert_true(offers(&v, "with node2 back in service it would start now"));
    verdict_clear(&v);
    world_free(w);
}

static void test_spares_are_told(void **state)
{
    (void)state;
    struct world *w = world_new(3, 2);
    struct verdict v;
    struct job_spec *spec = world_spec("name: p\nrun: {command: [x], ranks: 4}\nplacement: {spares: 2}\n");
    explain_spec(w->core, world_time(w), spec, true, &v);
    assert_string_equal(v.sentence, "could start now: 4 ranks on 2 nodes, and 1 of 2 spare nodes");
    assert_int_equal(json_array_size(v.spares), 1);
    assert_int_equal(json_array_size(v.placement), 6);
    verdict_clear(&v);
    job_spec_free(spec);
    world_free(w);
}

/* What was sent is what is read. */
/* An elastic job is told of as the size that it would start with, or waits for: its smallest. */
static void test_elastic(void **state)
{
    (void)state;
    static const char yaml[] =
        "name: e\ntrain:\n  model: {arch: gpt2, layers: 1, hidden: 16, heads: 2, context: 16}\n"
        "  data: {path: a}\n  steps: 9\n  batch: {global: 12, micro: 1}\n"
        "parallel: {dp: 2..4}\n";
    struct world *w = world_new(4, 1);
    struct job_spec *spec = world_spec(yaml);
    struct verdict v;
    int64_t one = world_run(w, 1, "");
    explain_spec(w->core, world_time(w), spec, true, &v);
    assert_int_equal(v.kind, VERDICT_NOW);
    assert_int_equal(v.need_ranks, 3);
    assert_says(v.sentence, "could start now: 3 ranks on 3 nodes");
    assert_int_equal(json_array_size(v.placement), 3);
    verdict_clear(&v);
    int64_t two = world_run(w, 2, ""), id = world_submit(w, yaml);
    v = ask(w, id);
    assert_int_equal(v.kind, VERDICT_CAPACITY);
    assert_int_equal(v.need_ranks, 2);
    assert_says(v.sentence, "waits for 2 free slots");
    assert_says(v.sentence, "(with dp 2, the least of 2..4)");
    assert_int_equal(v.n_blockers, 1);
    assert_int_equal(v.blockers[0].job, one); /* one slot more is enough */
    verdict_clear(&v);
    world_finish(w, two);
    v = ask(w, id);
    assert_int_equal(v.kind, VERDICT_RUNS);
    assert_says(v.sentence, "3 ranks run on 3 nodes, with dp 3 of up to 4");
    verdict_clear(&v);
    job_spec_free(spec);
    world_free(w);
}

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
        cmocka_unit_test(test_fragmented_on_nodes),
        cmocka_unit_test(test_never_on_a_full_cluster),
        cmocka_unit_test(test_others_go_first),
        cmocka_unit_test(test_nodes_go_to_the_first),
        cmocka_unit_test(test_fewest_nodes_are_named),
        cmocka_unit_test(test_spares_are_told),
        cmocka_unit_test(test_would_be_held_back),
        cmocka_unit_test(test_elastic),
        cmocka_unit_test(test_round_trip),
    };
    return cmocka_run_group_tests_name("core explain", tests, NULL, NULL);
}
