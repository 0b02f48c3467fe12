/* view: every key of each object, with the right value, and null where there is none. Keys are a contract. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>

#include "common/mem.h"
#include "daemon/view.h"
#include "tests/unit/daemon/records_fixture.h"

#define NOW 1700000060000

/* A core that was loaded with one node, one job and its attempt 2. */
static struct core *make_core(void)
{
    struct core_config config;
    core_config_defaults(&config);
    struct core *core = core_new(&config, (struct core_time){NOW, 1000});
    struct node_record nodes[] = {fixture_node("node0"), fixture_node("node1")};
    struct job_record job = fixture_job(7);
    struct attempt_record attempt = fixture_attempt(7, 2);
    core_load_node(core, &nodes[0]);
    core_load_node(core, &nodes[1]);
    core_load_job(core, &job);
    core_load_attempt(core, &attempt);
    core_load_next_ids(core, 8, 10);
    return core;
}

/* The object printed with sorted keys must be exactly this. */
static void is_json(json_t *obj, const char *want)
{
    char *got = json_dumps(obj, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(15));
    json_t *parsed = json_loads(want, 0, NULL);
    assert_non_null(parsed);
    char *sorted = json_dumps(parsed, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(15));
    assert_string_equal(got, sorted);
    json_decref(parsed);
    free(sorted);
    free(got);
    json_decref(obj);
}

static const char placement[] =
    "[{\"rank\":0,\"node\":\"node0\",\"slot\":1,\"tp\":2,\"pp\":3,\"cp\":4,\"dp\":0},"
    "{\"rank\":1,\"node\":\"node1\",\"slot\":2,\"tp\":3,\"pp\":4,\"cp\":5,\"dp\":1}]";

static const char asked[] = "{\"attempt\":2,\"number\":3,\"asked\":\"2023-11-14T22:13:20.014Z\","
                            "\"why\":\"requeued by ann\",\"waiting\":true,\"step\":118,"
                            "\"answer\":\"none yet\"}";

static void test_job(void **state)
{
    struct core *core = make_core();
    json_t *obj = view_job(core, core_job(core, 7), NOW);
    (void)state;
    json_object_del(obj, "ettr"); /* the core's own matter */
    char *want = str_printf(
        "{\"id\":7,\"name\":\"shakespeare\",\"user\":\"ann\",\"state\":\"restarting\",\"reason\":\"rank 1 "
        "was killed by "
        "signal "
        "9\",\"attempt\":2,\"restarts\":1,\"step\":120,\"steps\":200,\"loss\":2.3125,\"tokens_per_second\":"
        "1234.5,"
        "\"mfu\":0.41,\"checkpoint\":{\"step\":100,\"age_s\":59.995,\"bytes\":1048576},"
        "\"checkpoint_memory\":null,\"checkpoint_upload\":{\"step\":90,\"age_s\":59.993},"
        "\"checkpoint_failing\":[],\"checkpoint_request\":%s,\"checkpoint_interval\":\"every 40 steps\","
        "\"checkpoint_staged\":null,"
        "\"submitted\":\"2023-11-14T22:13:20.002Z\",\"started\":\"2023-11-14T22:13:20.003Z\","
        "\"ended\":\"2023-11-14T22:13:20.004Z\",\"placement\":%s,\"spares\":[],\"up_s\":59.989,\"ranks\":2,"
        "\"nodes\":2,"
        "\"phase\":\"training\",\"status\":\"all well\",\"rev\":41,\"first_failure\":1,\"exit_code\":137,"
        "\"lost\":{\"detect_ms\":101,\"stop_ms\":102,\"place_ms\":103,\"load_ms\":104,\"replay_ms\":105},"
        "\"restart_max\":9,\"cwd\":\"/home/ann\",\"queue\":\"night\",\"priority\":7,\"kind\":\"run\","
        "\"checkpoint_directory\":null}",
        asked, placement);
    is_json(obj, want);
    free(want);
    core_free(core);
}

