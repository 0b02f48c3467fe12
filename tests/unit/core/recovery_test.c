/* The recovery policy, row by row, and the pauses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/core/recovery.h"

static const struct {
    const char *name;
    struct recovery_facts facts;
    enum job_event event;
    enum recovery_cause cause;
    bool pause;
} rows[] = {
    {"completed, although a cancel came",
     {.outcome = OUTCOME_COMPLETED, .cancel = true},
     JOB_COMPLETE,
     0,
     false},
    {"cancelled while failing",
     {.outcome = OUTCOME_FAILED, .cancel = true, .exit_code = 93},
     JOB_CANCEL_DONE,
     0,
     false},
    {"time limit", {.outcome = OUTCOME_TIME_LIMIT, .hold = true}, JOB_FAIL, 0, false},
    {"exit 93",
     {.outcome = OUTCOME_FAILED, .exit_code = 93, .max = 5, .charged = 1},
     JOB_FAIL,
     RECOVERY_NO_RETRY,
     false},
    {"exit 93 of a node fault",
     {.outcome = OUTCOME_NODE, .exit_code = 93, .begun = true},
     JOB_RETRY,
     0,
     false},
    {"held while failing",
     {.outcome = OUTCOME_FAILED, .hold = true, .exit_code = 1, .charged = 9},
     JOB_HOLD_DONE,
     0,
     false},
    {"first failure",
     {.outcome = OUTCOME_FAILED, .begun = true, .charged = 1, .max = 1, .backoff_ms = 1000},
     JOB_RETRY,
     0,
     true},
    {"one too many",
     {.outcome = OUTCOME_FAILED, .begun = true, .charged = 2, .max = 1},
     JOB_FAIL,
     RECOVERY_BUDGET,
     false},
    {"no restarts wanted",
     {.outcome = OUTCOME_FAILED, .begun = true, .charged = 1},
     JOB_FAIL,
     RECOVERY_BUDGET,
     false},
    {"no progress",
     {.outcome = OUTCOME_FAILED, .charged = 3, .max = 9, .fruitless = 3, .loop = 3, .checkpoints = true},
     JOB_FAIL,
     RECOVERY_NO_PROGRESS,
     false},
    {"three at different steps are chance",
     {.outcome = OUTCOME_FAILED,
      .begun = true,
      .charged = 3,
      .max = 9,
      .fruitless = 9,
      .loop = 2,
      .checkpoints = true,
      .backoff_ms = 1000},
     JOB_RETRY,
     0,
     true},
    {"no progress by nodes",
     {.outcome = OUTCOME_NODE, .fruitless = 10, .checkpoints = true},
     JOB_FAIL,
     RECOVERY_NO_PROGRESS,
     false},
    {"saves nothing",
     {.outcome = OUTCOME_NODE, .begun = true, .fruitless = 9, .node_faults = 1},
     JOB_RETRY,
     0,
     false},
    {"node faults in a row",
     {.outcome = OUTCOME_NODE, .begun = true, .node_faults = 2, .backoff_ms = 1000},
     JOB_RETRY,
     0,
     true},
    {"never began", {.outcome = OUTCOME_NODE, .backoff_ms = 1000}, JOB_WAIT, 0, false},
    {"drained", {.outcome = OUTCOME_DRAINED, .begun = true, .charged = 99}, JOB_RETRY, 0, false},
    {"requeued", {.outcome = OUTCOME_PREEMPTED, .begun = true}, JOB_WAIT, 0, false},
    {"held", {.outcome = OUTCOME_HELD, .begun = true, .hold = true}, JOB_HOLD_DONE, 0, false},
    {"hold taken back", {.outcome = OUTCOME_HELD, .begun = true}, JOB_RETRY, 0, false},
};

static void test_decisions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct recovery_decision d = recovery_decide(&rows[i].facts);
        if (d.event != rows[i].event || d.cause != rows[i].cause || (d.delay_ms > 0) != rows[i].pause)
            fail_msg("%s: event %d, cause %d, pause %lld", rows[i].name, d.event, d.cause,
                     (long long)d.delay_ms);
    }
}

static void test_pauses_double_up_to_five_minutes(void **state)
{
    (void)state;
    for (uint64_t jitter = 0; jitter < 1000; jitter++)
        for (int64_t n = 1, base = 1000; n<80; n++, base = base * 2> 300000 ? 300000 : base * 2) {
            int64_t pause = recovery_pause(1000, n, jitter);
            assert_true(pause >= base && pause <= base + base / 10);
            assert_int_equal(pause, recovery_pause(1000, n, jitter));
        }
    assert_int_equal(recovery_pause(0, 5, 3), 0);
    assert_int_not_equal(recovery_pause(10000, 1, 1), recovery_pause(10000, 1, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decisions),
        cmocka_unit_test(test_pauses_double_up_to_five_minutes),
    };
    return cmocka_run_group_tests_name("core recovery", tests, NULL, NULL);
}
