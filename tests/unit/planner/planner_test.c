/* The plan as a whole: numbers that must come out, Llama 3 405B on its three published meshes, and every published run of the
 * table against its prediction. The documentation's table of errors is checked against the same predictions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/fsutil.h"
#include "planner/planner.h"
#include "tests/unit/planner/published.h"
#include "tests/unit/planner/spec.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static const struct plan_device *device(const char *name)
{
    struct err err;
    const struct plan_device *d = plan_device_find(name, &err);
    if (!d)
        fail_msg("%s", err.text);
    return d;
}

static struct plan plan_for(struct job_spec *spec, const char *gpu, double tokens)
{
    struct plan_request request;
    struct plan plan;
    struct err err;
    plan_request_init(spec, device(gpu), &request);
    request.tokens = tokens;
    if (plan_make(&request, &plan, &err) != 0)
        fail_msg("%s", err.text);
    return plan;
}

static struct plan plan_of(const char *model, int64_t global, const char *parallel, const char *gpu,
                           double tokens)
{
    struct job_spec *spec = spec_of(model, global, 1, parallel);
    struct plan plan = plan_for(spec, gpu, tokens);
    job_spec_free(spec);
    return plan;
}

/* ---- numbers that must come out ---- */

static void seventy_billion_take_144_days(void **state)
{
    (void)state;
    SAME(plan_days_at(70e9, 15e12, 1024, device("h100"), 0.5), 144, 0.5);
}

/* 12 bytes a parameter over all ranks, through PCIe; nodes of eight that fail as those of RSC-1 did. */
static void saves_are_planned_from_the_copy_and_the_nodes(void **state)
{
    (void)state;
    struct plan p = plan_of("preset: llama3-70b", 512, "tp: 8, dp: 128, zero: 1", "h100", 0);
    SAME(p.saves.cost_s, 12 * (double)p.params.total / 1024 / 64e9, 0);
    SAME(p.saves.mttf_s, 86400 / (128 * 6.5e-3), 1e-9);
    SAME(p.saves.step_s, p.step.total, 0);
}

static void eight_gpus_hold_40_billion(void **state)
{
    (void)state;
    SAME(plan_largest_model(8, device("h100"), PRECISION_BF16), 40e9, 0);
}

/* Three published meshes, one set of constants: they fit in 80 GB and come within 5 points. */
static void llama_405b_comes_near_its_published_mfu(void **state)
{
    (void)state;
    static const struct {
        const char *model, *parallel;
        int64_t global;
        double mfu;
    } rows[] = {
        {"preset: llama3-405b", "tp: 8, pp: 16, dp: 64, zero: 1" VP(8), 2048, 0.43},
        {"preset: llama3-405b", "tp: 8, pp: 16, dp: 128, zero: 1" VP(8), 2048, 0.41},
        {"preset: llama3-405b, context: 131072", "tp: 8, cp: 16, pp: 16, dp: 8, zero: 1" VP(8), 128, 0.38},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct plan p = plan_of(rows[i].model, rows[i].global, rows[i].parallel, "h100", 0);
        print_message("# 405B mesh %zu: MFU %.1f%%, published %.0f%%; %.1f GB\n", i + 1, 100 * p.mfu,
                      100 * rows[i].mfu, p.memory.total / 1e9);
        SAME(p.mfu, rows[i].mfu, 0.05);
        assert_true(p.fits);
        SAME(p.step_tokens, 16777216, 0);
    }
}

/* ---- published runs ---- */

static struct plan predict(const struct published *row)
{
    static const char *const how[] = {"none", "selective", "full"};
    struct job_spec *spec = spec_of(row->model, row->global, row->micro, row->parallel);
    for (enum job_recompute r = RECOMPUTE_NONE; r <= RECOMPUTE_FULL; r++)
        if (strcmp(row->train, how[r]) == 0)
            spec->train.recompute = r;
    struct plan plan = plan_for(spec, row->device, 0);
    job_spec_free(spec);
    return plan;
}

static void runs_come_within_15_percent(void **state)
{
    (void)state;
    double squares = 0;
    int counted = 0;
    for (size_t i = 0; i < COUNT(published); i++) {
        const struct published *row = &published[i];
        double error = predict(row).step.total / row->seconds - 1;
        print_message("# %-9s %-26s %+6.1f%%%s\n", row->device, row->name, 100 * error,
                      row->aside ? " (set aside)" : "");
        if (row->aside)
            continue;
        if (error < -0.15 || error > 0.15)
            fail_msg("%s on %s: %+.1f%%", row->name, row->device, 100 * error);
        squares += error * error;
        counted++;
    }
    assert_true(counted >= 30);
    assert_true(squares / counted < 0.08 * 0.08);
}

