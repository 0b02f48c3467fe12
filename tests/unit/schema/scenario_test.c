/* The scenario reader: what it makes of a file, and what it says, and where, about a wrong one. */
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
#include "schema/scenario.h"

#define CLUSTER                                                                                              \
    "cluster: {devices: {type: h100, per_node: 8}, pods: [{name: p, racks: \"r[1-2]\", nodes: "              \
    "\"n[1-8]\"}]}\n"
#define JOB  "{spec: {name: a, run: {command: [x], ranks: 8}}, step: 2s, work: 1d}"
#define JOBS "jobs: [" JOB "]\n"

static struct scenario *parse(const char *yaml, const char *const *sets, size_t n_sets, char *said,
                              size_t size)
{
    struct job_diagnostics *d = mem_zero(1, sizeof(*d));
    struct scenario *s = NULL;
    int rc = scenario_parse(yaml, strlen(yaml), "dir/s.yaml", sets, n_sets, &s, d);
    assert_int_equal(rc, s ? 0 : -1);
    (void)snprintf(said, size, "%s", rc == 0 ? "" : d->text[0]);
    assert_true(rc == 0 || d->count > 0);
    free(d);
    return s;
}

static struct scenario *read(const char *yaml)
{
    char said[512];
    struct scenario *s = parse(yaml, NULL, 0, said, sizeof(said));
    if (!s)
        fail_msg("%s", said);
    return s;
}

static void test_defaults(void **state)
{
    (void)state;
    struct scenario *s = read(CLUSTER JOBS);
    assert_int_equal(s->cluster->n_nodes, 8);
    assert_int_equal(s->n_jobs, 1);
    assert_int_equal(s->jobs[0].count, 1);
    assert_int_equal(s->jobs[0].step_ms, 2000);
    assert_int_equal(s->jobs[0].checkpoint.every_ms, 1800000);
    assert_int_equal(s->jobs[0].checkpoint.stall_ms, 30000);
    assert_int_equal(s->jobs[0].load_ms, 60000);
    assert_true(s->days == 7 && s->faults[FAULT_NODE_CRASH].per_day == 0);
    scenario_free(s);
}

static void test_own_before_common(void **state)
{
    (void)state;
    struct scenario *s = read(
        CLUSTER
        "checkpoint: {every: 10m, cost: 5s}\nload: 7s\nspares: 2\n"
        "jobs:\n  - " JOB
        "\n  - {spec: {name: b, run: {command: [x], ranks: 8}}, step: 2s, work: {lognormal: 3h, sigma: 0.5}, "
        "load: 9s, spares: 1, checkpoint: {every: 100, overlap: true, stall: 1s}, arrive: {every: 1h, "
        "random: true}}\n");
    assert_int_equal(s->jobs[0].spec->placement.spares, 2);
    assert_int_equal(s->jobs[1].spec->placement.spares, 1);
    assert_int_equal(s->jobs[0].load_ms, 7000);
    assert_int_equal(s->jobs[1].load_ms, 9000);
    assert_int_equal(s->jobs[1].checkpoint.every_steps, 100);
    assert_int_equal(s->jobs[1].checkpoint.every_ms, 0);
    assert_int_equal(s->jobs[1].checkpoint.stall_ms, 1000);
    assert_int_equal(s->jobs[1].checkpoint.cost_ms, 5000);
    assert_int_equal(s->jobs[1].work.shape, SHAPE_LOGNORMAL);
    assert_int_equal(s->jobs[1].count, SCENARIO_COUNT_MAX);
    assert_true(s->jobs[1].random_gaps);
    scenario_free(s);
}

