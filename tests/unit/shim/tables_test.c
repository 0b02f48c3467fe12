/* rank_env, rankmap, the state table, master ports and words for exits: the shim's small tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/shim/prepare.h"
#include "agent/shim/rank_env.h"
#include "agent/shim/rankmap.h"
#include "agent/shim/ranks.h"
#include "agent/shim/shim_table.h"

static struct link_rank_slot slots[] = {{.rank = 2, .slot = 4}, {.rank = 3, .slot = 5}};
static int64_t ranks_of_node[2][2] = {{0, 1}, {2, 3}};
static struct link_map_node nodes[2];
static char *keys[4], *values[4];

static struct link_order order(void)
{
    nodes[0] = (struct link_map_node){.node = (char *)"n0",
                                      .addr = (char *)"127.0.0.1",
                                      .port = 1,
                                      .master_port = 20001,
                                      .ranks = ranks_of_node[0],
                                      .n_ranks = 2};
    nodes[1] = (struct link_map_node){.node = (char *)"n1",
                                      .addr = (char *)"127.0.0.2",
                                      .port = 2,
                                      .ranks = ranks_of_node[1],
                                      .n_ranks = 2};
    return (struct link_order){.job = 7,
                               .attempt = 2,
                               .token = (char *)"tok",
                               .name = (char *)"name",
                               .device = (char *)"cpu",
                               .cpus = 3,
                               .world = 4,
                               .node_rank = 1,
                               .nodes = 2,
                               .ranks = slots,
                               .n_ranks = 2,
                               .map = nodes,
                               .n_map = 2,
                               .env_keys = keys,
                               .env_values = values};
}

static char **build(const struct link_order *o, struct identity *who, size_t index)
{
    static char outer[][32] = {"PATH=/bin",      "BELAY_DIR=/x", "PMIX_RANK=9",
                               "OMPI_MCA_x=1",   "PMI_RANK=1",   "NOTIFY_SOCKET=/s",
                               "PMIXLIKE=stays", "HOME=/root",   "OMP_NUM_THREADS=64"};
    char *from[10] = {0};
    for (size_t i = 0; i < 9; i++)
        from[i] = outer[i];
    char **inherited = rank_env_inherit(from, who->change);
    struct rank_env in = {.order = o,
                          .who = who,
                          .scratch = "/dev/shm/s",
                          .job_file = "/dev/shm/s/job.yaml",
                          .notify_socket = "/dev/shm/s/notify",
                          .resume_from = index == 1 ? "/data/a.pt" : NULL};
    char **env = rank_env_build(&in, index, inherited);
    envlist_free(inherited);
    return env;
}

struct expect {
    const char *key, *value; /* NULL = must not be there */
};

static void check(char **env, const struct expect *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *got = envlist_get(env, rows[i].key);
        if (!rows[i].value) {
            assert_null(got);
        } else {
            assert_non_null(got);
            assert_string_equal(got, rows[i].value);
        }
    }
}

static void test_env_of_a_cpu_rank(void **state)
{
    (void)state;
    static const struct expect rows[] = {{"RANK", "3"},
                                         {"WORLD_SIZE", "4"},
                                         {"LOCAL_RANK", "1"},
                                         {"LOCAL_WORLD_SIZE", "2"},
                                         {"NODE_RANK", "1"},
                                         {"MASTER_ADDR", "127.0.0.1"},
                                         {"MASTER_PORT", "20001"},
                                         {"BELAY_JOB_ID", "7"},
                                         {"BELAY_JOB_NAME", "name"},
                                         {"BELAY_ATTEMPT", "2"},
                                         {"BELAY_NODE", "n1"},
                                         {"BELAY_SLOT", "5"},
                                         {"BELAY_TOKEN", "tok"},
                                         {"BELAY_NOTIFY_SOCKET", "/dev/shm/s/notify"},
                                         {"BELAY_JOB_FILE", "/dev/shm/s/job.yaml"},
                                         {"BELAY_RESUME_FROM", "/data/a.pt"},
                                         {"OMP_NUM_THREADS", "3"},
                                         {"CUDA_VISIBLE_DEVICES", NULL},
                                         {"JSM_JSRUN_PORT", "1"},
                                         {"PMIX_MCA_gds", "hash"},
                                         {"OMPI_MCA_mpi_yield_when_idle", "1"},
                                         {"OMPI_MCA_btl_tcp_if_include", "lo"},
                                         {"OMPI_MCA_btl_vader_backing_directory", "/dev/shm/s"},
                                         {"PATH", "/bin"},
                                         {"PMIXLIKE", "stays"},
                                         {"HOME", "/root"},
                                         {"BELAY_DIR", NULL},
                                         {"PMIX_RANK", NULL},
                                         {"OMPI_MCA_x", NULL},
                                         {"PMI_RANK", NULL},
                                         {"NOTIFY_SOCKET", NULL}};
    struct identity who = {0};
    struct link_order o = order();
    char **env = build(&o, &who, 1);
    check(env, rows, sizeof rows / sizeof *rows);
    envlist_free(env);
}