/* A row of docs/planning.md as the predictions of today have it. */
static void every_error_is_documented(void **state)
{
    (void)state;
    char *docs = fs_read("docs/planning.md", 1 << 20, NULL, NULL);
    assert_non_null(docs);
    for (size_t i = 0; i < COUNT(published); i++) {
        const struct published *row = &published[i];
        double seconds = predict(row).step.total;
        char *line = str_printf("| %s | %s | %.3g | %.3g | %+.0f %% |", row->device, row->name, row->seconds,
                                seconds, 100 * (seconds / row->seconds - 1));
        if (!strstr(docs, line))
            fail_msg("docs/planning.md lacks the row\n%s", line);
        free(line);
    }
    free(docs);
}

/* ---- how a plan hangs together ---- */

static void the_step_is_the_sum_of_its_parts(void **state)
{
    (void)state;
    struct plan p =
        plan_of("preset: llama3-70b", 512, "tp: 4, cp: 2, pp: 4, dp: 16, zero: 1" VP(5), "h100", 1e12);
    const struct steptime *s = &p.step;
    SAME(s->total,
         s->products + s->attention + s->elementwise + s->recompute + s->tp + s->cp + s->ep + s->pp +
             s->bubble + s->dp + s->optimizer + s->jitter,
         1e-9);
    SAME(s->bubble_share, 3.0 / (5 * 32), 1e-12);
    NEAR(p.tokens_per_s, p.step_tokens / s->total, 1e-12);
    NEAR(p.days, 1e12 / p.tokens_per_s / 86400, 1e-12);
    NEAR(p.kwh, p.days * 24 * 512 * 0.7, 1e-9);
    NEAR(p.mfu, p.total_flops / (p.days * 86400) / (512 * 989e12), 1e-9);
    assert_true(p.hfu > p.mfu && p.mfu_full > p.mfu);
    double bytes = 0;
    for (enum job_domain level = 0; level < DOMAIN_COUNT; level++)
        bytes += p.level_bytes[level];
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++)
        bytes -= p.traffic.axis[axis].bytes;
    SAME(bytes, 0, 1);
}

static void tokens_and_watts_may_be_left_out(void **state)
{
    (void)state;
    struct job_spec *spec = spec_of("preset: llama3-8b", 128, 1, "dp: 8, zero: 1");
    struct plan_request request;
    struct plan plan;
    struct err err;
    plan_request_init(spec, device("h100"), &request);
    assert_int_equal(plan_make(&request, &plan, &err), 0);
    SAME(plan.tokens, 10.0 * 128 * 8192, 0);
    SAME(plan.steps, 10, 1e-12);
    SAME(plan.watts, 700, 0);
    double kwh = plan.kwh;
    request.watts = 1400;
    assert_int_equal(plan_make(&request, &plan, &err), 0);
    NEAR(plan.kwh, 2 * kwh, 1e-12);
    job_spec_free(spec);
}

/* Doing less hidden work or having faster links never makes a step longer. */
static void better_links_are_never_slower(void **state)
{
    (void)state;
    struct job_spec *spec = spec_of("preset: llama3-70b", 512, 1, "tp: 8, cp: 2, pp: 4, dp: 4, zero: 1");
    struct plan_request request;
    struct plan slow, fast;
    struct err err;
    plan_request_init(spec, device("h100"), &request);
    assert_int_equal(plan_make(&request, &slow, &err), 0);
    for (enum job_domain level = 0; level < DOMAIN_COUNT; level++)
        request.links[level].bytes_per_s *= 2;
    assert_int_equal(plan_make(&request, &fast, &err), 0);
    assert_true(fast.step.total < slow.step.total && fast.step.tp < slow.step.tp);
    request.level[AXIS_TP] = DOMAIN_CLUSTER; /* TP over the network */
    assert_int_equal(plan_make(&request, &slow, &err), 0);
    assert_true(slow.step.tp > 5 * fast.step.tp);
    job_spec_free(spec);
}

static void schedules_shorten_the_bubble(void **state)
{
    (void)state;
    struct plan plain = plan_of("preset: llama3-70b", 32, "tp: 8, pp: 4", "h100", 0);
    struct plan pieces = plan_of("preset: llama3-70b", 32, "tp: 8, pp: 4" VP(4), "h100", 0);
    struct plan zero = plan_of("preset: llama3-70b", 32, "tp: 8, pp: 4, schedule: zero-bubble", "h100", 0);
    NEAR(pieces.step.bubble, plain.step.bubble / 4, 1e-9);
    NEAR(zero.step.bubble, plain.step.bubble / 3, 1e-9);
    assert_true(pieces.memory.activations > plain.memory.activations);
}

