/* Memory: figures that were published or measured, each formula with numbers put in by hand, and what each ZeRO stage cuts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "planner/memory.h"
#include "planner/params.h"
#include "tests/unit/planner/spec.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define MIB      1048576.0
#define GIB      1073741824.0

static struct memory memory(struct job_spec *spec, enum job_recompute recompute)
{
    struct memory m;
    memory_with(spec, true, spec->zero, recompute, &m);
    job_spec_free(spec);
    return m;
}

static void gpt3_keeps_9_gib_of_keys_and_values(void **state)
{
    (void)state;
    struct job_spec *spec = spec_of("preset: gpt3-175b", 1, 1, "dp: 1");
    SAME(memory_kv_cache(&spec->train.model, 2048, 2), 9663676416.0, 0);
    job_spec_free(spec);
}

/* Llama 3 8B keeps an eighth of what as many heads of keys and values as of queries would: 128 KiB a token. */
static void grouped_queries_shrink_the_cache(void **state)
{
    (void)state;
    struct job_spec *spec = spec_of("preset: llama3-8b", 1, 1, "dp: 1");
    SAME(memory_kv_cache(&spec->train.model, 1, 2), 2 * 32 * 1024 * 2, 0);
    job_spec_free(spec);
}

static void a_parameter_takes_16_bytes(void **state)
{
    (void)state;
    SAME(memory_per_parameter(PRECISION_BF16), 16, 0);
    SAME(memory_per_parameter(PRECISION_FP32), 16, 0);
}

/* Bytes of one block and token, bf16: GPT 34 x hidden (arXiv 2205.05198, equation 2 without the attention matrix), Llama
 * 12 x hidden + 4 x kv + 4 x ffn. */
static void blocks_leave_the_counted_activations(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        enum job_recompute recompute;
        double bytes;
    } rows[] = {
        {"preset: gpt3-175b", RECOMPUTE_NONE, 34.0 * 12288},
        {"preset: gpt3-175b", RECOMPUTE_SELECTIVE, 20.0 * 12288},
        {"preset: gpt3-175b", RECOMPUTE_FULL, 2.0 * 12288},
        {"preset: llama3-405b", RECOMPUTE_NONE, 12.0 * 16384 + 4 * 1024 + 4 * 53248},
        {"preset: llama3-405b", RECOMPUTE_SELECTIVE, 8.0 * 16384 + 4 * 1024 + 4 * 53248},
        {"preset: llama3-405b", RECOMPUTE_FULL, 2.0 * 16384},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct job_spec *spec = spec_of(rows[i].model, 1, 1, "dp: 1");
        SAME(memory_block_activation(&spec->train.model, rows[i].recompute, 2), rows[i].bytes, 0);
        job_spec_free(spec);
    }
}

/* Bytes of activations of GPT-3's 96 blocks, bf16, one sequence of 2,048 tokens, TP 8: with sequence parallelism 34/8 x hidden a token and
 * block, without it (10 + 24/8) x hidden (arXiv 2205.05198, equations 1 and 2 without the attention matrix). */
static void the_stream_is_whole_without_sequence_parallelism(void **state)
{
    (void)state;
    double token_block = 12288.0 * 96 * 2048;
    struct memory with = memory(spec_of("preset: gpt3-175b", 1, 1, "tp: 8"), RECOMPUTE_NONE);
    struct memory without =
        memory(spec_of("preset: gpt3-175b", 1, 1, "tp: 8, sequence: false"), RECOMPUTE_NONE);
    SAME(with.activations, 34.0 / 8 * token_block, 1e-12);
    SAME(without.activations, 13 * token_block, 1e-12);
    SAME(without.logits, with.logits, 0);
}

/* Zero-bubble keeps gradients until the weight pass: of GPT-3's block 2 x hidden and (3 + 4) x hidden numbers a token, of all four micro-batches
 * in flight on every rank. */
