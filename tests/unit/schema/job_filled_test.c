/* The reader of job files: good ones, and what it fills in where a file says nothing. */
#include <math.h>

#include "tests/unit/schema/job_text.h"

static void good_files_are_accepted(void **state)
{
    (void)state;
    static const char *const good[] = {
        TRAIN,
        RUN,
        "\xef\xbb\xbf" RUN,
        "%YAML 1.1\n---\n" RUN "...\n",
        "name: \"on\"\nrun: {command: [a]}\n",
        "name: '123'\nrun: {command: [a]}\n",
        "name: 2026-11-29\nrun: {command: [a]}\n",
        "name: 7b-model\nrun: {command: [a]}\n",
        RUN "parallel:\n  # tp: 2\nresources:\n",
        "name: x\nrun: {command: [sleep, 30, 0.5, -1, \"true\"], ranks: 4}\n",
        "name: x\r\nrun: {command: [a]}\r\n",
        "name: x\nrun:\n  command: [sh, -c, \"a\\tb\"]\n",
        "name: x\nrun:\n  command:\n    - sh\n    - -c\n    - |\n      echo\n      \ttab\n",
        RUN "env: {A: 1, B: 2.5, C: \"\", D: \"on\"}\n",
        RUN "notify: {url: \"https://example.org/x?y=1\", on: []}\n",
        TRAIN "  optimizer: {lr: 0, min_lr: 0, clip: 0, betas: [0, 0]}\n",
        MODEL(LLAMA ", kv_heads: 1"),
        MODEL(GPT2 ", kv_heads: 4"),
        MODEL("preset: gpt2-124m"),
        MODEL("preset: llama3-405b"),
        MODEL("preset: mixtral-8x7b"),
        DATA("path: a.bin, tokenizer: tokenizers/gpt2"),
        TRAIN "  precision: bf16\n  recompute: full\n",
        TRAIN "resources: {device: gpu}\n",
        TRAIN "  precision: fp8\nresources: {device: gpu}\n",
        TRAIN "parallel: {tp: 2, pp: 2, cp: 2, dp: 2, zero: 1, schedule: zero-bubble}\n",
        TRAIN "parallel: {pp: 2, stages: [1, 1]}\n",
        MODEL("preset: mixtral-tiny") "parallel: {tp: 2, dp: 4, ep: 4, zero: 3}\n",
        RUN "parallel: {tp: 8, pp: 4, cp: 2, dp: 16, ep: 32, zero: 2, schedule: interleaved}\nresources: "
            "{device: gpu}\n",
    };
    for (size_t i = 0; i < COUNT(good); i++)
        job_spec_free(must_accept(good[i], NULL, 0));
}

static void a_name_may_have_63_bytes(void **state)
{
    (void)state;
    char yaml[128];
    (void)snprintf(yaml, sizeof yaml, "name: %.63s\nrun: {command: [a]}\n", HUNDRED);
    job_spec_free(must_accept(yaml, NULL, 0));
    (void)snprintf(yaml, sizeof yaml, "name: %.64s\nrun: {command: [a]}\n", HUNDRED);
    must_refuse(yaml, strlen(yaml), "(64 bytes)");
}

static void everything_is_filled_in(void **state)
{
    (void)state;
    struct job_spec *s = must_accept(TRAIN "parallel: {dp: 2}\n", NULL, 0);
    assert_true(s->is_train);
    assert_string_equal(s->queue, "default");
    assert_int_equal(s->ranks, 2);
    assert_int_equal(s->dp, 2);
    assert_int_equal(s->train.batch_micro, 4);
    assert_int_equal(s->train.model.kv_heads, 4);
    assert_int_equal(s->train.model.ffn, 256);
    assert_int_equal(s->train.model.vocab, 256);
    assert_string_equal(s->train.tokenizer, "bytes");
    assert_true(fabs(s->train.optimizer.lr - 3e-4) < 1e-12);
    assert_true(fabs(s->train.optimizer.min_lr - 3e-5) < 1e-12);
    assert_true(s->train.optimizer.beta2 == 0.95);
    assert_true(s->train.optimizer.eps == 1e-8);
    assert_int_equal(s->train.seed, 1337);
    assert_string_equal(s->checkpoint.directory, "ckpt-x");
    assert_int_equal(s->checkpoint.every, 50);
    assert_int_equal(s->checkpoint.resume, JOB_RESUME_AUTO);
    assert_int_equal(s->restart.window_ms, 86400000);
    assert_int_equal(s->restart.backoff_ms, 1000);
    assert_int_equal(s->limits.time_ms, 0);
    assert_int_equal(s->limits.grace_ms, 30000);
    assert_int_equal(s->placement.tp.within, DOMAIN_NODE);
    assert_true(s->placement.tp.required);
    assert_int_equal(s->placement.pp.within, DOMAIN_RACK);
    assert_false(s->placement.pp.required);
    assert_int_equal(s->notify_on, NOTIFY_FAILED | NOTIFY_RESTARTED | NOTIFY_COMPLETED);
    assert_null(s->notify_url);
    job_spec_free(s);
}

