/* Elastic jobs: a range of dp, which sizes in it are allowed, and what is said of a range that has none. */
#include "common/mem.h"
#include "tests/unit/schema/job_text.h"

#define BATCH(batch, parallel)                                                                               \
    "name: x\ntrain:\n  model: {" GPT2 "}\n  data: {path: a.txt}\n  steps: 10\n  batch: {" batch             \
    "}\nparallel: {" parallel "}\n"
#define EXPERTS(batch, parallel)                                                                             \
    "name: x\ntrain:\n  model: {" LLAMA                                                                      \
    ", experts: 4}\n  data: {path: a.txt}\n  steps: 10\n  batch: {" batch "}\nparallel: {" parallel "}\n"

/* sizes: all that are allowed, largest first. */
static const struct {
    const char *yaml, *range, *sizes;
    int64_t micro;
} ranges[] = {
    {BATCH("global: 8", "dp: 2..8"), "2..8", "8 4 2", 1},
    {BATCH("global: 8", "dp: 2..4"), "2..4", "4 2", 2},
    {BATCH("global: 8", "dp: 3..7"), "3..7", "4", 2},
    {BATCH("global: 12, micro: 1", "dp: 2..8"), "2..8", "6 4 3 2", 1},
    {BATCH("global: 12, micro: 2", "dp: 2..8"), "2..8", "6 3 2", 2},
    {BATCH("global: 12, micro: 1", "dp: 4..4"), "4", "4", 1},
    {BATCH("global: 12, micro: 1", "dp: 6"), "6", "6", 1},
    {BATCH("global: 8, micro: 1", "dp: 1..1000000"), "1..1000000", "8 4 2 1", 1},
    {EXPERTS("global: 12, micro: 1", "ep: 2, dp: 1..12"), "1..12", "12 6 4 2", 1},
    {EXPERTS("global: 12, micro: 1", "ep: 2, cp: 2, dp: 1..6"), "1..6", "6 4 3 2 1", 1},
    {"name: x\ntrain:\n  model: {arch: gpt2, layers: 4, hidden: 64, heads: 4, context: 32}\n"
     "  data: {path: a.txt}\n  steps: 10\n  batch: {global: 16, micro: 1}\n"
     "parallel: {pp: 2, schedule: interleaved, virtual_stages: 2, dp: 2..16}\n",
     "2..16", "8 4 2", 1},
};

static char *sizes_of(const struct job_spec *spec)
{
    char *text = str_dup("");
    for (int64_t dp = job_dp_at_most(spec, INT64_MAX); dp > 0; dp = job_dp_at_most(spec, dp - 1)) {
        char *longer = str_printf("%s%s%lld", text, text[0] ? " " : "", (long long)dp);
        assert_true(job_dp_allowed(spec, dp));
        assert_int_equal(job_dp_at_least(spec, dp), dp);
        free(text);
        text = longer;
    }
    return text;
}

static void check_range(const struct job_spec *spec, size_t i)
{
    char range[JOB_RANGE_SIZE], *sizes = sizes_of(spec);
    assert_string_equal(job_range_print(range, spec), ranges[i].range);
    assert_string_equal(sizes, ranges[i].sizes);
    assert_int_equal(spec->dp, strtoll(sizes, NULL, 10)); /* the largest, until it is placed */
    assert_int_equal(spec->ranks, spec->tp * spec->pp * spec->cp * spec->dp);
    assert_int_equal(spec->train.batch_micro, ranges[i].micro);
    free(sizes);
}

/* Written out it is the same job again, whatever size it has at that time. */
static void ranges_have_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(ranges); i++) {
        struct job_spec *spec = must_accept(ranges[i].yaml, NULL, 0);
        check_range(spec, i);
        job_resize(spec, job_dp_at_least(spec, 1));
        char *yaml = job_spec_to_yaml(spec);
        job_spec_free(spec);
        spec = must_accept(yaml, NULL, 0);
        check_range(spec, i);
        job_spec_free(spec);
        free(yaml);
    }
}

