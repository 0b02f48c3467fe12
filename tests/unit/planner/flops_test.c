/* FLOPs: against counts that others published for the same models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "planner/flops.h"
#include "planner/params.h"
#include "tests/unit/planner/spec.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static struct flops flops(const char *model, enum job_recompute recompute)
{
    struct job_spec *spec = spec_of(model, 1, 1, "dp: 1");
    struct flops f;
    flops_count(&spec->train.model, recompute, &f);
    job_spec_free(spec);
    return f;
}

/* NVIDIA's dgxc-benchmarking prints FLOPs per sequence with full attention; its 405B has 16 groups of keys and values. */
static void sequences_cost_what_nvidia_prints(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        double tokens, published;
    } rows[] = {
        {"preset: llama3-8b", 8192, 4.74e14},
        {"preset: llama3-70b", 8192, 3.94e15},
        {"preset: llama3-405b, kv_heads: 16", 8192, 2.17e16},
        {"preset: gpt3-175b", 2048, 2.20e15},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct flops f = flops(rows[i].model, RECOMPUTE_NONE);
        NEAR(f.model_full * rows[i].tokens, rows[i].published, 0.005);
    }
}

/* Korthikanti et al., equation 7: 72 B L s h^2 (1 + s/(6h) + v/(12hL)). */
static void gpt_costs_what_megatron_counts(void **state)
{
    (void)state;
    double l = 96, s = 2048, h = 12288, v = 50257;
    struct flops f = flops("preset: gpt3-175b", RECOMPUTE_NONE);
    NEAR(f.model_full, 72 * l * h * h * (1 + s / (6 * h) + v / (12 * h * l)), 1e-12);
}

/* The same paper's hardware FLOPs with full recomputation: 4/3 of the blocks; the head is not computed again. */
static void recomputation_adds_a_forward_pass(void **state)
{
    (void)state;
    struct flops none = flops("preset: gpt3-175b", RECOMPUTE_NONE),
                 full = flops("preset: gpt3-175b", RECOMPUTE_FULL);
    SAME(none.model, full.model, 0);
    NEAR(full.hardware - none.hardware, (none.blocks + none.attention_causal) / 3, 1e-9);
    NEAR(none.hardware - none.model, none.attention_causal / 6, 1e-6);
}

/* 6 N counts tables that are only looked up, and no attention: within a few percent for large models. */
static void six_n_is_near(void **state)
{
    (void)state;
    struct flops f = flops("preset: llama3-405b", RECOMPUTE_NONE);
    SAME(f.six_n, 6 * 405853388800.0, 0);
    NEAR(f.model, f.six_n, 0.04);
}

static void experts_cost_only_those_used(void **state)
{
    (void)state;
    static const char dense[] = "arch: llama, layers: 2, hidden: 64, heads: 4, ffn: 192, context: 16";
    static const char mixed[] =
        "arch: llama, layers: 2, hidden: 64, heads: 4, ffn: 96, context: 16, experts: 8, top_k: 2";
    struct flops a = flops(dense, RECOMPUTE_NONE), b = flops(mixed, RECOMPUTE_NONE);
    SAME(b.blocks - a.blocks, 6 * 2 * 8 * 64, 0); /* the routers */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_cost_what_nvidia_prints), cmocka_unit_test(gpt_costs_what_megatron_counts),
        cmocka_unit_test(recomputation_adds_a_forward_pass), cmocka_unit_test(six_n_is_near),
        cmocka_unit_test(experts_cost_only_those_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
