/* Pauses between tries: growing, bounded, jittered, begun again after a success. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/backoff.h"

static void each_pause_lies_in_the_upper_half_of_its_span(void **state)
{
    (void)state;
    static const int64_t spans[] = {100, 200, 400, 800, 1000, 1000, 1000};
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct backoff b;
        backoff_init(&b, 100, 1000, seed);
        for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
            int64_t ms = backoff_next(&b);
            assert_in_range(ms, spans[i] / 2, spans[i]);
        }
        backoff_reset(&b);
        assert_in_range(backoff_next(&b), 50, 100);
    }
}

static void two_nodes_do_not_come_back_together(void **state)
{
    (void)state;
    struct backoff a, b;
    int same = 0;
    backoff_init(&a, 100, 1000, 11);
    backoff_init(&b, 100, 1000, 12);
    for (int i = 0; i < 100; i++)
        same += backoff_next(&a) == backoff_next(&b);
    assert_true(same < 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_pause_lies_in_the_upper_half_of_its_span),
        cmocka_unit_test(two_nodes_do_not_come_back_together),
    };
    return cmocka_run_group_tests_name("backoff", tests, NULL, NULL);
}