static const struct {
    const char *yaml, *says;
} refused[] = {
    {BATCH("global: 8, micro: 1", "dp: 5..7"),
     "f.yaml:7:16: parallel.dp: none of 5..7 is possible: 8 sequences in micro-batches of 1, ep 1 and the "
     "schedule must come out even; the nearest that would be: 4 and 8"},
    {BATCH("global: 8", "dp: 5..7"), "; the nearest that would be: 4 and 8"},
    {BATCH("global: 8", "dp: 9..20"), "; the nearest that would be: 8"},
    {BATCH("global: 8, micro: 4", "dp: 5..7"), "; the nearest that would be: 2"},
    {EXPERTS("global: 12, micro: 1", "ep: 4, dp: 5..6"), "ep 4 and the schedule must come out even; the "
                                                         "nearest that would be: 4 and 12"},
    {BATCH("global: 8", "dp: 8..2"), "must be a whole number or a range LOW..HIGH, such as 2..8, from 1 to "
                                     "1048576, not \"8..2\""},
    {BATCH("global: 8", "dp: 0..2"), "not \"0..2\""},
    {BATCH("global: 8", "dp: 2..9999999"), "not \"2..9999999\""},
    {BATCH("global: 8", "dp: 2...8"), "not \"2...8\""},
    {BATCH("global: 8", "dp: 2.."), "not \"2..\""},
    {BATCH("global: 8", "dp: ..8"), "not \"..8\""},
    {BATCH("global: 8", "dp: 2 ..8"), "not \"2 ..8\""},
    {BATCH("global: 8", "dp: 11111111111111111111111111111111111111111111..8"), "a range LOW..HIGH"},
    {BATCH("global: 8", "dp: two"), "parallel.dp: must be a whole number from 1 to 1048576, not \"two\""},
    {BATCH("global: 8", "dp: \"2..8\""), "must not be in quotes"},
    {BATCH("global: 8", "tp: 4, dp: 2..1048576"), "more than 1048576 ranks"},
    {RUN "parallel: {dp: 2..4}\n", "f.yaml:3:16: parallel.dp: the range 2..4 is only for train jobs"},
    {"name: x\nrun: {command: [a], ranks: 4}\nparallel: {dp: 2..4}\n", "is only for train jobs"},
    {BATCH("global: 8", "dp: 2..4, regrow: soon"), "parallel.regrow: "},
};

static void bad_ranges_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refused); i++)
        must_refuse(refused[i].yaml, strlen(refused[i].yaml), refused[i].says);
}

static void set_takes_ranges(void **state)
{
    (void)state;
    static const char *const range[] = {"parallel.dp=2..8", "parallel.regrow=30s"}, *const one[] = {
                                                                                        "parallel.dp=4"};
    struct job_spec *spec = must_accept(BATCH("global: 8", "tp: 2"), range, 2);
    assert_true(job_elastic(spec));
    assert_int_equal(spec->dp, 8);
    assert_int_equal(spec->regrow_ms, 30000);
    job_spec_free(spec);
    spec = must_accept(BATCH("global: 8, micro: 1", "dp: 2..8"), one, 1);
    assert_false(job_elastic(spec));
    assert_int_equal(spec->dp, 4);
    assert_int_equal(spec->ranks, 4);
    assert_false(job_dp_allowed(spec, 2));
    job_spec_free(spec);
}

static void nothing_beyond_the_ends(void **state)
{
    (void)state;
    struct job_spec *spec = must_accept(BATCH("global: 12, micro: 1", "dp: 2..4"), NULL, 0);
    assert_int_equal(job_dp_at_most(spec, 1), 0);
    assert_int_equal(job_dp_at_most(spec, -5), 0);
    assert_int_equal(job_dp_at_least(spec, 5), 0);
    assert_int_equal(job_dp_at_least(spec, -5), 2);
    assert_false(job_dp_allowed(spec, 6));
    const struct job_spec small = job_spec_resized(spec, 3);
    assert_int_equal(small.ranks, 3);
    assert_int_equal(spec->ranks, 4);
    job_spec_free(spec);
    spec = must_accept(RUN "parallel: {dp: 3}\n", NULL, 0);
    assert_int_equal(job_dp_at_most(spec, 2), 0);
    assert_int_equal(job_dp_at_most(spec, 3), 3);
    assert_int_equal(job_dp_at_least(spec, 3), 3);
    assert_int_equal(job_dp_at_least(spec, 4), 0);
    job_spec_free(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_have_sizes),
        cmocka_unit_test(bad_ranges_are_refused),
        cmocka_unit_test(set_takes_ranges),
        cmocka_unit_test(nothing_beyond_the_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