static void weight_passes_keep_gradients(void **state)
{
    (void)state;
    double token_block = 12288.0 * 24 * 2048;
    struct memory plain = memory(spec_of("preset: gpt3-175b", 16, 1, "pp: 4"), RECOMPUTE_NONE);
    struct memory split =
        memory(spec_of("preset: gpt3-175b", 16, 1, "pp: 4, schedule: zero-bubble"), RECOMPUTE_NONE);
    SAME(plain.activations, 4 * 34 * token_block, 1e-12);
    SAME(split.activations, 4 * (34 + 2 * 9) * token_block, 1e-12);
}

/* llm.c prints what it allocates for GPT-2 1558M on 8 GPUs with 16 sequences of 1,024 tokens each and sharded optimizer state: gradients
 * 2,971 MiB, each of the two moments and the master copy 742 MiB, activations 40,409 MiB (those include its logits). */
static void agrees_with_what_llm_c_allocates(void **state)
{
    (void)state;
    struct memory m = memory(spec_of("preset: gpt2-1558m", 128, 16, "dp: 8, zero: 1"), RECOMPUTE_NONE);
    NEAR(m.gradients / MIB, 2971, 0.001);
    NEAR(m.optimizer / MIB, 3 * 742, 0.005);
    NEAR((m.activations + m.logits) / MIB, 40409, 0.2);
}

/* torchtitan (arXiv 2410.06511, tables 1 and 3): Llama 3 8B, FSDP, selective recomputation, 2 sequences a GPU: 77.0 to 82.4 GiB on 8 GPUs
 * and 62.0 to 67.0 GiB on 128. */
static void agrees_with_what_torchtitan_measured(void **state)
{
    (void)state;
    struct memory few = memory(spec_of("preset: llama3-8b", 16, 2, "dp: 8, zero: 3"), RECOMPUTE_SELECTIVE);
    struct memory many =
        memory(spec_of("preset: llama3-8b", 256, 2, "dp: 128, zero: 3"), RECOMPUTE_SELECTIVE);
    NEAR(few.total / GIB, 79, 0.1);
    NEAR(many.total / GIB, 64, 0.1);
}

static void schedules_keep_what_they_must(void **state)
{
    (void)state;
    static const struct {
        const char *parallel;
        int64_t global, stage;
        double in_flight;
    } rows[] = {
        {"pp: 4", 16, 0, 4},
        {"pp: 4", 16, 3, 1},
        {"pp: 4", 2, 0, 2}, /* no more than there are */
        {"pp: 4, schedule: zero-bubble", 16, 1, 4},
        {"pp: 4, schedule: zero-bubble", 16, 3, 4},
        /* 2(4-1) + (3-1)4 + 1 = 15 pieces of a third */
        {"pp: 4, schedule: interleaved, virtual_stages: 3", 16, 0, 5},
        /* 2(4-4) + 9 = 9 of a third on the last rank */
        {"pp: 4, schedule: interleaved, virtual_stages: 3", 16, 3, 3},
        {"pp: 4, schedule: interleaved, virtual_stages: 3", 4, 0, 4},
        {"dp: 4", 16, 0, 1},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct job_spec *spec = spec_of("preset: gpt3-175b", rows[i].global, 1, rows[i].parallel);
        SAME(memory_in_flight(spec, rows[i].stage), rows[i].in_flight, 1e-12);
        job_spec_free(spec);
    }
}

/* Each stage cuts one more part over the 8 replicas, and nothing else changes (but for the blocks that ZeRO-3 gathers). */
static void each_zero_stage_cuts_one_more(void **state)
{
    (void)state;
    struct memory m[4];
    for (int zero = 0; zero < 4; zero++) {
        char *parallel = str_printf("dp: 4, cp: 2, zero: %d", zero);
        m[zero] = memory(spec_of("preset: llama3-8b", 8, 1, parallel), RECOMPUTE_NONE);
        free(parallel);
        NEAR(m[zero].weights, m[0].weights / (zero >= 3 ? 8 : 1), 1e-12);
        NEAR(m[zero].gradients, m[0].gradients / (zero >= 2 ? 8 : 1), 1e-12);
        NEAR(m[zero].fp32_gradients, m[zero].gradients, 1e-12);
        NEAR(m[zero].optimizer, m[0].optimizer / (zero >= 1 ? 8 : 1), 1e-12);
        NEAR(m[zero].activations, m[0].activations, 1e-12);
    }
    SAME(m[0].weights, 2 * 8030261248.0, 0);
    SAME(m[0].gathered, 0, 0);
    assert_true(m[3].gathered > 0);
}

