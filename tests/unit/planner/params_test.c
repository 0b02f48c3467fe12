/* Parameters: the published counts, that the parts add up, and that the shares of all devices together are the model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "planner/params.h"
#include "tests/unit/planner/spec.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static struct params count(const char *model)
{
    struct job_spec *spec = spec_of(model, 1, 1, "dp: 1");
    struct params p;
    params_count(&spec->train.model, &p);
    job_spec_free(spec);
    return p;
}

static void gpt3_has_the_published_parts(void **state)
{
    (void)state;
    struct params p = count("arch: gpt2, layers: 96, hidden: 12288, heads: 96, vocab: 50257, context: 2048");
    NEAR((double)p.embedding, 617.6e6, 1e-4);
    NEAR((double)p.positions, 25.2e6, 2e-3);
    NEAR((double)p.attention_block, 604e6, 1e-3);
    NEAR((double)p.ffn_block, 1208e6, 1e-3);
    NEAR((double)p.total, 175e9, 3e-3);
    NEAR((double)p.total * 2, 350e9, 3e-3);
}

static void totals_are_published(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        int64_t total, active;
    } rows[] = {
        {"preset: gpt2-124m", 124439808, 124439808},
        {"preset: gpt2-1558m", 1557611200, 1557611200},
        {"preset: llama3-8b", INT64_C(8030261248), INT64_C(8030261248)},
        {"preset: llama3-70b", INT64_C(70553706496), INT64_C(70553706496)},
        {"preset: llama3-405b", INT64_C(405853388800), INT64_C(405853388800)},
        /* Mixtral 8x7B: 46.7B, of which 12.9B are active (arXiv 2401.04088) */
        {"preset: mixtral-8x7b", INT64_C(46702792704), INT64_C(12879925248)},
        {"preset: mixtral-8x7b, tied: true", INT64_C(46702792704) - INT64_C(32000) * 4096,
         INT64_C(12879925248) - INT64_C(32000) * 4096},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct params p = count(rows[i].model);
        assert_int_equal(p.total, rows[i].total);
        assert_int_equal(p.active, rows[i].active);
        assert_int_equal(p.total,
                         p.embedding + p.positions + p.attention + p.ffn + p.norms + p.router + p.head);
    }
}

static void agrees_with_the_job_file(void **state)
{
    (void)state;
    static const char *const models[] = {
        "preset: gpt2-774m",
        "preset: llama-tiny",
        "preset: llama3-70b",
        "preset: llama3-8b, tied: true",
        "preset: gpt2-124m, tied: false",
        "arch: gpt2, layers: 3, hidden: 96, heads: 6, context: 16, experts: 4, top_k: 2",
        "arch: llama, layers: 3, hidden: 96, heads: 6, kv_heads: 2, context: 16, experts: 4"};
    for (size_t i = 0; i < COUNT(models); i++) {
        struct job_spec *spec = spec_of(models[i], 1, 1, "dp: 1");
        struct params p;
        params_count(&spec->train.model, &p);
        assert_int_equal(p.total, job_model_parameters(&spec->train.model));
        job_spec_free(spec);
    }
}

static void blocks_are_dealt_evenly(void **state)
{
    (void)state;
    static const struct {
        int64_t layers, pp, pieces, first, mid, last, most, piece;
    } rows[] = {
        {126, 16, 1, 7, 8, 7, 8, 8},   {126, 16, 8, 7, 8, 7, 8, 1}, {96, 8, 1, 12, 12, 12, 12, 12},
        {96, 8, 3, 12, 12, 12, 12, 4}, {80, 16, 1, 5, 5, 5, 5, 5},  {95, 8, 1, 12, 12, 11, 12, 12},
        {95, 8, 6, 12, 12, 11, 12, 2}, {7, 2, 1, 4, 4, 3, 4, 4},    {10, 2, 3, 5, 5, 5, 5, 2},
        {13, 4, 2, 3, 4, 3, 4, 2},     {5, 1, 1, 5, 5, 5, 5, 5},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct job_spec spec = {
            .pp = rows[i].pp, .virtual_stages = rows[i].pieces, .train.model.layers = rows[i].layers};
        struct params_stages s = params_stages(&spec);
        assert_int_equal(s.first, rows[i].first);
        assert_int_equal(s.mid, rows[i].mid);
        assert_int_equal(s.last, rows[i].last);
        assert_int_equal(s.most, rows[i].most);
        assert_int_equal(s.piece, rows[i].piece);
    }
}

/* The job file's own word on stages: 2 ranks of 2 pieces. */
static void blocks_are_dealt_as_the_job_says(void **state)
{
    (void)state;
    int64_t stages[] = {1, 5, 2, 1};
    struct job_spec spec = {
        .pp = 2, .virtual_stages = 2, .train.model.layers = 9, .stages = stages, .n_stages = COUNT(stages)};
    struct params_stages s = params_stages(&spec);
    assert_int_equal(s.first, 3);
    assert_int_equal(s.last, 6);
    assert_int_equal(s.most, 6);
    assert_int_equal(s.piece, 5);
}

static void shares_add_up_to_the_model(void **state)
{
    (void)state;
    struct job_spec *one = spec_of("preset: llama3-70b", 64, 1, "dp: 1");
    struct job_spec *many = spec_of("preset: llama3-70b", 64, 1, "tp: 8, pp: 4, dp: 2");
    struct params p;
    params_count(&one->train.model, &p);
    SAME(params_share(one, PLACE_MID).dense, (double)p.total, 0);
    double sum = params_share(many, PLACE_FIRST).dense + 2 * params_share(many, PLACE_MID).dense +
                 params_share(many, PLACE_LAST).dense;
    double copies = 7 * (double)p.norms; /* norms are on every rank of TP */
    SAME(8 * sum, (double)p.total + copies, 1);
    job_spec_free(one);
    job_spec_free(many);
}

static void experts_are_cut_over_ep(void **state)
{
    (void)state;
    static const char model[] = "arch: llama, layers: 4, hidden: 64, heads: 4, context: 16, experts: 8";
    struct job_spec *spec = spec_of(model, 8, 1, "dp: 8, ep: 4");
    struct params p;
    params_count(&spec->train.model, &p);
    struct params_share s = params_largest_share(spec);
    SAME(s.expert, (double)p.ffn / 4, 0);
    SAME(s.dense, (double)(p.total - p.ffn), 0);
    job_spec_free(spec);
}

static void a_perceptron_is_counted(void **state)
{
    (void)state;
    static const int64_t widths[] = {784, 16, 16, 10};
    assert_int_equal(params_perceptron(widths, COUNT(widths)), 13002);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt3_has_the_published_parts),     cmocka_unit_test(totals_are_published),
        cmocka_unit_test(agrees_with_the_job_file),         cmocka_unit_test(blocks_are_dealt_evenly),
        cmocka_unit_test(blocks_are_dealt_as_the_job_says), cmocka_unit_test(shares_add_up_to_the_model),
        cmocka_unit_test(experts_are_cut_over_ep),          cmocka_unit_test(a_perceptron_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