/* Passes and bubble of tp 8, in units of one micro-batch's passes through one rank. */
static void a_bubble_is_what_nobody_can_fill(void **state)
{
    (void)state;
    static const struct {
        const char *model, *parallel;
        int64_t global;
        double share;
    } rows[] = {
        {"preset: llama3-70b", "tp: 8, pp: 8", 32, 7.0 / 32},
        {"preset: llama3-70b", "tp: 8, pp: 8", 2,
         7.0 / 2}, /* less than the ranks: they wait for each other */
        {"preset: llama3-70b", "tp: 8, pp: 8" VP(5), 32, 7.0 / (5 * 32)},
        /* one micro-batch goes through all the model, however it is cut */
        {"preset: llama3-70b", "tp: 8, pp: 8" VP(5), 1, 7},
        {"preset: llama3-70b", "tp: 8, pp: 8" VP(5), 4, (7 + 4.0 * 4) / (5 * 4)},
        /* the last 4 of 12 come around after a whole turn of 8 */
        {"preset: llama3-70b", "tp: 8, pp: 8" VP(5), 12, (7 + 4.0 * 4) / (5 * 12)},
        /* pieces of 4, 3 and 3 blocks go at the pace of 4 */
        {"preset: llama3-70b", "tp: 8, pp: 8" VP(3), 32, (1 + 7.0 / (3 * 32)) * 1.2 - 1},
        {"preset: llama3-70b", "tp: 8, pp: 8, schedule: zero-bubble", 8, 7.0 / (3 * 8)},
        /* p forward, p back and a gradient of weights, each a third */
        {"preset: llama3-70b", "tp: 8, pp: 8, schedule: zero-bubble", 1, 17.0 / 3 - 1},
        {"preset: llama3-70b", "tp: 8, schedule: zero-bubble", 1, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct plan p = plan_of(rows[i].model, rows[i].global, rows[i].parallel, "h100", 0);
        if (fabs(p.step.bubble_share - rows[i].share) > 1e-9)
            fail_msg("row %zu: %.6f instead of %.6f", i, p.step.bubble_share, rows[i].share);
    }
}

/* 64 scatters and a gather instead of one each, but every micro-batch hides its own. */
static void sharded_gradients_hide_behind_their_micro_batch(void **state)
{
    (void)state;
    struct plan whole = plan_of("preset: llama3-8b", 4096, "dp: 64, zero: 1", "h100", 0);
    struct plan cut = plan_of("preset: llama3-8b", 4096, "dp: 64, zero: 2", "h100", 0);
    NEAR(cut.traffic.axis[AXIS_DP].bytes, 32.5 * whole.traffic.axis[AXIS_DP].bytes, 1e-12);
    assert_true(cut.step.dp > whole.step.dp && cut.step.dp <= 32.5 * whole.step.dp * (1 + 1e-9));
    assert_true(cut.step.total > whole.step.total && cut.memory.total < whole.memory.total);
}

/* 8 heads of keys and values are on each of 64 ranks once, so 8 times as a whole. */
static void heads_that_are_copied_take_their_room(void **state)
{
    (void)state;
    struct plan p = plan_of("preset: llama3-70b", 64, "tp: 64", "h100", 0);
    double room = 64 * (80e9 - 3e9) - 2 * (double)p.params.total;
    SAME(p.kv_sequences, floor(room / (8 * p.kv_cache)), 0);
}

static void days_at_an_mfu_are_those_of_the_formula(void **state)
{
    (void)state;
    struct job_spec *spec = spec_of("preset: llama3-70b", 1024, 1, "tp: 8, dp: 128, zero: 1");
    struct plan_request request;
    struct plan plan;
    struct err err;
    plan_request_init(spec, device("h100"), &request);
    request.tokens = 15e12;
    request.mfu = 0.5;
    assert_int_equal(plan_make(&request, &plan, &err), 0);
    SAME(plan.days_at_mfu, 6 * 70553706496.0 * 15e12 / (1024 * 989e12 * 0.5) / 86400, 1e-9);
    job_spec_free(spec);
}

static void the_least_change_that_helps_is_found(void **state)
{
    (void)state;
    static const struct {
        const char *model, *parallel, *gpu;
        bool any;
        int64_t zero;
        enum job_recompute recompute;
    } rows[] = {
        {"preset: llama3-8b", "dp: 8, zero: 1", "h100", true, 2, RECOMPUTE_NONE},
        {"preset: llama3-8b", "dp: 8, zero: 3", "a100-40g", true, 3, RECOMPUTE_FULL},
        {"preset: llama3-405b", "dp: 8, zero: 1", "h100", false, 0, RECOMPUTE_NONE},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct job_spec *spec = spec_of(rows[i].model, 8, 1, rows[i].parallel);
        struct plan_request request;
        struct plan plan;
        struct err err;
        int64_t zero;
        enum job_recompute how;
        plan_request_init(spec, device(rows[i].gpu), &request);
        assert_int_equal(plan_make(&request, &plan, &err), 0);
        assert_false(plan.fits);
        bool any = plan_remedy(&request, &plan, &zero, &how);
        if (any != rows[i].any || (any && (zero != rows[i].zero || how != rows[i].recompute)))
            fail_msg("row %zu: zero %d, recompute %d", i, (int)zero, (int)how);
        job_spec_free(spec);
    }
}

static void what_does_not_divide_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *model, *parallel, *says;
    } rows[] = {
        {"preset: gpt2-124m", "tp: 8", "tp 8 does not divide the 12 heads"},
        {"arch: llama, layers: 2, hidden: 64, heads: 8, ffn: 100, context: 16", "tp: 8",
         "does not divide ffn 100"},
        {"preset: gpt2-124m", "pp: 13", "pp 13 is more than the 12 layers"},
        {"preset: gpt2-124m", "pp: 4, schedule: interleaved, virtual_stages: 4",
         "use virtual_stages: 3 or fewer"},
        {"preset: gpt2-124m", "cp: 3", "cp 3 does not divide the context of 1024 tokens"},
        {"preset: llama-tiny, experts: 6", "dp: 8, ep: 4", "ep 4 does not divide the 6 experts"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct job_spec *spec = spec_of(rows[i].model, 8, 1, rows[i].parallel);
        struct plan_request request;
        struct plan plan;
        struct err err = {""};
        plan_request_init(spec, device("h100"), &request);
        assert_int_equal(plan_make(&request, &plan, &err), -1);
        if (!strstr(err.text, rows[i].says))
            fail_msg("\"%s\" instead of \"%s\"", err.text, rows[i].says);
        job_spec_free(spec);
    }
}

