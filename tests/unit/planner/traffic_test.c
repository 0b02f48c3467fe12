/* Traffic: each axis against its formula with numbers put in by hand, the order of the axes, the groups, and seconds over a link. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "planner/params.h"
#include "planner/traffic.h"
#include "tests/unit/planner/spec.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* 4 blocks, 64 wide, 4 heads of 16 with 2 of keys and values, 32 tokens, bf16 */
#define TINY                                                                                                 \
    "arch: llama, tied: true, layers: 4, hidden: 64, heads: 4, kv_heads: 2, ffn: 96, vocab: 128, context: "  \
    "32"

static struct traffic traffic(const char *model, int64_t global, int64_t micro, const char *parallel)
{
    struct job_spec *spec = spec_of(model, global, micro, parallel);
    struct traffic t;
    traffic_of(spec, &t);
    job_spec_free(spec);
    return t;
}

static void each_axis_follows_its_formula(void **state)
{
    (void)state;
    static const struct {
        const char *model, *parallel;
        int64_t global, micro;
        enum axis axis;
        double bytes, messages;
    } rows[] = {
        /* 4 all-reduces x 4 blocks x 2 micro-batches x 2*3/4 x (3*32*64 numbers of 2 bytes) */
        {TINY, "tp: 4", 6, 3, AXIS_TP, 4.0 * 4 * 2 * 1.5 * 3 * 32 * 64 * 2, 4.0 * 4 * 2 * 6},
        /* half of the tokens each */
        {TINY, "tp: 4, cp: 2", 6, 3, AXIS_TP, 4.0 * 4 * 2 * 1.5 * 3 * 16 * 64 * 2, 4.0 * 4 * 2 * 6},
        /* 3 rounds x 4 blocks x 2 micro-batches x 3/4 x (3*32 tokens of 2 heads x 16 keys and as many values) */
        {TINY, "cp: 4", 6, 3, AXIS_CP, 3.0 * 4 * 2 * 0.75 * 3 * 32 * 2 * 32 * 2, 3.0 * 4 * 2 * 3},
        /* one head of keys and values on each rank of TP, and never less */
        {TINY, "cp: 4, tp: 2", 6, 3, AXIS_CP, 3.0 * 4 * 2 * 0.75 * 3 * 32 * 2 * 16 * 2, 3.0 * 4 * 2 * 3},
        {TINY, "cp: 4, tp: 4", 6, 3, AXIS_CP, 3.0 * 4 * 2 * 0.75 * 3 * 32 * 2 * 16 * 2, 3.0 * 4 * 2 * 3},
        /* there and back x 6 micro-batches x (32*64 numbers of 2 bytes), in two parts over TP */
        {TINY, "pp: 2, tp: 2", 6, 1, AXIS_PP, 2.0 * 6 * 32 * 64 * 2 / 2, 2.0 * (6 + 1)},
        {TINY, "pp: 2, tp: 2, schedule: interleaved, virtual_stages: 2", 6, 1, AXIS_PP,
         2.0 * 6 * 2 * 32 * 64 * 2 / 2, 2.0 * (12 + 1)},
        /* 4 all-to-alls x 4 blocks x 2 micro-batches x 3/4 x 2 experts a token x (3*32*64 numbers of 2 bytes) */
        {TINY ", experts: 8, top_k: 2", "dp: 4, ep: 4", 24, 3, AXIS_EP,
         4.0 * 4 * 2 * 0.75 * 2 * 3 * 32 * 64 * 2, 4.0 * 4 * 2 * 3},
        /* 131,648 parameters: 128*64 + 4*(2*64*64 + 2*64*32 + 3*64*96 + 2*64) + 64 */
        {TINY, "dp: 4", 4, 1, AXIS_DP, 2 * 0.75 * 131648 * 2, 2.0 * 3},
        {TINY, "dp: 2, cp: 2, zero: 1", 4, 1, AXIS_DP, 2 * 0.75 * 131648 * 2, 2.0 * 3},
        /* ZeRO-2 with 2 micro-batches: a gather and 2 scatters; with one it is as ZeRO-1 */
        {TINY, "dp: 2, cp: 2, zero: 2", 4, 1, AXIS_DP, 3 * 0.75 * 131648 * 2, 3.0 * 3},
        {TINY, "dp: 4, zero: 2", 4, 1, AXIS_DP, 2 * 0.75 * 131648 * 2, 2.0 * 3},
        /* ZeRO-3 with 2 micro-batches: 4 gathers and 2 scatters */
        {TINY, "dp: 4, zero: 3", 8, 1, AXIS_DP, 6 * 0.75 * 131648 * 2, 6.0 * 3},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct traffic t = traffic(rows[i].model, rows[i].global, rows[i].micro, rows[i].parallel);
        if (t.axis[rows[i].axis].bytes != rows[i].bytes || t.axis[rows[i].axis].messages != rows[i].messages)
            fail_msg("row %zu (%s of %s): %.0f bytes, %.0f messages", i, axis_name(rows[i].axis),
                     rows[i].parallel, t.axis[rows[i].axis].bytes, t.axis[rows[i].axis].messages);
    }
}

