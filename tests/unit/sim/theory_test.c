/* The simulation agrees with the closed form where that applies: one job, failures of nodes only, free checkpoints, enough free nodes. */
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
#include "planner/saves.h"
#include "sim/sim.h"
#include "sim/theory.h"

static struct scenario *read(const char *yaml)
{
    struct job_diagnostics *d = mem_zero(1, sizeof(*d));
    struct scenario *s = NULL;
    if (scenario_parse(yaml, strlen(yaml), "test.yaml", NULL, 0, &s, d) != 0)
        fail_msg("%s", d->text[0]);
    free(d);
    return s;
}

struct setting {
    int nodes;                                     /* of the job; the cluster has twice as many */
    int mttf_min, every_min, load_s, cost_s, days; /* mttf: of the job */
};

static struct scenario *scenario_of(const struct setting *p)
{
    char *yaml = str_printf("days: %d\n"
                            "cluster: {name: c, devices: {type: h100, per_node: 8}, pods: [{name: p, racks: "
                            "\"r[1-2]\", nodes: \"n[1-%d]\"}]}\n"
                            "timing: {detect: 5s, prepare: 1s, launch: 1s, stop: 2s}\n"
                            "checkpoint: {every: %dm, cost: %ds}\nload: %ds\n"
                            "jobs:\n  - {spec: {name: a, run: {command: [x], ranks: %d}, parallel: {tp: 8, "
                            "dp: %d}}, step: 500ms, work: %dd}\n"
                            "failures: {rates: {node: %.17g/node-day}, repair: {node: 30m}}\n",
                            p->days, 2 * p->nodes, p->every_min, p->cost_s, p->load_s, 8 * p->nodes, p->nodes,
                            2 * p->days, 1440.0 / p->mttf_min / p->nodes);
    struct scenario *s = read(yaml);
    free(yaml);
    return s;
}

enum { SEEDS = 20 };

static double simulated(const struct scenario *s, int64_t *interrupted)
{
    double sum = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct err err = {""};
        struct sim_result r;
        struct sim_options options = {.seed = seed, .days = s->days};
        if (sim_run(s, &options, &r, &err) != 0)
            fail_msg("%s", err.text);
        if (r.jobs[0].state == JOB_FAILED)
            fail_msg("seed %d: %s", (int)seed, r.jobs[0].reason);
        sum += r.jobs[0].ettr / SEEDS;
        *interrupted += r.jobs[0].interrupted;
        sim_result_clear(&r);
    }
    return sum;
}

static void test_closed_form(void **state)
{
    (void)state;
    static const struct setting settings[] = {
        {4, 720, 30, 180, 0, 60},    {16, 1440, 60, 300, 0, 120}, {8, 360, 10, 60, 0, 30},
        {32, 2880, 60, 600, 0, 240}, {4, 480, 20, 30, 0, 40},     {16, 720, 10, 600, 0, 60},
        {8, 720, 20, 120, 10, 60},   {8, 2880, 90, 60, 60, 240},
    };
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        const struct setting *p = &settings[i];
        struct scenario *s = scenario_of(p);
        int64_t interrupted = 0;
        double got = simulated(s, &interrupted), overhead_s = 5 + 0.2 + 1 + 1 + p->load_s;
        double wanted = theory_ettr(overhead_s, 60.0 * p->every_min, 60.0 * p->mttf_min, p->cost_s);
        print_message("# MTTF %d min, every %d min, load %d s, cost %d s: simulated %.4f, closed form %.4f "
                      "(%+.2f%%), %lld failures\n",
                      p->mttf_min, p->every_min, p->load_s, p->cost_s, got, wanted, 100 * (got / wanted - 1),
                      (long long)interrupted);
        assert_true(interrupted > 500);
        assert_true(fabs(got / wanted - 1) < 0.01);
        assert_true(fabs((1 - got) / (1 - wanted) - 1) <
                    0.05); /* and what is lost, which is the small part */
        scenario_free(s);
    }
}

static void test_best_intervals(void **state)
{
    (void)state;
    assert_true(fabs(saves_young(50, 10000) - 1000) < 1e-9);
    assert_true(fabs(saves_daly(50, 10000) - (1000 * (1 + 0.05 / 3 + 0.0025 / 9) - 50)) < 1e-9);
    assert_true(saves_daly(300, 100) == 100);
    /* the best by search over the closed form with its cost is Young's */
    double best = 0, at = 0;
    for (double dt = 100; dt < 10000; dt += 1)
        if (theory_ettr(10, dt, 10000, 50) > best) {
            best = theory_ettr(10, dt, 10000, 50);
            at = dt;
        }
    assert_true(fabs(at - saves_young(50, 10000)) < 2);
}

static void test_luck(void **state)
{
    (void)state;
    static const struct {
        double d[20];
        size_t n;
        bool luck;
    } rows[] = {
        {{5}, 1, true},
        {{1, 1, 1, 1}, 4, false},
        {{0, 0, 0}, 3, true},
        {{1, -1}, 2, true},
        {{0.9, 1.1}, 2, true}, /* 12.71 times 0.1 is more than 1 */
        {{-0.9, -1.0, -1.1}, 3, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(theory_is_luck(rows[i].d, rows[i].n), rows[i].luck);
    double some[20],
        less[20]; /* standard error 0.229; by t with 19 degrees of freedom 0.48 is not zero any more */
    for (size_t i = 0; i < 20; i++) {
        some[i] = 0.50 + (i % 2 ? 1 : -1);
        less[i] = 0.46 + (i % 2 ? 1 : -1);
    }
    assert_false(theory_is_luck(some, 20));
    assert_true(theory_is_luck(less, 20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closed_form),
        cmocka_unit_test(test_best_intervals),
        cmocka_unit_test(test_luck),
    };
    return cmocka_run_group_tests_name("sim theory", tests, NULL, NULL);
}
