/* Timers fire in order, once, and can be moved and disarmed at any time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "daemon/core/timers.h"

enum { COUNT = 500 };

struct watch {
    struct timers *timers;
    int64_t last_ms, now_ms;
    int fired;
};

static void note(void *ctx, void *owner)
{
    struct watch *w = ctx;
    struct timer *t = owner;
    assert_true(t->due_ms >= w->last_ms && t->due_ms <= w->now_ms);
    assert_int_equal(t->place, 0);
    w->last_ms = t->due_ms;
    w->fired++;
}

static void test_order(void **state)
{
    (void)state;
    static struct timer timers[COUNT];
    struct watch w = {.timers = timers_new()};
    uint64_t x = 7;
    assert_true(timers_next(w.timers) == INT64_MAX);
    int armed = 0;
    for (int i = 0; i < COUNT * 4; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        struct timer *t = &timers[i % COUNT];
        t->owner = t;
        t->fire = note;
        timers_set(w.timers, t, (x >> 40) % 5 == 0 ? INT64_MAX : (int64_t)((x >> 20) % 1000));
    }
    for (int i = 0; i < COUNT; i++)
        armed += timers[i].place != 0;
    for (w.now_ms = 0; w.now_ms < 1000; w.now_ms += 50) {
        timers_run(w.timers, w.now_ms, &w);
        assert_true(timers_next(w.timers) > w.now_ms);
    }
    timers_run(w.timers, 1000, &w);
    assert_int_equal(w.fired, armed);
    assert_true(timers_next(w.timers) == INT64_MAX);
    timers_free(w.timers);
}

static void arm_again(void *ctx, void *owner)
{
    struct watch *w = ctx;
    w->fired++;
    timers_set(w->timers, owner, 0);
}

/* One that arms itself for the past does not keep the others, or the caller, waiting for ever. */
static void test_endless_timer(void **state)
{
    (void)state;
    struct timer t = {.owner = &t, .fire = arm_again};
    struct watch w = {.timers = timers_new()};
    timers_set(w.timers, &t, 0);
    timers_run(w.timers, 5, &w);
    assert_int_equal(w.fired, 1);
    assert_int_equal(timers_next(w.timers), 0);
    timers_free(w.timers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_endless_timer),
    };
    return cmocka_run_group_tests_name("core timers", tests, NULL, NULL);
}
