/* What is tried again, and the pauses in between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "checkpoint/objects_retry.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static const struct objects_limits limits = {.tries = 6, .pause_ms = 100, .longest_ms = 1000};

static const struct {
    long status;
    const char *code;
    bool again;
} answers[] = {
    {500, "InternalError", true},
    {502, "", true},
    {503, "SlowDown", true},
    {503, "", true},
    {504, "", true},
    {429, "", true},
    {408, "", true},
    {400, "RequestTimeout", true},
    {400, "BadDigest", true},
    {400, "XAmzContentSHA256Mismatch", true},
    {400, "IncompleteBody", true},
    {409, "OperationAborted", true},
    {501, "NotImplemented", false},
    {400, "InvalidPart", false},
    {403, "AccessDenied", false},
    {403, "SignatureDoesNotMatch", false},
    {403, "ExpiredToken", false},
    {404, "NoSuchBucket", false},
    {404, "", false},
    {301, "PermanentRedirect", false},
    {416, "InvalidRange", false},
};

static void answers_are_judged(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(answers); i++)
        if (objects_retry_status(answers[i].status, answers[i].code) != answers[i].again)
            fail_msg("%ld %s", answers[i].status, answers[i].code);
}

static void pauses_double_up_to_the_longest(void **state)
{
    (void)state;
    static const int64_t most[] = {100, 200, 400, 800, 1000};
    for (int tried = 1; tried <= 5; tried++) {
        int64_t half = most[tried - 1] / 2;
        assert_int_equal(objects_retry_pause(&limits, tried, 0, 0), half);
        assert_int_equal(objects_retry_pause(&limits, tried, 0, (uint64_t)half), 2 * half);
        for (uint64_t r = 0; r < 5000; r += 7) {
            int64_t pause = objects_retry_pause(&limits, tried, 0, r);
            assert_true(pause >= half && pause <= 2 * half);
        }
    }
}

static void tries_are_bounded(void **state)
{
    (void)state;
    assert_int_equal(objects_retry_pause(&limits, 6, 0, 1), -1);
    assert_int_equal(objects_retry_pause(&limits, 7, 5000, 1), -1);
    assert_int_not_equal(objects_retry_pause(&objects_usual_limits, 1, 0, UINT64_MAX), -1);
    int64_t all = 0;
    for (int tried = 1; objects_retry_pause(&objects_usual_limits, tried, 0, 0) >= 0; tried++)
        all += objects_retry_pause(&objects_usual_limits, tried, 0, 0);
    assert_true(all >= 45000 && all <= 300000); /* an outage of a minute passes */
}

static void what_the_server_asks_for_is_granted_within_reason(void **state)
{
    (void)state;
    assert_int_equal(objects_retry_pause(&limits, 1, 700, 0), 700);
    assert_int_equal(objects_retry_pause(&limits, 5, 10, 0), 500);
    assert_int_equal(objects_retry_pause(&limits, 1, INT64_MAX, 0), 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_judged),
        cmocka_unit_test(pauses_double_up_to_the_longest),
        cmocka_unit_test(tries_are_bounded),
        cmocka_unit_test(what_the_server_asks_for_is_granted_within_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
