/* Links: levels without a placement, what rings get out of a tree of links, and the arithmetic of exchanging gradients. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "planner/fabric.h"
#include "tests/unit/planner/spec.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static const struct plan_device *h100(void)
{
    struct err err;
    return plan_device_find("h100", &err);
}

static void axes_get_the_smallest_level_that_holds_them(void **state)
{
    (void)state;
    static const struct {
        const char *parallel;
        enum job_domain tp, cp, ep, pp, dp;
    } rows[] = {
        {"tp: 8, pp: 16, dp: 64", DOMAIN_NODE, DOMAIN_NODE, DOMAIN_NODE, DOMAIN_POD, DOMAIN_CLUSTER},
        {"tp: 4, cp: 2, pp: 2, dp: 2", DOMAIN_NODE, DOMAIN_NODE, DOMAIN_NODE, DOMAIN_RACK, DOMAIN_POD},
        {"tp: 8, cp: 2, dp: 2", DOMAIN_NODE, DOMAIN_RACK, DOMAIN_NODE, DOMAIN_RACK, DOMAIN_POD},
        {"dp: 8", DOMAIN_NODE, DOMAIN_NODE, DOMAIN_NODE, DOMAIN_NODE, DOMAIN_NODE},
        {"tp: 2, dp: 64, ep: 4", DOMAIN_NODE, DOMAIN_NODE, DOMAIN_NODE, DOMAIN_NODE, DOMAIN_POD},
        {"tp: 2, pp: 4, dp: 64, ep: 4", DOMAIN_NODE, DOMAIN_NODE, DOMAIN_NODE, DOMAIN_POD, DOMAIN_POD},
        {"pp: 2, cp: 2, dp: 8, ep: 8", DOMAIN_NODE, DOMAIN_NODE, DOMAIN_NODE, DOMAIN_RACK, DOMAIN_POD},
        {"tp: 16, dp: 2", DOMAIN_RACK, DOMAIN_RACK, DOMAIN_NODE, DOMAIN_RACK, DOMAIN_POD},
    };
    struct fabric f;
    fabric_default(h100(), &f);
    for (size_t i = 0; i < COUNT(rows); i++) {
        bool mixed = strstr(rows[i].parallel, "ep:") != NULL;
        struct job_spec *spec =
            spec_of(mixed ? "preset: llama3-8b, experts: 8" : "preset: llama3-8b", 64, 1, rows[i].parallel);
        enum job_domain level[AXIS_COUNT];
        fabric_levels(spec, f.devices, level);
        bool same = level[AXIS_TP] == rows[i].tp && level[AXIS_CP] == rows[i].cp &&
                    level[AXIS_PP] == rows[i].pp && level[AXIS_DP] == rows[i].dp &&
                    (!mixed || level[AXIS_EP] == rows[i].ep);
        if (!same)
            fail_msg("%s: TP %s CP %s EP %s PP %s DP %s", rows[i].parallel, job_domain_name(level[AXIS_TP]),
                     job_domain_name(level[AXIS_CP]), job_domain_name(level[AXIS_EP]),
                     job_domain_name(level[AXIS_PP]), job_domain_name(level[AXIS_DP]));
        job_spec_free(spec);
    }
}

static double ring(const char *parallel, const struct fabric *f, enum axis axis, enum job_domain level)
{
    const char *model = strstr(parallel, "ep:") ? "preset: llama3-8b, experts: 8" : "preset: llama3-8b";
    struct job_spec *spec = spec_of(model, 6144, 1, parallel);
    double rate = fabric_ring(f, spec, axis, level).bytes_per_s;
    job_spec_free(spec);
    return rate;
}

/* 8 replicas in a node leave it over 8 NICs; one replica a node over one; a ring over pods crosses each border once. */
static void members_share_the_way_out(void **state)
{
    (void)state;
    struct fabric f;
    const struct plan_device *d = h100();
    fabric_default(d, &f);
    f.links[DOMAIN_CLUSTER].bytes_per_s = 50e9 / 7; /* oversubscribed */
    double nvlink = 450e9 * d->nvlink_share, nic = 50e9 * d->network_share;
    NEAR(ring("dp: 8", &f, AXIS_DP, DOMAIN_NODE), nvlink, 1e-12);
    NEAR(ring("dp: 64", &f, AXIS_DP, DOMAIN_POD), 8 * nic < nvlink ? 8 * nic : nvlink, 1e-12);
    NEAR(ring("tp: 8, dp: 64", &f, AXIS_DP, DOMAIN_POD), nic, 1e-12);
    NEAR(ring("tp: 4, dp: 64", &f, AXIS_DP, DOMAIN_POD), 2 * nic, 1e-12);
    /* those that share experts stand together, the next ones behind the pipeline */
    NEAR(ring("tp: 2, pp: 4, dp: 64, ep: 4", &f, AXIS_DP, DOMAIN_POD), 4 * nic, 1e-12);
    NEAR(ring("pp: 2, dp: 64, ep: 2", &f, AXIS_DP, DOMAIN_POD), 4 * nic, 1e-12);
    NEAR(ring("tp: 8, pp: 16, dp: 128", &f, AXIS_DP, DOMAIN_CLUSTER), nic, 1e-12); /* 24 members in a pod */
    NEAR(ring("tp: 8, pp: 384, dp: 2", &f, AXIS_DP, DOMAIN_CLUSTER), nic / 7, 1e-12);
    NEAR(fabric_pairs(&f, DOMAIN_CLUSTER).bytes_per_s, nic / 7, 1e-12);
}