/* Each of 2 replicas of an expert against 8 of everything else. */
static void experts_have_fewer_replicas(void **state)
{
    (void)state;
    struct job_spec *spec = spec_of(TINY ", experts: 8", 8, 1, "dp: 8, ep: 4");
    struct traffic t;
    traffic_of(spec, &t);
    struct params_share s = params_largest_share(spec);
    SAME(t.axis[AXIS_DP].bytes, 2 * 2 * (s.dense * 7 / 8 + s.expert / 2), 1e-6);
    job_spec_free(spec);
}

static void groups_of_one_send_nothing(void **state)
{
    (void)state;
    struct traffic t = traffic(TINY, 4, 1, "dp: 1");
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
        assert_int_equal(t.axis[axis].size, 1);
        SAME(t.axis[axis].bytes + t.axis[axis].messages, 0, 0);
    }
}

static void bytes_follow_the_precision(void **state)
{
    (void)state;
    struct job_spec *spec = spec_of("preset: llama3-8b", 64, 1, "tp: 2, pp: 2, cp: 2, dp: 2");
    struct traffic half, full;
    traffic_of(spec, &half);
    spec->train.precision = PRECISION_FP32;
    traffic_of(spec, &full);
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++)
        SAME(full.axis[axis].bytes, 2 * half.axis[axis].bytes, 1);
    job_spec_free(spec);
}

/* What the axes of the largest published run send per rank and step decides that TP belongs on the fastest link and DP on the slowest. */
static void the_largest_llama_has_the_usual_order(void **state)
{
    (void)state;
    struct traffic t = traffic("preset: llama3-405b, context: 131072", 128, 1,
                               "tp: 8, cp: 16, pp: 16, dp: 8, zero: 1, schedule: interleaved, "
                               "virtual_stages: 8");
    assert_true(t.axis[AXIS_TP].bytes > 5 * t.axis[AXIS_CP].bytes);
    assert_true(t.axis[AXIS_CP].bytes > t.axis[AXIS_DP].bytes);
    assert_true(t.axis[AXIS_CP].bytes > t.axis[AXIS_PP].bytes);
}

static void any_program_has_the_usual_order(void **state)
{
    (void)state;
    static const enum axis order[] = {AXIS_TP, AXIS_CP, AXIS_EP, AXIS_DP, AXIS_PP};
    static const char *const meshes[] = {"tp: 2, pp: 2, cp: 8, dp: 8, ep: 2",
                                         "tp: 8, pp: 16, cp: 2, dp: 2, ep: 4",
                                         "tp: 2, pp: 512, cp: 2, dp: 2, ep: 2"};
    for (size_t i = 0; i < COUNT(meshes); i++) {
        char *yaml = str_printf("name: r\nrun: {command: [x]}\nparallel: {%s}\n", meshes[i]);
        struct job_spec *spec = spec_parse(yaml);
        struct traffic t;
        traffic_of(spec, &t);
        for (size_t k = 1; k < COUNT(order); k++)
            assert_true(t.axis[order[k - 1]].bytes > t.axis[order[k]].bytes);
        assert_true(t.axis[AXIS_PP].bytes > 0);
        job_spec_free(spec);
        free(yaml);
    }
}

