/* Search: complete, ranked, and honest about why a mesh loses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "planner/search.h"
#include "tests/unit/planner/spec.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

struct found {
    struct job_spec *spec;
    struct search_result *meshes;
    size_t count;
};

static struct found search(const char *model, int64_t global, const char *parallel, const char *gpu)
{
    struct plan_request base;
    struct err err = {""};
    struct found f = {.spec = spec_of(model, global, 1, parallel)};
    plan_request_init(f.spec, plan_device_find(gpu, &err), &base);
    f.count = plan_search(&base, &f.meshes, &err);
    if (f.count == 0)
        fail_msg("%s", err.text);
    return f;
}

static void done(struct found *f)
{
    free(f->meshes);
    job_spec_free(f->spec);
}

static const struct search_result *mesh(const struct found *f, int64_t tp, int64_t pp, int64_t cp)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->meshes[i].tp == tp && f->meshes[i].pp == pp && f->meshes[i].cp == cp)
            return &f->meshes[i];
    fail_msg("no mesh tp %d pp %d cp %d", (int)tp, (int)pp, (int)cp);
    return NULL;
}

static void every_mesh_is_there_once(void **state)
{
    (void)state;
    struct found f = search("preset: llama-tiny", 64, "dp: 8", "h100");
    size_t expected = 0;
    for (int64_t tp = 1; tp <= 4; tp *= 2) /* 4 heads, 4 layers, 128 tokens */
        for (int64_t cp = 1; cp <= 8; cp *= 2)
            for (int64_t pp = 1; pp <= 4; pp *= 2)
                if (tp * cp * pp <= 8) {
                    assert_int_equal(mesh(&f, tp, pp, cp)->dp, 8 / (tp * cp * pp));
                    expected++;
                }
    assert_int_equal(f.count, expected);
    done(&f);
}

static void the_ranking_holds(void **state)
{
    (void)state;
    struct found f = search("preset: llama3-70b", 256, "dp: 64", "h100");
    for (size_t i = 1; i < f.count; i++) {
        const struct search_result *a = &f.meshes[i - 1], *b = &f.meshes[i];
        assert_true(a->plan.fits || !b->plan.fits);
        if (a->plan.fits && b->plan.fits)
            assert_true(a->plan.step.total <= b->plan.step.total);
        if (!a->plan.fits)
            assert_true(a->plan.memory.total <= b->plan.memory.total);
        assert_true(b->why[0] != '\0');
        assert_int_equal(b->tp * b->pp * b->cp * b->dp, 64);
    }
    assert_string_equal(f.meshes[0].why, "");
    assert_true(f.meshes[0].plan.fits);
    done(&f);
}

/* A variant that is found is what plan_make says of the same job. */
static void results_are_plans(void **state)
{
    (void)state;
    struct found f = search("preset: llama3-70b", 256, "dp: 64", "h100");
    const struct search_result *r = &f.meshes[0];
    char *parallel =
        str_printf("tp: %d, pp: %d, cp: %d, dp: %d, zero: %d%s", (int)r->tp, (int)r->pp, (int)r->cp,
                   (int)r->dp, (int)r->zero, r->virtual_stages > 1 ? ", schedule: interleaved" : "");
    struct job_spec *spec = spec_of("preset: llama3-70b", 256, r->micro, parallel);
    struct plan_request request;
    struct plan plan;
    struct err err;
    spec->virtual_stages = r->virtual_stages;
    spec->train.recompute = r->recompute;
    plan_request_init(spec, plan_device_find("h100", &err), &request);
    assert_int_equal(plan_make(&request, &plan, &err), 0);
    SAME(plan.step.total, r->plan.step.total, 1e-12);
    job_spec_free(spec);
    free(parallel);
    done(&f);
}

/* 4 does not divide 6, so there is no TP 4; and a setting that fits replaces one tried before that does not. */
static void only_what_divides_and_fits_is_taken(void **state)
{
    (void)state;
    struct found f = search("preset: llama-tiny", 66, "dp: 6", "h100");
    for (size_t i = 0; i < f.count; i++)
        assert_int_equal(f.meshes[i].tp * f.meshes[i].pp * f.meshes[i].cp * f.meshes[i].dp, 6);
    done(&f);
    f = search("preset: llama3-8b", 64, "dp: 8", "h100");
    assert_true(mesh(&f, 1, 1, 1)->plan.fits);
    assert_int_equal(mesh(&f, 1, 1, 1)->zero, 2); /* stage 1 needs more than 80 GB without recomputation */
    done(&f);
}

static void losing_has_a_reason(void **state)
{
    (void)state;
    struct found f = search("preset: llama3-405b", 64, "tp: 8, dp: 64", "h100");
    static const struct {
        int64_t tp, pp, cp;
        const char *why;
    } rows[] = {
        {8, 64, 1, "pipeline bubble: "},
        {64, 8, 1, "waits for TP over pod: "},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct search_result *r = mesh(&f, rows[i].tp, rows[i].pp, rows[i].cp);
        if (!strstr(r->why, rows[i].why))
            fail_msg("tp %d pp %d cp %d: \"%s\" instead of \"%s\"", (int)r->tp, (int)r->pp, (int)r->cp,
                     r->why, rows[i].why);
    }
    done(&f);
}

static void too_little_memory_says_how_much(void **state)
{
    (void)state;
    struct found f = search("preset: llama3-70b", 8, "dp: 8", "a100-40g");
    for (size_t i = 0; i < f.count; i++) {
        assert_false(f.meshes[i].plan.fits);
        assert_non_null(strstr(f.meshes[i].why, "does not fit: "));
        assert_non_null(strstr(f.meshes[i].why, " GB of 40, "));
    }
    done(&f);
}

static void experts_get_groups(void **state)
{
    (void)state;
    struct found f = search("preset: llama3-8b, experts: 8, top_k: 2", 64, "dp: 64", "h100");
    assert_true(f.meshes[0].ep > 1); /* 8 experts in every rank do not fit */
    for (size_t i = 0; i < f.count; i++)
        assert_int_equal(f.meshes[i].dp * f.meshes[i].cp % f.meshes[i].ep, 0);
    done(&f);
}

static void a_batch_that_nothing_divides_is_refused(void **state)
{
    (void)state;
    struct job_spec *spec = spec_of("preset: llama-tiny, context: 127", 7, 1, "dp: 7");
    struct search_result *meshes;
    struct plan_request base;
    struct err err = {""};
    spec->train.batch_global = 5;
    plan_request_init(spec, plan_device_find("h100", &err), &base);
    assert_int_equal(plan_search(&base, &meshes, &err), 0);
    assert_null(meshes);
    assert_non_null(strstr(err.text, "no mesh of 7 devices divides a batch of 5 sequences"));
    job_spec_free(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mesh_is_there_once), cmocka_unit_test(the_ranking_holds),
        cmocka_unit_test(results_are_plans),        cmocka_unit_test(only_what_divides_and_fits_is_taken),
        cmocka_unit_test(losing_has_a_reason),      cmocka_unit_test(too_little_memory_says_how_much),
        cmocka_unit_test(experts_get_groups),       cmocka_unit_test(a_batch_that_nothing_divides_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