static void test_rates(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double node, gpu, rack;
    } rows[] = {
        {"{rates: {node: 0.5/node-day, gpu: 1e-2/gpu-day, switch: 0.25/rack-day}}", 4, 0.64, 0.5},
        {"{rates: {node: 3/day, gpu: 6 per 2d}}", 3, 3, 0},
        {"{rate: 419 per 54d on 16384 gpus}", 419.0 / 54 / 16384 * 64, 0, 0},
        {"{rate: 10 per 1d on 16 nodes, mix: {node: 1, gpu: 3, switch: 1}}", 1, 3, 1},
        {"{rate: 5/day, mix: {node: 1, gpu: 1}, rates: {gpu: 1/day}}", 2.5, 3.5, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *yaml = str_printf(CLUSTER JOBS "failures: %s\n", rows[i].text);
        struct scenario *s = read(yaml);
        assert_true(fabs(s->faults[FAULT_NODE_CRASH].per_day - rows[i].node) < 1e-12);
        assert_true(fabs(s->faults[FAULT_GPU_BROKEN].per_day - rows[i].gpu) < 1e-12);
        assert_true(fabs(s->faults[FAULT_SWITCH_OUT].per_day - rows[i].rack) < 1e-12);
        scenario_free(s);
        free(yaml);
    }
}

static void test_repairs_and_sweeps(void **state)
{
    (void)state;
    struct scenario *s = read(CLUSTER JOBS "failures: {rate: 1/day, repair: {node: {exponential: 2h}, gpu: "
                                           "{lognormal: 4h, sigma: 1}}, slow: 2.5}\n"
                                           "sweep: {checkpoint.every: [10m, 1h], spares: [0, 2, 4]}\n");
    assert_int_equal(s->faults[FAULT_NODE_CRASH].repair.shape, SHAPE_EXPONENTIAL);
    assert_int_equal(s->faults[FAULT_GPU_BROKEN].repair.ms, 4 * 3600000);
    assert_int_equal(s->faults[FAULT_LINK_CUT].repair.ms, 600000);
    assert_true(s->slow_factor == 2.5);
    assert_int_equal(s->n_sweeps, 2);
    assert_string_equal(s->sweeps[0].key, "checkpoint.every");
    assert_string_equal(s->sweeps[0].values[1], "1h");
    assert_int_equal(s->sweeps[1].n_values, 3);
    scenario_free(s);
}

static void test_sets(void **state)
{
    (void)state;
    const char *const sets[] = {"checkpoint.every=2h", "jobs.0.step=5s", "failures.rate=2/day",
                                "jobs.0.spec.parallel.tp=4", "spares=3"};
    char said[512];
    struct scenario *s = parse(CLUSTER JOBS, sets, 5, said, sizeof(said));
    assert_string_equal(said, "");
    assert_int_equal(s->jobs[0].checkpoint.every_ms, 7200000);
    assert_int_equal(s->jobs[0].step_ms, 5000);
    assert_int_equal(s->jobs[0].spec->tp, 4);
    assert_int_equal(s->jobs[0].spec->placement.spares, 3);
    assert_true(s->faults[FAULT_NODE_CRASH].per_day == 2);
    scenario_free(s);
}

static void test_sets_of_sweeps(void **state)
{
    (void)state;
    const char *const sets[] = {"sweep.checkpoint.every=[1h, 2h]", "sweep.jobs.0.step=[1s]"};
    char said[512];
    struct scenario *s = parse(CLUSTER JOBS "sweep: {checkpoint.every: [5m]}\n", sets, 2, said, sizeof(said));
    assert_string_equal(said, "");
    assert_int_equal(s->n_sweeps, 2);
    assert_int_equal(s->sweeps[0].n_values, 2);
    assert_string_equal(s->sweeps[0].values[1], "2h");
    assert_string_equal(s->sweeps[1].key, "jobs.0.step");
    scenario_free(s);
}