static void programs_of_others_have_no_plan(void **state)
{
    (void)state;
    struct job_spec *spec = spec_parse("name: r\nrun: {command: [x], ranks: 2}\n");
    struct plan_request request;
    struct plan plan;
    struct err err = {""};
    plan_request_init(spec, device("h100"), &request);
    assert_int_equal(plan_make(&request, &plan, &err), -1);
    assert_non_null(strstr(err.text, "job r runs a program of its own"));
    job_spec_free(spec);
}

static void memory_of_every_stage_is_there(void **state)
{
    (void)state;
    struct plan p = plan_of("preset: llama3-8b", 64, "dp: 64, zero: 1", "h100", 0);
    SAME(p.memory_total[1][RECOMPUTE_NONE], p.memory.total, 0);
    assert_true(p.memory_total[0][RECOMPUTE_NONE] > p.memory_total[1][RECOMPUTE_NONE]);
    assert_true(p.memory_total[1][RECOMPUTE_NONE] > p.memory_total[2][RECOMPUTE_NONE]);
    assert_true(p.memory_total[2][RECOMPUTE_NONE] > p.memory_total[3][RECOMPUTE_NONE]);
    assert_true(p.memory_total[0][RECOMPUTE_FULL] < p.memory_total[0][RECOMPUTE_SELECTIVE]);
    assert_false(plan_of("preset: llama3-8b", 64, "dp: 64", "h100", 0).fits);
    /* (80 GB - 3 GB of reserve - 16.06 GB of weights) / 1 GiB a sequence of 8,192 tokens */
    SAME(p.kv_sequences, 56, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seventy_billion_take_144_days),
        cmocka_unit_test(eight_gpus_hold_40_billion),
        cmocka_unit_test(saves_are_planned_from_the_copy_and_the_nodes),
        cmocka_unit_test(llama_405b_comes_near_its_published_mfu),
        cmocka_unit_test(runs_come_within_15_percent),
        cmocka_unit_test(every_error_is_documented),
        cmocka_unit_test(the_step_is_the_sum_of_its_parts),
        cmocka_unit_test(tokens_and_watts_may_be_left_out),
        cmocka_unit_test(better_links_are_never_slower),
        cmocka_unit_test(schedules_shorten_the_bubble),
        cmocka_unit_test(what_does_not_divide_is_refused),
        cmocka_unit_test(programs_of_others_have_no_plan),
        cmocka_unit_test(memory_of_every_stage_is_there),
        cmocka_unit_test(a_bubble_is_what_nobody_can_fill),
        cmocka_unit_test(heads_that_are_copied_take_their_room),
        cmocka_unit_test(sharded_gradients_hide_behind_their_micro_batch),
        cmocka_unit_test(days_at_an_mfu_are_those_of_the_formula),
        cmocka_unit_test(the_least_change_that_helps_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
