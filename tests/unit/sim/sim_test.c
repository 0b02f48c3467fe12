/* Small simulations whose result is known beforehand: how long a job takes, what each kind of failure costs and under which name. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "sim/sim.h"

#define HEAD                                                                                                 \
    "cluster: {devices: {type: h100, per_node: 8}, pods: [{name: p, racks: \"r[1-2]\", nodes: "              \
    "\"n[1-4]\"}]}\n"                                                                                        \
    "timing: {detect: 5s, prepare: 2s, launch: 1s, stop: 2s}\n"
#define JOB(ranks, more)                                                                                     \
    "{spec: {name: a, run: {command: [x], ranks: " #ranks "}, restart: {max: 1000}}, step: 1s, " more "}"

static void run(const char *yaml, double days, uint64_t seed, struct sim_result *r)
{
    struct job_diagnostics *d = mem_zero(1, sizeof(*d));
    struct scenario *s = NULL;
    struct err err = {""};
    if (scenario_parse(yaml, strlen(yaml), "t.yaml", NULL, 0, &s, d) != 0)
        fail_msg("%s", d->text[0]);
    struct sim_options options = {.seed = seed, .days = days, .points = 10};
    if (sim_run(s, &options, r, &err) != 0)
        fail_msg("%s", err.text);
    scenario_free(s);
    free(d);
}

/* From its first start: launch 1 s, load, steps, and what checkpoints add. */
static void test_undisturbed(void **state)
{
    (void)state;
    static const struct {
        const char *checkpoint;
        int64_t wall_ms, stalled_ms;
    } rows[] = {
        {"{every: never}", 3661000, 0},
        {"{every: 10m, cost: 10s}", 3661000 + 60000, 60000},
        {"{every: 600, cost: 10s}", 3661000 + 60000, 60000},
        {"{every: 2h, cost: 10s}", 3661000 + 10000, 10000}, /* the last step is always saved */
        {"{every: 10m, cost: 40s, overlap: true, stall: 1s}", 3661000 + 6000 + 40000, 46000},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sim_result r;
        char *yaml = str_printf(HEAD "jobs: [" JOB(32, "work: 1h, load: 1m, checkpoint: %s") "]\n",
                                rows[i].checkpoint);
        run(yaml, 1, 1, &r);
        assert_int_equal(r.jobs[0].state, JOB_COMPLETED);
        assert_int_equal(r.jobs[0].wall_ms, rows[i].wall_ms);
        assert_int_equal(r.jobs[0].time.useful, 3600000);
        assert_int_equal(r.jobs[0].time.stalled, rows[i].stalled_ms);
        assert_int_equal(r.jobs[0].started_ms - r.jobs[0].submitted_ms, 2000);
        assert_true(fabs(r.utilisation - (double)(r.jobs[0].wall_ms + 2000) / 86400e3) < 1e-9);
        assert_true(fabs(r.goodput - 3600e3 / 86400e3) < 1e-9);
        sim_result_clear(&r);
        free(yaml);
    }
}

/* A checkpoint is due before the one before it is durable: training waits for that one. */
static void test_overlap_waits(void **state)
{
    (void)state;
    struct sim_result r;
    run(HEAD
        "jobs: [" JOB(32, "work: 10m, load: 0s, checkpoint: {every: 30s, cost: 40s, overlap: true}") "]\n",
        1, 1, &r);
    assert_int_equal(r.jobs[0].wall_ms, 1000 + 30000 + 20 * 40000);
    assert_int_equal(r.jobs[0].time.useful, 600000);
    sim_result_clear(&r);
}

static void test_waits_for_slots(void **state)
{
    (void)state;
    struct sim_result r;
    run(HEAD "checkpoint: {every: never}\nload: 0s\njobs: [" JOB(
            32, "work: 1h, count: 3, arrive: {first: 1h, every: 10m}") "]\n",
        1, 1, &r);
    assert_int_equal(r.n_jobs, 3);
    assert_int_equal(r.jobs[1].submitted_ms, 3600000 + 600000);
    assert_int_equal(r.jobs[1].started_ms, r.jobs[0].ended_ms + 2000);
    assert_int_equal(r.jobs[2].started_ms, r.jobs[1].ended_ms + 2000);
    assert_true(fabs(r.wait.max_ms - (double)(r.jobs[2].started_ms - r.jobs[2].submitted_ms)) < 1);
    assert_true(fabs(r.wait.p50_ms - (double)(r.jobs[1].started_ms - r.jobs[1].submitted_ms)) < 1);
    assert_int_equal(r.wait.still, 0);
    sim_result_clear(&r);
}

