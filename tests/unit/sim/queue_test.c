/* The queue hands out events by time, and those of one time in the order in which they were put in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/queue.h"
#include "sim/random.h"

static void test_order(void **state)
{
    (void)state;
    struct queue q = {.heap = NULL};
    struct random_stream s = random_stream(1, 1);
    for (int i = 0; i < 5000; i++)
        queue_put(&q, (struct queue_event){.at_ms = (int64_t)random_below(&s, 100), .a = i});
    struct queue_event last = {.at_ms = -1, .a = -1}, e;
    for (int i = 0; i < 5000; i++) {
        assert_true(queue_take(&q, 1000, &e));
        assert_true(e.at_ms > last.at_ms || (e.at_ms == last.at_ms && e.a > last.a));
        last = e;
    }
    assert_false(queue_take(&q, INT64_MAX - 1, &e));
    queue_clear(&q);
}

static void test_not_before_it_is_due(void **state)
{
    (void)state;
    struct queue q = {.heap = NULL};
    struct queue_event e;
    assert_true(queue_next_ms(&q) == INT64_MAX);
    queue_put(&q, (struct queue_event){.at_ms = 10});
    assert_false(queue_take(&q, 9, &e));
    assert_int_equal(queue_next_ms(&q), 10);
    assert_true(queue_take(&q, 10, &e));
    queue_clear(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_not_before_it_is_due),
    };
    return cmocka_run_group_tests_name("sim queue", tests, NULL, NULL);
}