static void new_parts_are_filled_in(void **state)
{
    (void)state;
    struct job_spec *s = must_accept(TRAIN, NULL, 0);
    assert_true(s->train.model.tied && s->sequence);
    assert_true(s->train.model.norm_eps == 1e-5 && s->train.model.rope_theta == 10000);
    assert_true(s->train.model.dropout == 0 && s->train.model.balance_loss == 0 &&
                s->train.model.router_z_loss == 0);
    assert_int_equal(s->train.n_corpora, 1);
    assert_string_equal(s->train.corpora[0].path, "a.txt");
    assert_true(s->train.corpora[0].weight == 1);
    assert_int_equal(s->train.optimizer.decay, 1);
    assert_int_equal(s->train.eval_sequences, 64);
    assert_int_equal(s->train.guard_action, JOB_GUARD_SKIP);
    assert_true(s->train.guard_factor == 3);
    assert_int_equal(s->train.guard_window, 64);
    assert_int_equal(s->train.guard_patience, 3);
    assert_null(s->train.from);
    assert_int_equal(s->n_stages, 0);
    job_spec_free(s);
    s = must_accept(MODEL("preset: llama3-8b"), NULL, 0);
    assert_true(!s->train.model.tied && s->train.model.rope_theta == 500000);
    job_spec_free(s);
}

static void mixtures_keep_their_order_and_weights(void **state)
{
    (void)state;
    struct job_spec *s = must_accept(DATA("mix: [{path: b, weight: 0.25}, {path: a}]"), NULL, 0);
    assert_int_equal(s->train.n_corpora, 2);
    assert_string_equal(s->train.data_path, "b");
    assert_string_equal(s->train.corpora[0].path, "b");
    assert_true(s->train.corpora[0].weight == 0.25 && s->train.corpora[1].weight == 1);
    job_spec_free(s);
    s = must_accept(DATA("mix: [{path: b, weight: 7}]"), NULL, 0); /* alone it is everything */
    assert_int_equal(s->train.n_corpora, 1);
    assert_true(s->train.corpora[0].weight == 1);
    job_spec_free(s);
}

/* Presets with experts; for planning only, because the runtime has its own list of what it does. */
static void experts_are_filled_in(void **state)
{
    (void)state;
    static const struct {
        const char *yaml;
        int64_t experts, top_k;
        double balance;
    } rows[] = {
        {MODEL("preset: mixtral-8x7b"), 8, 2, 0.01},
        {MODEL("preset: mixtral-tiny"), 4, 2, 0.01},
        {MODEL("preset: mixtral-tiny, top_k: 1, balance_loss: 0.5"), 4, 1, 0.5},
        {MODEL("preset: mixtral-tiny, experts: 1"), 1, 1, 0.01},
        {MODEL("preset: mixtral-tiny, experts: 0"), 0, 0, 0},
        {MODEL(LLAMA ", experts: 16"), 16, 2, 0.01},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        static struct job_diagnostics d;
        struct job_spec *s = NULL;
        if (job_spec_parse_plan(rows[i].yaml, strlen(rows[i].yaml), "f", NULL, 0, &s, &d) < 0)
            fail_msg("%s", d.text[0]);
        assert_int_equal(s->train.model.experts, rows[i].experts);
        assert_int_equal(s->train.model.top_k, rows[i].top_k);
        assert_true(s->train.model.balance_loss == rows[i].balance);
        job_spec_free(s);
    }
}