/* Shims let go of their copies when a job is not to start again by itself. */
static void test_copies_in_memory(void **state)
{
    (void)state;
    static const enum job_state states[] = {JOB_RUNNING, JOB_RESTARTING, JOB_HELD, JOB_CANCELLED};
    struct core *core = make_core();
    struct job_record job = *core_job(core, 7);
    job.progress.memory_step = 95;
    job.progress.memory_ms = NOW;
    for (size_t i = 0; i < 4; i++) {
        job.state = states[i];
        json_t *obj = view_job(core, &job, NOW);
        assert_int_equal(json_is_object(json_object_get(obj, "checkpoint_memory")), i < 2);
        json_decref(obj);
    }
    core_free(core);
}

/* A job that has just been submitted: null, not 0, "" or -1. */
static void test_absent_values_are_null(void **state)
{
    static const char *const nulls[] = {
        "step", "steps", "loss",   "tokens_per_second", "mfu",      "checkpoint", "ettr", "started", "ended",
        "up_s", "phase", "status", "first_failure",     "exit_code"};
    struct core_config config;
    core_config_defaults(&config);
    struct core_time t = {NOW, 1000};
    struct core *core = core_new(&config, t);
    struct core_submit request = {.user = "ann", .cwd = "/tmp", .uid = 5, .gid = 5, .spec = fixture_spec()};
    enum core_refusal why;
    int64_t id;
    (void)state;
    core_load_next_ids(core, 1, 1);
    assert_int_equal(core_submit(core, t, &request, &id, &why, NULL), 0);
    json_t *obj = view_job(core, core_job(core, id), NOW);
    for (size_t i = 0; i < sizeof(nulls) / sizeof(nulls[0]); i++) {
        if (!json_is_null(json_object_get(obj, nulls[i])))
            fail_msg("%s is not null", nulls[i]);
    }
    assert_int_equal(json_array_size(json_object_get(obj, "placement")), 0);
    assert_int_equal(json_integer_value(json_object_get(obj, "nodes")), 0);
    json_decref(obj);
    core_free(core);
}

static void test_attempt(void **state)
{
    struct attempt_record a = fixture_attempt(7, 2);
    (void)state;
    char *want = str_printf(
        "{\"attempt\":2,\"state\":\"stopping\",\"outcome\":\"failed\",\"reason\":\"rank 1 failed\","
        "\"started\":\"2023-11-14T22:13:20.010Z\",\"running\":\"2023-11-14T22:13:20.011Z\","
        "\"ended\":\"2023-11-14T22:13:20.013Z\",\"from_step\":50,\"to_step\":120,"
        "\"lost\":{\"detect_ms\":201,\"stop_ms\":202,\"place_ms\":203,\"load_ms\":204,\"replay_ms\":205},"
        "\"checkpoint_request\":%s,\"placement\":%s,\"spares\":[],"
        "\"ranks\":[{\"rank\":0,\"slot\":1,\"pid\":4242,\"start\":987654321,\"state\":\"exited\",\"code\":0,"
        "\"signal\":9,"
        "\"connected\":true,\"finalized\":true,\"started_ms\":1700000000007,\"ended_ms\":1700000000008,"
        "\"why\":\"killed by signal 9 (SIGKILL)\",\"node\":\"node0\"}]}",
        asked, placement);
    is_json(view_attempt(&a), want);
    free(want);
    fixture_free_attempt(&a);
}

static void test_event(void **state)
{
    char text[] = "x";
    struct event_record e = fixture_event(1),
                        bare = {.id = 2, .time_ms = 1700000000000, .rank = -1, .text = text};
    (void)state;
    is_json(view_event(&e),
            "{\"id\":1,\"time\":\"2023-11-14T22:13:20.031Z\",\"kind\":\"rank_exited\",\"job\":7,"
            "\"attempt\":2,\"rank\":1,\"node\":\"node1\",\"text\":\"event 1 happened\"}");
    is_json(view_event(&bare), "{\"id\":2,\"time\":\"2023-11-14T22:13:20.000Z\",\"kind\":\"\",\"job\":null,"
                               "\"attempt\":null,\"rank\":null,\"node\":null,\"text\":\"x\"}");
    free(e.text);
}

