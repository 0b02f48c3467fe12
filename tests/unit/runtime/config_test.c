#include "tests/unit/scratch.h"

#include "runtime/config.h"

static char bytes[] = "bytes", directory[] = "ckpt";

static struct job_spec good(void)
{
    struct job_spec s = {.is_train = true, .tp = 1, .pp = 1, .cp = 1, .ep = 1, .dp = 2};
    s.train.tokenizer = bytes;
    s.train.batch_global = 16;
    s.train.batch_micro = 4;
    s.checkpoint.directory = directory;
    return s;
}

static void assert_answer(const struct job_spec *s, int world, int code, const char *says)
{
    struct err err = {""};
    int found = config_check(s, world, &err);
    if (found != code)
        fail_msg("%d instead of %d for \"%s\": %s", found, code, says, err.text);
    assert_contains(err.text, says);
}

static void test_features(void **state)
{
    (void)state;
    struct job_spec s = good();
    assert_answer(&s, 2, 0, "");
#define REFUSED(change, says)                                                                                \
    s = good();                                                                                              \
    change;                                                                                                  \
    assert_answer(&s, 2, 93, says)
    REFUSED(s.is_train = false, "run:");
    REFUSED(s.checkpoint.directory = NULL, "checkpoint.directory");
    REFUSED(s.train.batch_global = 12, "train.batch.global 12");
    REFUSED(s.train.batch_micro = 0, "micro 0");
    REFUSED(s.dp = 1LL << 60, "train.batch.global");
}

static void assert_no_dp(const struct job_spec *s, int world, const char *says)
{
    struct err err = {""};
    assert_int_equal(config_check(s, world, &err), 2);
    assert_contains(err.text, says);
    assert_null(strstr(err.text, "parallel.dp"));
}

static void test_world(void **state)
{
    (void)state;
    struct job_spec s = good();
    assert_answer(&s, 1, 2, "wants 2 ranks (tp 1 x pp 1 x cp 1 x dp 2) but 1 started");
    assert_answer(&s, 4, 2, "mpirun -n 2, or --set parallel.dp=4");
    s.tp = 2;
    assert_answer(&s, 2, 2, "mpirun -n 4, or --set parallel.dp=1");
    assert_no_dp(&s, 3, "mpirun -n 4"); /* no dp makes it 3 ranks */
    s.tp = 1;
    assert_no_dp(&s, 3, "mpirun -n 2"); /* 3 does not divide the batch */
    s.ep = 2;
    assert_no_dp(&s, 1, "mpirun -n 2"); /* experts need two ranks */
    assert_answer(&s, 4, 2, "mpirun -n 2, or --set parallel.dp=4");
    s.ep = 1;
    s.tp = s.pp = s.cp = 2;
    assert_answer(&s, 16, 0, "");
    assert_answer(&s, 2, 2, "wants 16 ranks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_features), cmocka_unit_test(test_world)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