/* 350 GB of gradients over 64 replicas. */
static void a_ring_moves_far_less_than_everyone_to_everyone(void **state)
{
    (void)state;
    SAME(fabric_ring_bytes(64, 350e9) / 1e9, 44100, 1e-6);
    SAME(fabric_naive_bytes(64, 350e9) / 1e9, 1411200, 1e-6);
}

/* About twice the time T of sending the data once, whatever the number of ranks. */
static void a_ring_takes_twice_the_time_of_sending_once(void **state)
{
    (void)state;
    double once = 350e9 / 50e9;
    static const int64_t ranks[] = {16, 64, 1024, 16384};
    for (size_t i = 0; i < COUNT(ranks); i++) {
        double seconds = fabric_ring_seconds(ranks[i], 350e9, 50e9);
        assert_true(seconds < 2 * once && seconds > 1.87 * once);
        NEAR(seconds, 2 * once * (double)(ranks[i] - 1) / (double)ranks[i], 1e-12);
    }
}

static void devices_are_found_or_suggested(void **state)
{
    (void)state;
    struct err err;
    assert_string_equal(plan_device_find("H100", &err)->name, "h100");
    assert_string_equal(plan_device_find("a100", &err)->name, "a100-80g");
    assert_null(plan_device_find("h10", &err));
    assert_non_null(strstr(err.text, "did you mean h100?"));
    assert_null(plan_device_find("v100", &err)); /* another one, not a slip */
    assert_null(strstr(err.text, "did you mean"));
    assert_non_null(strstr(err.text, "known are a100-40g, a100-80g, h100"));
    assert_null(plan_device_find("tpu-v5p", &err));
    assert_non_null(strstr(err.text, "known are a100-40g, a100-80g"));
}

/* The dense figure; 1,979 TFLOP/s is that of sparse matrices. */
static void h100_has_its_dense_peak(void **state)
{
    (void)state;
    SAME(h100()->bf16, 989e12, 0);
    SAME(h100()->memory, 80e9, 0);
    for (size_t i = 0; plan_device_at(i); i++) {
        const struct plan_device *d = plan_device_at(i);
        assert_true(d->bf16 >= d->fp32 && d->gemm > 0.3 && d->gemm < 0.9 && d->nvlink >= d->network);
        assert_true(d->per_nvlink >= d->per_node && d->per_node > 0 && d->watts > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axes_get_the_smallest_level_that_holds_them),
        cmocka_unit_test(members_share_the_way_out),
        cmocka_unit_test(a_ring_moves_far_less_than_everyone_to_everyone),
        cmocka_unit_test(a_ring_takes_twice_the_time_of_sending_once),
        cmocka_unit_test(devices_are_found_or_suggested),
        cmocka_unit_test(h100_has_its_dense_peak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