static void test_checkpoint(void **state)
{
    static const struct {
        const char *directory, *said, *path;
    } rows[] = {{"ckpt", NULL, "\"/home/ann/ckpt/step-00000100\""},
                {"/data/c", NULL, "\"/data/c/step-00000100\""},
                {"/data/c", "/other/a.pt", "\"/other/a.pt\""},
                {NULL, NULL, "null"}};
    struct checkpoint_record c = {.job = 7,
                                  .step = 100,
                                  .attempt = 2,
                                  .time_ms = 1700000000000,
                                  .bytes = 66,
                                  .staged_ms = 12,
                                  .durable_ms = -1,
                                  .held_loss = NAN};
    struct job_record job = fixture_job(7);
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        job.spec->checkpoint.directory = str_dup(rows[i].directory);
        char *want =
            str_printf("{\"step\":100,\"time\":\"2023-11-14T22:13:20.000Z\",\"bytes\":66,\"attempt\":2,"
                       "\"staged_ms\":12,\"durable_ms\":null,\"held_loss\":%s,\"path\":%s}",
                       i == 1 ? "3.5" : "null", rows[i].path);
        c.held_loss = i == 1 ? 3.5 : (double)NAN;
        c.path = str_dup(rows[i].said);
        is_json(view_checkpoint(&job, &c), want);
        free(c.path);
        free(want);
        free(job.spec->checkpoint.directory);
        job.spec->checkpoint.directory = NULL;
    }
    fixture_free_job(&job);
}

static void test_node(void **state)
{
    struct core *core = make_core();
    struct view_residents *residents = view_residents_collect(core);
    json_t *obj = view_node(core, core_node(core, "node1"), residents, NOW);
    (void)state;
    json_object_del(obj, "state"); /* the core changes these when it loads */
    json_object_del(obj, "reason");
    json_object_del(obj, "since");
    json_object_del(obj, "free");
    is_json(obj, "{\"name\":\"node1\",\"slots\":8,\"rack\":\"rack1\",\"pod\":\"pod1\",\"nvlink\":\"\","
                 "\"jobs\":[7],\"device\":\"gpu\","
                 "\"address\":\"127.0.0.1\",\"cores\":16,\"memory\":68719476736,\"version\":\"0.1.0\","
                 "\"heartbeat_age_ms\":null,\"gpus\":[{\"index\":3,\"name\":\"H200\",\"uuid\":\"GPU-1234\","
                 "\"memory\":137438953472}]}");
    view_residents_free(residents);
    core_free(core);
}

static void test_topology(void **state)
{
    struct cluster_spec *spec = cluster_spec_new("lab");
    (void)state;
    spec->nodes = mem_zero(2, sizeof *spec->nodes);
    spec->n_nodes = 2;
    spec->nodes[0].slots = 8;
    spec->nodes[1].slots = 4;
    spec->links[DOMAIN_CLUSTER].bytes_per_s = 7e9;
    json_t *obj = view_topology(spec), *none = view_topology(NULL);
    json_t *cluster = json_object_get(json_object_get(obj, "links"), "cluster");
    assert_int_equal(json_integer_value(json_object_get(obj, "nodes")), 2);
    assert_int_equal(json_integer_value(json_object_get(obj, "slots")), 12);
    assert_string_equal(json_string_value(json_object_get(obj, "name")), "lab");
    assert_true(json_real_value(json_object_get(cluster, "bytes_per_s")) == 7e9);
    assert_true(json_real_value(json_object_get(cluster, "latency_s")) == 5e-6);
    assert_int_equal(json_object_size(json_object_get(obj, "links")), 7);
    assert_true(json_is_null(json_object_get(none, "name")));
    assert_int_equal(json_object_size(json_object_get(none, "links")), 7);
    json_decref(obj);
    json_decref(none);
    cluster_spec_free(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job),
        cmocka_unit_test(test_copies_in_memory),
        cmocka_unit_test(test_absent_values_are_null),
        cmocka_unit_test(test_attempt),
        cmocka_unit_test(test_event),
        cmocka_unit_test(test_checkpoint),
        cmocka_unit_test(test_node),
        cmocka_unit_test(test_topology),
    };
    return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}