/* Each crash costs detect, stop, place and load exactly; the rest is replay, at most an interval. */
static void test_crash(void **state)
{
    (void)state;
    struct sim_result r;
    run(HEAD "load: 30s\ncheckpoint: {every: 10m, cost: 0s}\njobs: [" JOB(
            8, "work: 300d") "]\n"
                             "failures: {rates: {node: 2/day}, repair: {node: 20m}}\n",
        100, 3, &r);
    const struct sim_job *j = &r.jobs[0];
    const struct lost_time *l = &j->time.lost;
    int64_t n = j->interrupted;
    assert_true(r.faults[FAULT_NODE_CRASH].happened > 150 && r.faults[FAULT_NODE_CRASH].struck == n &&
                n > 30);
    assert_true(l->detect >= (n - 1) * 5000 && l->detect <= n * 5000);
    assert_int_equal(l->stop, 0); /* a dead node has nothing to stop */
    assert_true(l->place >= (n - 1) * 2000 && l->place <= n * 2000 + 60000);
    assert_true(l->load >= (n - 1) * 32000 && l->load <= n * 32000 + 60000);
    assert_true(l->replay > n * 100000 && l->replay < n * 600000);
    assert_true(llabs(j->time.other) < 120000);
    assert_true(fabs(j->ettr - (double)j->time.useful / (double)j->wall_ms) < 1e-6);
    sim_result_clear(&r);
}

struct kind {
    const char *failures;
    enum scenario_kind kind;
    bool replays, drains;
};