/* What gradients take more in fp32 is told beside the total, which published figures are compared with; in fp32 they are already. */
static void fp32_gradients_are_not_in_the_total(void **state)
{
    (void)state;
    struct job_spec *spec = spec_of("preset: llama3-8b", 8, 1, "dp: 8");
    spec->train.precision = PRECISION_FP32;
    struct memory half = memory(spec_of("preset: llama3-8b", 8, 1, "dp: 8"), RECOMPUTE_NONE);
    struct memory full = memory(spec, RECOMPUTE_NONE);
    SAME(half.fp32_gradients, 2 * 8030261248.0, 0);
    SAME(half.total,
         half.weights + half.gradients + half.optimizer + half.activations + half.logits + half.reserve, 1);
    SAME(full.fp32_gradients, 0, 0);
}

/* A rank writes its part of the parameters, cut over the replicas whatever ZeRO does, each with two moments; how many copies are in its node's memory. */
static void images_are_counted(void **state)
{
    (void)state;
    static const struct {
        int64_t every;
        bool buddy;
        int64_t images;
    } rows[] = {{0, true, 1}, {1, true, 5}, {50, false, 3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job_spec *spec = spec_of("preset: llama3-8b", 8, 1, "dp: 8");
        spec->checkpoint.memory_every = rows[i].every;
        spec->checkpoint.buddy = rows[i].buddy;
        assert_int_equal(memory_n_images(spec), rows[i].images);
        struct memory m = memory(spec, RECOMPUTE_NONE);
        NEAR(m.images, (double)rows[i].images * 12 * 8030261248.0 / 8, 1e-12);
        SAME(m.total, m.weights + m.gradients + m.optimizer + m.activations + m.logits + m.reserve, 1);
    }
}

static void experts_shard_over_fewer(void **state)
{
    (void)state;
    struct job_spec *spec = spec_of("arch: llama, layers: 4, hidden: 64, heads: 4, context: 16, experts: 8",
                                    8, 1, "dp: 8, ep: 4, zero: 1");
    struct params_share s = params_largest_share(spec);
    struct memory m = memory(spec, RECOMPUTE_NONE);
    NEAR(m.optimizer, 12 * (s.dense / 8 + s.expert / 2), 1e-12);
}

static void recomputation_saves_and_works_on_one_block(void **state)
{
    (void)state;
    struct memory none = memory(spec_of("preset: llama3-70b", 8, 1, "tp: 8"), RECOMPUTE_NONE);
    struct memory some = memory(spec_of("preset: llama3-70b", 8, 1, "tp: 8"), RECOMPUTE_SELECTIVE);
    struct memory full = memory(spec_of("preset: llama3-70b", 8, 1, "tp: 8"), RECOMPUTE_FULL);
    assert_true(full.activations < some.activations && some.activations < none.activations);
    SAME(full.activations, 80 * 8192.0 / 8 * 2 * 8192, 0);
    NEAR(full.working, none.activations / 80, 1e-12);
    SAME(none.working, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt3_keeps_9_gib_of_keys_and_values),
        cmocka_unit_test(grouped_queries_shrink_the_cache),
        cmocka_unit_test(a_parameter_takes_16_bytes),
        cmocka_unit_test(blocks_leave_the_counted_activations),
        cmocka_unit_test(the_stream_is_whole_without_sequence_parallelism),
        cmocka_unit_test(weight_passes_keep_gradients),
        cmocka_unit_test(agrees_with_what_llm_c_allocates),
        cmocka_unit_test(agrees_with_what_torchtitan_measured),
        cmocka_unit_test(schedules_keep_what_they_must),
        cmocka_unit_test(each_zero_stage_cuts_one_more),
        cmocka_unit_test(fp32_gradients_are_not_in_the_total),
        cmocka_unit_test(images_are_counted),
        cmocka_unit_test(experts_shard_over_fewer),
        cmocka_unit_test(recomputation_saves_and_works_on_one_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