static void stages_are_dealt(void **state)
{
    (void)state;
    static const struct {
        int64_t layers, pp, pieces, each[12];
    } rows[] = {
        {12, 4, 1, {3, 3, 3, 3}},      {11, 4, 1, {3, 3, 3, 2}},
        {10, 4, 1, {2, 3, 3, 2}},      {9, 4, 1, {2, 3, 2, 2}},
        {7, 2, 3, {1, 1, 2, 1, 1, 1}}, {5, 1, 1, {5}},
        {4, 4, 1, {1, 1, 1, 1}},       {13, 6, 2, {1, 1, 1, 1, 1, 2, 1, 1, 1, 1, 1, 1}},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct job_spec s = {
            .pp = rows[i].pp, .virtual_stages = rows[i].pieces, .train.model.layers = rows[i].layers};
        for (int64_t piece = 0; piece < s.pp * s.virtual_stages; piece++)
            assert_int_equal(job_stage_layers(&s, piece), rows[i].each[piece]);
    }
}

static void run_jobs_are_filled_in(void **state)
{
    (void)state;
    struct job_spec *s =
        must_accept("name: x\nrun: {command: [a, 30, \"b c\"], ranks: 12}\nparallel: {tp: 2, pp: 3}\n"
                    "resources: {memory: 2GB}\nnotify: {url: \"http://a\", on: [completed]}\n",
                    NULL, 0);
    assert_false(s->is_train);
    assert_int_equal(s->ranks, 12);
    assert_int_equal(s->dp, 2);
    assert_string_equal(s->argv[0], "a");
    assert_string_equal(s->argv[1], "30");
    assert_string_equal(s->argv[2], "b c");
    assert_null(s->argv[3]);
    assert_null(s->checkpoint.directory);
    assert_int_equal(s->memory, 2000000000);
    assert_int_equal(s->notify_on, NOTIFY_COMPLETED);
    job_spec_free(s);
    s = must_accept(RUN "parallel: {tp: 2, cp: 3, dp: 5}\n", NULL, 0);
    assert_int_equal(s->ranks, 30);
    job_spec_free(s);
}

static void parameters_are_counted_as_published(void **state)
{
    (void)state;
    static const struct {
        const char *yaml;
        int64_t parameters;
    } rows[] = {
        {MODEL("preset: gpt2-124m"), 124439808},
        {MODEL("preset: gpt2-350m"), 354823168},
        {MODEL("preset: gpt2-774m"), 774030080},
        {MODEL("preset: gpt2-1558m"), 1557611200},
        {MODEL("preset: gpt2-124m, tied: false"), 124439808 + 50257 * 768},
        {MODEL("preset: llama3-8b"), INT64_C(8030261248)},
        {MODEL("preset: llama3-8b, tied: true"), INT64_C(8030261248) - INT64_C(128256) * 4096},
        {MODEL("preset: llama3-70b"), INT64_C(70553706496)},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct job_spec *s = must_accept(rows[i].yaml, NULL, 0);
        assert_int_equal(job_model_parameters(&s->train.model), rows[i].parameters);
        job_spec_free(s);
    }
}

static void what_is_given_wins_over_the_preset(void **state)
{
    (void)state;
    struct job_spec *s =
        must_accept(MODEL("preset: gpt2-124m, hidden: 96, heads: 6, layers: 3, context: 16"), NULL, 0);
    assert_int_equal(s->train.model.hidden, 96);
    assert_int_equal(s->train.model.layers, 3);
    assert_int_equal(s->train.model.heads, 6);
    assert_int_equal(s->train.model.kv_heads, 6);
    assert_int_equal(s->train.model.ffn, 384);
    assert_int_equal(s->train.model.context, 16);
    assert_int_equal(s->train.model.vocab, 50257);
    job_spec_free(s);
}

static void ffn_of_llama_is_rounded_up(void **state)
{
    (void)state;
    struct job_spec *s =
        must_accept(MODEL("arch: llama, layers: 1, hidden: 128, heads: 4, context: 8"), NULL, 0);
    assert_int_equal(s->train.model.ffn, 352);
    job_spec_free(s);
    s = must_accept(MODEL("arch: llama, layers: 1, hidden: 4096, heads: 32, context: 8"), NULL, 0);
    assert_int_equal(s->train.model.ffn, 11008);
    job_spec_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_files_are_accepted),
        cmocka_unit_test(a_name_may_have_63_bytes),
        cmocka_unit_test(everything_is_filled_in),
        cmocka_unit_test(new_parts_are_filled_in),
        cmocka_unit_test(mixtures_keep_their_order_and_weights),
        cmocka_unit_test(experts_are_filled_in),
        cmocka_unit_test(stages_are_dealt),
        cmocka_unit_test(run_jobs_are_filled_in),
        cmocka_unit_test(parameters_are_counted_as_published),
        cmocka_unit_test(what_is_given_wins_over_the_preset),
        cmocka_unit_test(ffn_of_llama_is_rounded_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