/* The interval of a job: what its entry says, else the scenario, else its job file, else 30 minutes. */
static void test_whose_interval(void **state)
{
    (void)state;
    static const struct {
        const char *common, *spec, *entry;
        int64_t steps, ms;
    } rows[] = {
        {"{cost: 1s}", "{directory: d}", "{cost: 2s}", 0, 1800000},
        {"{cost: 1s}", "{directory: d, every: 7}", "{cost: 2s}", 7, 0},
        {"{every: 10m}", "{directory: d, every: 7}", "{cost: 2s}", 0, 600000},
        {"{every: 10m}", "{directory: d, every: 7}", "{every: 9}", 9, 0},
        {"{cost: 1s}", "{directory: d, every: 7}", "{every: never}", 0, 0},
        {"{cost: 1s}", "{directory: d, every: 7}", "{every: auto}", JOB_EVERY_AUTO, 0},
        {"{cost: 1s}", "{directory: d, every: auto}", "{cost: 2s}", JOB_EVERY_AUTO, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *yaml =
            str_printf(CLUSTER "checkpoint: %s\njobs: [{spec: {name: a, run: {command: [x], ranks: 8}, "
                               "checkpoint: %s}, step: 2s, work: 1d, checkpoint: %s}]\n",
                       rows[i].common, rows[i].spec, rows[i].entry);
        struct scenario *s = read(yaml);
        assert_int_equal(s->jobs[0].checkpoint.every_steps, rows[i].steps);
        assert_int_equal(s->jobs[0].checkpoint.every_ms, rows[i].ms);
        scenario_free(s);
        free(yaml);
    }
}

static void test_spares_auto(void **state)
{
    (void)state;
    struct scenario *s =
        read(CLUSTER "spares: auto\njobs: [" JOB ", {spares: 2, spec: {name: a, run: {command: "
                     "[x], ranks: 8}}, step: 2s, work: 1d}]\n");
    assert_int_equal(s->jobs[0].spec->placement.spares, JOB_SPARES_AUTO);
    assert_int_equal(s->jobs[1].spec->placement.spares, 2);
    scenario_free(s);
}

static void test_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *set, *says;
    } rows[] = {
        {" \n", NULL, "dir/s.yaml:1:1: the file is empty; docs/simulation.md"},
        {JOBS, NULL, "dir/s.yaml:1:1: cluster is missing"},
        {CLUSTER, NULL, "dir/s.yaml:1:1: jobs is missing"},
        {CLUSTER JOBS "dayz: 3\n", NULL, "3:1: unknown field \"dayz\"; did you mean \"days\"?"},
        {CLUSTER JOBS "days: 0\n", NULL, "3:7: days: must be a number of days from 0.001 to 3650, not \"0\""},
        {CLUSTER JOBS "days: 1e-12\n", NULL, "3:7: days: must be a number of days from 0.001"},
        {CLUSTER JOBS "days: x\n", NULL, "3:7: days: must be a number"},
        {CLUSTER JOBS "spares: -1\n", NULL,
         "3:9: spares: must be auto or a number of nodes from 0 to 65536, not \"-1\""},
        {CLUSTER JOBS "checkpoint: {stall: 3s}\n", NULL, "3:21: checkpoint.stall: only with overlap: true"},
        {CLUSTER JOBS "checkpoint: {cost: 3s, overlap: true, stall: 4s}\n", NULL,
         "3:46: checkpoint.stall: training cannot wait longer than the cost"},
        {CLUSTER "checkpoint: {cost: 9s, overlap: true, stall: 4s}\njobs: [{spec: {name: a, run: {command: "
                 "[x], ranks: 8}}, step: 1s, work: 1d, checkpoint: {cost: 3s}}]\n",
         NULL, "3:89: checkpoint.stall: training cannot wait longer"},
        {CLUSTER JOBS "checkpoint: {evry: 3m}\n", NULL,
         "3:14: unknown field \"evry\" in checkpoint; did you mean \"every\"?"},
        {CLUSTER JOBS "checkpoint: {every: soon}\n", NULL,
         "3:21: checkpoint.every: must be a duration such as 30m, a number of steps, auto or never, not "
         "\"soon\""},
        {CLUSTER JOBS "failures: {rate: lots}\n", NULL,
         "3:18: failures.rate: must be a rate such as 6.5e-3/node-day, 0.1/day or 419 per 54d on 16384 gpus, "
         "not \"lots\""},
        {CLUSTER JOBS "failures: {rate: 1/week}\n", NULL, "3:18: failures.rate: must be a rate"},
        {CLUSTER JOBS "failures: {rate: 5 per 2d on 3 apples}\n", NULL,
         "3:18: failures.rate: must be a rate"},
        {CLUSTER JOBS "failures: {rate: 5 per 2d on 3 gpux}\n", NULL, "3:18: failures.rate: must be a rate"},
        {CLUSTER JOBS "failures: {rates: {nod: 1/day}}\n", NULL,
         "unknown kind of failure \"nod\"; did you mean \"node\"?"},
        {CLUSTER JOBS "failures: {repairs: {node: 1h}}\n", NULL,
         "unknown field \"repairs\" in failures; did you mean \"repair\"?"},
        {CLUSTER JOBS "failures: {mix: {node: 1}}\n", NULL, "failures.mix needs failures.rate"},
        {CLUSTER JOBS "failures: {rate: 1/day, repair: {node: {mean: 3h}}}\n", NULL,
         "failures.repair.node: must be a duration such as 4h, {exponential: 4h} or {lognormal: 4h, sigma: "
         "1}"},
        {CLUSTER "jobs: []\n", NULL, "2:7: jobs must be a list of 1 to 256 entries"},
        {CLUSTER "jobs: [{step: 1s}]\n", NULL, "2:8: a job needs file: (a job file) or spec:"},
        {CLUSTER "jobs: [{spec: {name: a, run: {command: [x], ranks: 8}}, work: 1d}]\n", NULL,
         "job a: step is missing"},
        {CLUSTER "jobs: [{spec: {name: a, run: {command: [x], ranks: 8}}, step: 1s}]\n", NULL,
         "job a: work is missing"},
        {CLUSTER "jobs: [{spec: {name: a, run: {command: [x], ranks: 8, comand: x}}, step: 1s, work: 1d}]\n",
         NULL, "2:55: unknown field \"comand\" in run; did you mean \"command\"?"},
        {CLUSTER "jobs: [{file: nowhere.yaml}]\n", NULL, "cannot open dir/nowhere.yaml"},
        {"cluster: nowhere.yaml\n" JOBS, NULL, "1:10: dir/nowhere.yaml:1:1: "},
        {CLUSTER JOBS "sweep: {spares: 3}\n", NULL, "sweep.spares: a sweep has at most 4 fields"},
        {CLUSTER JOBS, "jobs.1.step=1s", "--set jobs.1.step=1s: there is no such place in the file"},
        {CLUSTER JOBS, "checkpoint.evry=1s",
         "--set checkpoint.evry=1s: unknown field \"evry\" in checkpoint"},
        {CLUSTER JOBS, "spares", "--set spares: must be FIELD=VALUE"},
        {CLUSTER JOBS, "jobs.0.step=0s", "--set jobs.0.step=0s: jobs[].step: must be a duration from 1ms"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char said[512];
        struct scenario *s = parse(rows[i].yaml, &rows[i].set, rows[i].set ? 1 : 0, said, sizeof(said));
        if (s || !strstr(said, rows[i].says))
            fail_msg("row %zu: wanted \"%s\", got \"%s\"", i, rows[i].says, said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),       cmocka_unit_test(test_own_before_common),
        cmocka_unit_test(test_rates),          cmocka_unit_test(test_repairs_and_sweeps),
        cmocka_unit_test(test_sets),           cmocka_unit_test(test_sets_of_sweeps),
        cmocka_unit_test(test_whose_interval), cmocka_unit_test(test_spares_auto),
        cmocka_unit_test(test_wrong),
    };
    return cmocka_run_group_tests_name("scenario", tests, NULL, NULL);
}