static void test_secrets_of_the_agent_are_not_for_other_users(void **state)
{
    (void)state;
    static char name[] = "ann", home[] = "/home/ann";
    static const struct expect rows[] = {
        {"PATH", "/bin"},   {"OMP_NUM_THREADS", "3"}, {"HOME", "/home/ann"}, {"USER", "ann"},
        {"PMIXLIKE", NULL}, {"BELAY_DIR", NULL},      {"BELAY_TOKEN", "tok"}};
    struct identity who = {.change = true, .name = name, .home = home};
    struct link_order o = order();
    char **env = build(&o, &who, 1);
    check(env, rows, sizeof rows / sizeof *rows);
    envlist_free(env);
}

static void test_env_of_a_gpu_rank_and_the_jobs_own(void **state)
{
    (void)state;
    static const struct expect rows[] = {{"CUDA_VISIBLE_DEVICES", "4"},
                                         {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
                                         {"OMP_NUM_THREADS", "1"},
                                         {"OMPI_MCA_mpi_yield_when_idle", NULL},
                                         {"OMPI_MCA_btl_tcp_if_include", NULL},
                                         {"BELAY_TOKEN", "tok"},
                                         {"BELAY_MINE", "x"},
                                         {"HOME", "/home/ann"},
                                         {"USER", "ann"},
                                         {"PATH", "/opt/bin"}};
    struct identity who = {.uid = 1000, .change = true, .name = (char *)"ann", .home = (char *)"/home/ann"};
    struct link_order o = order();
    o.device = (char *)"gpu";
    nodes[1].addr = (char *)"10.0.0.2";
    const char *const set[][2] = {
        {"OMP_NUM_THREADS", "1"}, {"BELAY_TOKEN", "forged"}, {"BELAY_MINE", "x"}, {"PATH", "/opt/bin"}};
    for (size_t i = 0; i < 4; i++) {
        keys[i] = (char *)set[i][0];
        values[i] = (char *)set[i][1];
    }
    o.n_env = 4;
    char **env = build(&o, &who, 0);
    check(env, rows, sizeof rows / sizeof *rows);
    envlist_free(env);
}

static void test_rankmap(void **state)
{
    (void)state;
    struct err err = {""};
    struct rankmap m;
    struct link_order o = order();
    assert_int_equal(rankmap_build(&o, &m, &err), 0);
    assert_int_equal(rankmap_node(&m, 0), 0);
    assert_int_equal(rankmap_node(&m, 3), 1);
    assert_int_equal(m.local[3], 1);
    assert_int_equal(rankmap_node(&m, 4), -1);
    assert_int_equal(rankmap_node(&m, -1), -1);
    rankmap_clear(&m);
}

static void test_rankmap_refuses(void **state)
{
    (void)state;
    static const struct {
        int64_t ranks[2][2], n_map, node_rank;
        const char *says;
    } rows[] = {{{{0, 1}, {1, 3}}, 2, 1, "twice"},    {{{0, 1}, {2, 4}}, 2, 1, "rank 4"},
                {{{0, 1}, {2, -1}}, 2, 1, "rank -1"}, {{{0, 2}, {1, 3}}, 2, 1, "does not put rank 2"},
                {{{0, 1}, {2, 3}}, 1, 1, "1 nodes"},  {{{0, 1}, {2, 3}}, 2, 2, "nodes"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {""};
        struct rankmap m;
        struct link_order o = order();
        memcpy(ranks_of_node, rows[i].ranks, sizeof ranks_of_node);
        o.n_map = (size_t)rows[i].n_map;
        o.node_rank = rows[i].node_rank;
        assert_int_equal(rankmap_build(&o, &m, &err), -1);
        assert_non_null(strstr(err.text, rows[i].says));
        assert_null(m.node_of);
    }
    memcpy(ranks_of_node, (int64_t[2][2]){{0, 1}, {2, 3}}, sizeof ranks_of_node);
}

static void test_loopback(void **state)
{
    (void)state;
    struct link_order o = order();
    assert_true(rankmap_all_loopback(&o));
    nodes[1].addr = (char *)"10.0.0.1";
    assert_false(rankmap_all_loopback(&o));
    o.n_map = 0;
    assert_false(rankmap_all_loopback(&o));
    assert_true(rankmap_is_loopback("::1"));
    assert_false(rankmap_is_loopback("12.0.0.7"));
}

/* Every pair has a rule; the ends are ends; every state leads to the end. */
static void test_state_table(void **state)
{
    (void)state;
    for (int s = 0; s < SHIM_STATE_COUNT; s++) {
        for (int e = 0; e < SHIM_EVENT_COUNT; e++) {
            const struct shim_rule *rule = shim_rule((enum shim_state)s, (enum shim_event)e);
            assert_non_null(rule);
            assert_in_range(rule->next, 0, SHIM_STATE_COUNT - 1);
            bool stays = (int)rule->next == s;
            assert_true(!stays || rule->action == SHIM_DO_NOTHING || rule->action == SHIM_DO_REGRACE);
            assert_true(s != SHIM_DONE || stays);
            assert_true((int)rule->next >= s || rule->next == SHIM_REFUSED); /* never back */
            assert_true(rule->next != SHIM_GONE || s == SHIM_GONE || e == SHIM_EV_SWEPT);
            assert_true(rule->next != SHIM_DONE || s == SHIM_DONE || e == SHIM_EV_RELEASE);
        }
        assert_non_null(shim_state_name((enum shim_state)s));
    }
}

static void test_a_kill_sweeps_from_every_living_state(void **state)
{
    (void)state;
    static const enum shim_state living[] = {SHIM_PREPARING, SHIM_READY, SHIM_LAUNCHING, SHIM_RUNNING,
                                             SHIM_STOPPING};
    for (size_t i = 0; i < sizeof living / sizeof *living; i++) {
        assert_int_equal(shim_rule(living[i], SHIM_EV_KILL)->next, SHIM_SWEEPING);
        assert_int_equal(shim_rule(living[i], SHIM_EV_RELEASE)->next, living[i]);
    }
    assert_int_equal(shim_rule(SHIM_RUNNING, SHIM_EV_ENDED)->next, SHIM_SWEEPING);
    assert_int_equal(shim_rule(SHIM_RUNNING, SHIM_EV_GO)->next, SHIM_RUNNING);
    assert_int_equal(shim_rule(SHIM_REFUSED, SHIM_EV_GO)->next, SHIM_REFUSED);
}

static void test_master_ports(void **state)
{
    (void)state;
    static const int64_t jobs[] = {1, 7, 90001, 2147483648};
    for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++) {
        char seen[10000] = {0};
        for (int64_t attempt = 1; attempt <= 600; attempt++) {
            for (int i = 0; i < 16; i++) {
                int64_t port = prepare_master_port(jobs[j], attempt, i);
                assert_in_range(port, 20000, 29999);
                assert_int_equal(seen[port - 20000]++, 0);
            }
        }
    }
}

static void test_words_for_exits(void **state)
{
    (void)state;
    static const struct {
        bool killed, dumped;
        int status;
        const char *words;
    } rows[] = {{false, false, 0, "finished"},
                {false, false, 93, "exited with code 93"},
                {true, false, 9, "killed by signal 9 (SIGKILL)"},
                {true, true, 11, "killed by signal 11 (SIGSEGV), core dumped"},
                {true, false, 60, "killed by signal 60 (SIG?)"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[128];
        ranks_describe_exit(rows[i].killed, rows[i].dumped, rows[i].status, text, sizeof text);
        assert_string_equal(text, rows[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_env_of_a_cpu_rank),
                                       cmocka_unit_test(test_secrets_of_the_agent_are_not_for_other_users),
                                       cmocka_unit_test(test_env_of_a_gpu_rank_and_the_jobs_own),
                                       cmocka_unit_test(test_rankmap),
                                       cmocka_unit_test(test_rankmap_refuses),
                                       cmocka_unit_test(test_loopback),
                                       cmocka_unit_test(test_state_table),
                                       cmocka_unit_test(test_a_kill_sweeps_from_every_living_state),
                                       cmocka_unit_test(test_master_ports),
                                       cmocka_unit_test(test_words_for_exits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