static void test_kinds(void **state)
{
    (void)state;
    static const struct kind rows[] = {
        {"{rates: {gpu: 4/day}, repair: {gpu: 2h}}", FAULT_GPU_BROKEN, true, true},
        {"{rates: {link: 4/day}, repair: {link: 2h}}", FAULT_LINK_CUT, true, true},
        {"{rates: {link: 4/day}, repair: {link: 2s}}", FAULT_LINK_CUT, true,
         false}, /* back before it counts as down */
        {"{rates: {switch: 4/day}, repair: {switch: 1h}}", FAULT_SWITCH_OUT, true, true},
        {"{rates: {software: 8/day}}", FAULT_SOFTWARE, true, false},
        {"{rates: {storage: 4/day}, repair: {storage: 1h}}", FAULT_STORAGE_OUT, false, false},
        {"{rates: {slow: 4/day}, repair: {slow: 2h}, slow: 3}", FAULT_SLOW_NODE, false, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sim_result r;
        char *yaml = str_printf(HEAD "load: 30s\ncheckpoint: {every: 10m, cost: 10s}\njobs: [" JOB(
                                    16, "work: 300d") "]\nfailures: %s\n",
                                rows[i].failures);
        run(yaml, 20, 5, &r);
        const struct sim_job *j = &r.jobs[0];
        print_message("# %s: %lld happened, %lld struck, %lld starts, ETTR %.4f\n",
                      scenario_kind_name(rows[i].kind), (long long)r.faults[rows[i].kind].happened,
                      (long long)r.faults[rows[i].kind].struck, (long long)j->attempts, j->ettr);
        assert_int_equal(j->state, JOB_RUNNING);
        assert_true(r.faults[rows[i].kind].happened > 20);
        assert_int_equal(j->time.lost.replay > 0, rows[i].replays);
        assert_int_equal(j->attempts > 1, rows[i].replays);
        assert_int_equal(r.down > 1e-3, rows[i].drains);
        assert_int_equal(j->time.slowed > 0, rows[i].kind == FAULT_SLOW_NODE);
        if (rows[i].kind == FAULT_STORAGE_OUT)
            assert_true(j->time.stalled > 3600000 * (r.faults[FAULT_STORAGE_OUT].happened - 2) / 2);
        assert_true(llabs(j->time.other) < 300000);
        sim_result_clear(&r);
        free(yaml);
    }
}

static void test_fragmentation(void **state)
{
    (void)state;
    struct sim_result r;
    run(HEAD
        "checkpoint: {every: never}\nload: 0s\njobs: [" JOB(4, "work: 30d") ", " JOB(8, "work: 30d") "]\n",
        1, 1, &r);
    /* 4 of 20 free devices are on the node that is half used; its rack and perhaps the other's hold jobs */
    assert_true(fabs(r.torn_nodes - 0.2) < 1e-9);
    assert_true(r.torn_racks > 0.2 - 1e-9);
    sim_result_clear(&r);
}

/* Spares are held, and yield is what is left of ETTR after paying for them. */
static void test_spares_cost(void **state)
{
    (void)state;
    struct sim_result r;
    run(HEAD "checkpoint: {every: never}\nload: 0s\nspares: 1\njobs: [" JOB(16, "work: 10h") "]\n", 1, 1, &r);
    double useful = 36000e3 * 16, wall = 36001e3;
    assert_int_equal(r.jobs[0].wall_ms, 36001000);
    assert_int_equal(r.jobs[0].spares, 8);
    assert_true(fabs(r.utilisation - (wall + 2e3) * 24 / (32 * 86400e3)) < 1e-9);
    assert_true(fabs(r.spare - (wall + 2e3) * 8 / (32 * 86400e3)) < 1e-9);
    assert_true(fabs(r.yield - useful / (16 * wall + 8 * (wall + 2e3))) < 1e-9);
    assert_true(fabs(r.ettr - useful / (16 * wall)) < 1e-9);
    sim_result_clear(&r);
}

/* auto reckons with the failures of the scenario: 1 a node-day and 12 hours of repair, so a node is out with p = 0.39, and of two nodes both
 * are at once in 15 % of the time; without failures there is nothing to wait for. */
static void test_spares_auto(void **state)
{
    (void)state;
    struct sim_result r;
    run(HEAD "load: 0s\nspares: auto\njobs: [" JOB(16, "work: 1h") "]\n"
                                                                   "failures: {rates: {node: 1/node-day}, "
                                                                   "repair: {node: 12h}}\n",
        0.1, 1, &r);
    assert_int_equal(r.jobs[0].spares, 16);
    sim_result_clear(&r);
    run(HEAD "load: 0s\nspares: auto\njobs: [" JOB(16, "work: 1h") "]\n", 0.1, 1, &r);
    assert_int_equal(r.jobs[0].spares, 0);
    sim_result_clear(&r);
}

static void test_never_fits(void **state)
{
    (void)state;
    struct sim_result r;
    run(HEAD "jobs: [" JOB(32, "work: 30d") ", " JOB(64, "work: 1h, count: 3") ", " JOB(32, "work: 1h") "]\n",
        1, 1, &r);
    assert_int_equal(r.n_jobs, 5);
    assert_int_equal(r.never_fit, 3);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(r.jobs[i].never_fits, r.jobs[i].ranks == 64); /* the last only waits */
    assert_int_equal(r.wait.still, 4);
    sim_result_clear(&r);
}

static void test_same_seed_same_result(void **state)
{
    (void)state;
    static const char yaml[] = HEAD "jobs: [" JOB(16, "work: 300d") ", " JOB(
        8,
        "work: {exponential: 3h}, arrive: {every: 2h, random: true}") "]\n"
                                                                      "failures: {rate: 5/day, mix: {gpu: 3, "
                                                                      "node: 1, link: 1, switch: 1, storage: "
                                                                      "1, slow: 1, software: 1}}\n";
    struct sim_result a, b, c;
    run(yaml, 20, 1, &a);
    run(yaml, 20, 1, &b);
    run(yaml, 20, 2, &c);
    assert_int_equal(a.n_jobs, b.n_jobs);
    assert_memory_equal(a.points, b.points, a.n_points * sizeof(*a.points));
    assert_memory_equal(&a.device_ms, &b.device_ms, sizeof(a.device_ms));
    assert_memory_equal(a.faults, b.faults, sizeof(a.faults));
    assert_memory_not_equal(a.points, c.points, a.n_points * sizeof(*a.points));
    assert_in_range(a.n_jobs, 180, 300);
    sim_result_clear(&a);
    sim_result_clear(&b);
    sim_result_clear(&c);
}

/* Another policy meets the same failures. */
static void test_same_failures(void **state)
{
    (void)state;
    struct sim_result a, b;
    run(HEAD "jobs: [" JOB(
            32, "work: 300d, checkpoint: {every: 1m, cost: 1s}") "]\nfailures: {rates: {storage: 3/day}}\n",
        20, 1, &a);
    run(HEAD "jobs: [" JOB(
            8, "work: 300d, checkpoint: {every: 3h, cost: 1s}") "]\nfailures: {rates: {storage: 3/day}}\n",
        20, 1, &b);
    assert_int_equal(a.faults[FAULT_STORAGE_OUT].happened, b.faults[FAULT_STORAGE_OUT].happened);
    sim_result_clear(&a);
    sim_result_clear(&b);
}

static void test_planned_step(void **state)
{
    (void)state;
    struct sim_result r;
    run(HEAD "jobs: [{spec: {name: a, train: {model: {preset: gpt2-124m}, data: {path: x}, steps: 5000, "
             "batch: {global: 512, micro: 16}, "
             "precision: bf16}, parallel: {dp: 32}, checkpoint: {directory: c}}}]\n",
        10, 1, &r);
    assert_int_equal(r.jobs[0].state, JOB_COMPLETED);
    assert_int_equal(r.jobs[0].step, 5000);
    /* 512 sequences of 1,024 tokens on 32 H100: a few hundred ms a step at most, more than 20 ms */
    assert_in_range(r.jobs[0].time.useful, 5000 * 20, 5000 * 500);
    sim_result_clear(&r);
}

static void run_patient(const char *dp, struct sim_result *r)
{
    char *yaml = str_printf(
        HEAD
        "load: 30s\ncheckpoint: {every: 10m, cost: 0s}\n"
        "jobs: [{spec: {name: a, train: {model: {preset: gpt2-124m}, data: {path: x}, steps: 500000, "
        "batch: {global: 48, micro: 1}}, parallel: {tp: 4, dp: %s}, checkpoint: {directory: c}}, step: 1s}]\n"
        "failures: {rates: {node: 1/day}, repair: {node: 12h}}\n",
        dp);
    run(yaml, 60, 5, r);
    free(yaml);
}

/* Where every node is needed and repairs take long, a job that may go on with fewer replicas is done sooner; its steps take longer
 * meanwhile, and it grows. */
static void test_elastic(void **state)
{
    (void)state;
    struct sim_result fixed, elastic;
    run_patient("8", &fixed);
    run_patient("2..8", &elastic);
    assert_int_equal(elastic.jobs[0].state, JOB_COMPLETED);
    assert_int_equal(elastic.jobs[0].step, 500000);
    assert_true(elastic.jobs[0].attempts > elastic.jobs[0].interrupted + 1); /* some were stopped to grow */
    assert_true(elastic.jobs[0].wall_ms * 10 < fixed.jobs[0].wall_ms * 9);
    assert_int_equal(elastic.jobs[0].ranks, 32);
    assert_true(llabs(elastic.jobs[0].time.useful - 500000 * INT64_C(1000)) <=
                1000 * elastic.jobs[0].attempts);
    assert_true(elastic.jobs[0].time.slowed > 3600000); /* by fewer replicas */
    assert_true(elastic.goodput < elastic.utilisation);
    assert_true(elastic.jobs[0].time.lost.place < fixed.jobs[0].time.lost.place / 4);
    sim_result_clear(&fixed);
    sim_result_clear(&elastic);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_undisturbed),     cmocka_unit_test(test_overlap_waits),
        cmocka_unit_test(test_waits_for_slots), cmocka_unit_test(test_crash),
        cmocka_unit_test(test_kinds),           cmocka_unit_test(test_fragmentation),
        cmocka_unit_test(test_spares_cost),     cmocka_unit_test(test_spares_auto),
        cmocka_unit_test(test_never_fits),      cmocka_unit_test(test_same_seed_same_result),
        cmocka_unit_test(test_same_failures),   cmocka_unit_test(test_planned_step),
        cmocka_unit_test(test_elastic),
    };
    return cmocka_run_group_tests_name("sim", tests, NULL, NULL);
}
