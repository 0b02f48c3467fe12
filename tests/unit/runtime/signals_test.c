/* signals: what is asked once is told once, but the end for ever. */
#include "tests/unit/scratch.h"

#include <signal.h>

#include "runtime/signals.h"

static void test_save_is_told_once(void **state)
{
    (void)state;
    assert_int_equal(signals_take(), 0);
    assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(signals_take(), SIGNALS_SAVE);
    assert_int_equal(signals_take(), 0);
}

/* Whoever is told in a step that is rolled back goes on with another step. */
static void test_stop_stays(void **state)
{
    (void)state;
    assert_int_equal(raise(SIGTERM), 0);
    assert_int_equal(signals_take(), SIGNALS_STOP);
    assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(signals_take(), SIGNALS_STOP | SIGNALS_SAVE);
    assert_int_equal(signals_take(), SIGNALS_STOP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_save_is_told_once),
        cmocka_unit_test(test_stop_stays),
    };
    signals_install();
    return cmocka_run_group_tests_name("signals", tests, NULL, NULL);
}
