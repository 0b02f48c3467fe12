/* The table of an attempt's stages: complete, and never back once the shim is dead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/attempt_table.h"

static void every_pair_is_listed(void **state)
{
    (void)state;
    for (int stage = 0; stage < STAGE_COUNT; stage++)
        for (int what = 0; what < HAPPENED_COUNT; what++) {
            struct attempt_step step = attempt_table_step(stage, what);
            if (!step.listed)
                fail_msg("stage %d has no entry for happening %d", stage, what);
            assert_in_range(step.next, 0, STAGE_COUNT - 1);
            assert_in_range(step.action, 0, DO_COUNT - 1);
        }
}

static void a_dead_shim_is_swept_before_anything_else(void **state)
{
    (void)state;
    static const enum attempt_stage with_shim[] = {STAGE_CONNECTING, STAGE_LIVE, STAGE_RELEASING};
    for (size_t i = 0; i < 3; i++) {
        struct attempt_step step = attempt_table_step(with_shim[i], HAPPENED_DIED);
        assert_int_equal(step.next, STAGE_SWEEPING);
        assert_int_equal(step.action, DO_SWEEP);
    }
}

static void the_way_goes_only_forward_after_the_shim(void **state)
{
    (void)state;
    for (int stage = STAGE_SWEEPING; stage < STAGE_COUNT; stage++)
        for (int what = 0; what < HAPPENED_COUNT; what++)
            assert_true((int)attempt_table_step(stage, what).next >= stage);
}

static void a_folder_is_dropped_only_from_ended(void **state)
{
    (void)state;
    for (int stage = 0; stage < STAGE_COUNT; stage++)
        for (int what = 0; what < HAPPENED_COUNT; what++)
            assert_int_equal(attempt_table_step(stage, what).action == DO_DROP,
                             stage == STAGE_ENDED && what == HAPPENED_FORGET);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_is_listed),
        cmocka_unit_test(a_dead_shim_is_swept_before_anything_else),
        cmocka_unit_test(the_way_goes_only_forward_after_the_shim),
        cmocka_unit_test(a_folder_is_dropped_only_from_ended),
    };
    return cmocka_run_group_tests_name("attempt_table", tests, NULL, NULL);
}
