/* The sizes the core is made for: 3,072 nodes and 10,000 waiting jobs. Counts work by the processor's time, with a wide margin: what
 * it would catch is a turn whose cost grows with the square. */
#include <time.h>

#include "common/mem.h"
#include "tests/unit/core/world.h"

enum { NODES = 3072, JOBS = 10000 };

static double cpu_s(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static void join(struct core *core, struct core_time t)
{
    for (int i = 0; i < NODES; i++) {
        char name[32];
        struct link_inventory inventory = {.slots = 8, .cores = 64, .memory = (int64_t)1 << 40};
        (void)snprintf(name, sizeof(name), "node%d", (i * 1021) % NODES);
        (void)snprintf(inventory.rack, sizeof(inventory.rack), "rack%d", i % 96);
        (void)snprintf(inventory.address, sizeof(inventory.address), "10.0.0.1");
        struct core_hello hello = {name, "boot", &inventory, NULL, 0};
        core_node_hello(core, t, &hello);
    }
    core_turn(core, t);
    core_changes_clear(core);
}

static int64_t submit(struct core *core, struct core_time t, int ranks)
{
    char *yaml = str_printf("name: p\nrun: {command: [x], ranks: %d}\nresources: {memory: 1GiB}\n", ranks);
    struct core_submit s = {NULL, "ann", "/home/ann", 1000, 1000, world_spec(yaml)};
    int64_t id = 0;
    enum core_refusal why;
    struct err err = {""};
    assert_int_equal(core_submit(core, t, &s, &id, &why, &err), 0);
    free(yaml);
    return id;
}

/* One report of every node of the job's attempt, all in one turn. */
static void report_all(struct core *core, struct core_time t, int64_t id, enum report_phase phase,
                       int64_t rev)
{
    const struct attempt_record *a = core_attempt(core, id, 0);
    for (size_t i = 0; i < a->n_nodes; i++) {
        struct link_rank ranks[8];
        struct link_report r = {id, a->number, rev, phase, "", 4000, 4001, ranks, 8};
        memset(ranks, 0, sizeof(ranks));
        for (size_t k = 0; k < 8; k++) {
            ranks[k].rank = (int64_t)(i * 8 + k);
            ranks[k].state = phase == REPORT_RUNNING ? RANK_RUNNING : RANK_WAITING;
        }
        core_node_report(core, t, a->nodes[i].node, &r);
    }
    core_turn(core, t);
    core_changes_clear(core);
}

static void test_large_cluster(void **state)
{
    (void)state;
    struct core_config config;
    core_config_defaults(&config);
    struct core_time t = {WORLD_UTC, 1000};
    struct core *core = core_new(&config, t);
    double begin = cpu_s();
    join(core, t);
    double joined = cpu_s();
    int64_t large = submit(core, t, 16384);
    core_turn(core, t);
    double placed = cpu_s();
    assert_int_equal(core_job(core, large)->state, JOB_STARTING);
    assert_int_equal(core_attempt(core, large, 0)->n_nodes, 2048);
    report_all(core, t, large, REPORT_READY, 1);
    report_all(core, t, large, REPORT_RUNNING, 2);
    assert_int_equal(core_job(core, large)->state, JOB_RUNNING);
    double running = cpu_s();
    for (int i = 0; i < JOBS; i++)
        submit(core, t, 9000 + i % 40);
    double submitted = cpu_s();
    core_turn(core, t);
    double tried = cpu_s();
    core_changes_clear(core);
    for (int second = 0; second < 10; second++) {
        t.mono_ms += 1000;
        t.now_ms += 1000;
        for (int i = 0; i < NODES; i++) {
            char name[32];
            (void)snprintf(name, sizeof(name), "node%d", i);
            core_node_heartbeat(core, t, name);
        }
        core_turn(core, t);
        assert_int_equal(core_changes(core)->n_jobs, 0);
    }
    double beaten = cpu_s();
    print_message(
        "join %.3f s, place 16384 ranks %.3f s, start %.3f s, submit 10,000 %.3f s, try them %.3f s, "
        "10 s of heartbeats %.3f s\n",
        joined - begin, placed - joined, running - placed, submitted - running, tried - submitted,
        beaten - tried);
    assert_true(beaten - begin < 20.0);
    core_free(core);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_cluster),
    };
    return cmocka_run_group_tests_name("core scale", tests, NULL, NULL);
}