static void a_link_costs_bytes_and_latency(void **state)
{
    (void)state;
    struct axis_traffic t = {.size = 2, .bytes = 3e9, .messages = 1000};
    struct cluster_link link = {.bytes_per_s = 1e9, .latency_s = 1e-3};
    SAME(traffic_seconds(&t, &link), 4, 1e-9);
    t.size = 1;
    SAME(traffic_seconds(&t, &link), 0, 0);
}

/* Group numbers are dense from 0, every group has its size, and two ranks share one exactly when they differ in the axis alone. */
static void groups_cover_all_ranks(void **state)
{
    (void)state;
    struct job_spec *spec = spec_of(TINY ", experts: 4", 12, 1, "tp: 2, pp: 3, cp: 2, dp: 6, ep: 4");
    struct traffic t;
    traffic_of(spec, &t);
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
        int64_t groups = axis_groups(spec, axis);
        int64_t *members = mem_zero((size_t)groups, sizeof *members);
        assert_int_equal(groups * t.axis[axis].size, spec->ranks);
        for (int64_t rank = 0; rank < spec->ranks; rank++) {
            int64_t group = axis_group(spec, axis, rank);
            assert_in_range(group, 0, groups - 1);
            members[group]++;
        }
        for (int64_t group = 0; group < groups; group++)
            assert_int_equal(members[group], t.axis[axis].size);
        free(members);
    }
    job_spec_free(spec);
}

static void groups_differ_in_their_axis_only(void **state)
{
    (void)state;
    struct job_spec *spec = spec_of(TINY ", experts: 4", 12, 1, "tp: 2, pp: 3, cp: 2, dp: 6, ep: 4");
    /* rank = ((dp*3 + pp)*2 + cp)*2 + tp */
    static const struct {
        enum axis axis;
        int64_t a, b;
        bool same;
    } rows[] = {
        {AXIS_TP, 0, 1, true},   {AXIS_TP, 0, 2, false}, {AXIS_CP, 0, 2, true},  {AXIS_CP, 0, 1, false},
        {AXIS_CP, 0, 4, false},  {AXIS_PP, 0, 4, true},  {AXIS_PP, 0, 8, true},  {AXIS_PP, 0, 12, false},
        {AXIS_DP, 0, 12, true},  {AXIS_DP, 0, 2, true},  {AXIS_DP, 0, 60, true}, {AXIS_DP, 0, 4, false},
        {AXIS_EP, 0, 2, true},   {AXIS_EP, 0, 12, true}, {AXIS_EP, 0, 14, true}, {AXIS_EP, 0, 24, false},
        {AXIS_EP, 24, 38, true}, {AXIS_EP, 0, 1, false},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        if ((axis_group(spec, rows[i].axis, rows[i].a) == axis_group(spec, rows[i].axis, rows[i].b)) !=
            rows[i].same)
            fail_msg("%s: ranks %d and %d", axis_name(rows[i].axis), (int)rows[i].a, (int)rows[i].b);
    job_spec_free(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_axis_follows_its_formula),
        cmocka_unit_test(experts_have_fewer_replicas),
        cmocka_unit_test(groups_of_one_send_nothing),
        cmocka_unit_test(bytes_follow_the_precision),
        cmocka_unit_test(the_largest_llama_has_the_usual_order),
        cmocka_unit_test(any_program_has_the_usual_order),
        cmocka_unit_test(a_link_costs_bytes_and_latency),
        cmocka_unit_test(groups_cover_all_ranks),
        cmocka_unit_test(groups_differ_in_their_axis_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
