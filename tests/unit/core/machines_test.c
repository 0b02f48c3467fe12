/* Walks the three tables: no pair may be missing, and some pairs are looked at one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/core/machines.h"

static void test_every_pair_is_there(void **state)
{
    (void)state;
    for (int s = 0; s < JOB_STATE_COUNT; s++)
        for (int e = 0; e < JOB_EVENT_COUNT; e++)
            if (machine_job(s, e).action == JOB_ROW_MISSING)
                fail_msg("job: no row for state %s, event %d", job_state_name(s), e);
    for (int s = 0; s < ATTEMPT_STATE_COUNT; s++)
        for (int e = 0; e < ATTEMPT_EVENT_COUNT; e++)
            if (machine_attempt(s, e).action == ATTEMPT_ROW_MISSING)
                fail_msg("attempt: no row for state %s, event %d", attempt_state_name(s), e);
    for (int s = 0; s < NODE_STATE_COUNT; s++)
        for (int e = 0; e < NODE_EVENT_COUNT; e++)
            if (machine_node(s, e).action == NODE_ROW_MISSING)
                fail_msg("node: no row for state %s, event %d", node_state_name(s), e);
}

/* What is ignored or refused changes no state. */
static void test_ignoring_changes_nothing(void **state)
{
    (void)state;
    for (int s = 0; s < JOB_STATE_COUNT; s++)
        for (int e = 0; e < JOB_EVENT_COUNT; e++)
            if (machine_job(s, e).action == JOB_IGNORE || machine_job(s, e).action == JOB_REFUSE)
                assert_int_equal(machine_job(s, e).next, s);
    for (int s = 0; s < ATTEMPT_STATE_COUNT; s++)
        for (int e = 0; e < ATTEMPT_EVENT_COUNT; e++)
            if (machine_attempt(s, e).action == ATTEMPT_IGNORE)
                assert_int_equal(machine_attempt(s, e).next, s);
    for (int s = 0; s < NODE_STATE_COUNT; s++)
        for (int e = 0; e < NODE_EVENT_COUNT; e++)
            if (machine_node(s, e).action == NODE_IGNORE)
                assert_int_equal(machine_node(s, e).next, s);
}

/* A final job is left alone by everything but a requeue. */
static void test_final_states_are_final(void **state)
{
    (void)state;
    for (int s = 0; s < JOB_STATE_COUNT; s++)
        for (int e = 0; e < JOB_EVENT_COUNT; e++)
            if (job_state_final(s) && e != JOB_ASK_REQUEUE)
                assert_int_equal(machine_job(s, e).next, s);
    for (int e = 0; e < ATTEMPT_EVENT_COUNT; e++)
        assert_int_equal(machine_attempt(ATTEMPT_ENDED, e).next, ATTEMPT_ENDED);
}

/* Go only out of preparing by "all ready"; an attempt that was to stop ends only by "all gone". */
static void test_gang_start(void **state)
{
    (void)state;
    for (int e = 0; e < ATTEMPT_EVENT_COUNT; e++) {
        enum attempt_state from_preparing = machine_attempt(ATTEMPT_PREPARING, e).next;
        assert_int_equal(from_preparing == ATTEMPT_LAUNCHING, e == ATTEMPT_ALL_READY);
        assert_int_not_equal(from_preparing, ATTEMPT_RUNNING);
        assert_int_equal(machine_attempt(ATTEMPT_STOPPING, e).next == ATTEMPT_ENDED, e == ATTEMPT_ALL_GONE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair_is_there),
        cmocka_unit_test(test_ignoring_changes_nothing),
        cmocka_unit_test(test_final_states_are_final),
        cmocka_unit_test(test_gang_start),
    };
    return cmocka_run_group_tests_name("core machines", tests, NULL, NULL);
}
