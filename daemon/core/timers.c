/* timers: a binary heap by due_ms; each timer knows its place, so that moving one costs O(log n). */
#include "daemon/core/timers.h"

#include <stdlib.h>

#include "common/mem.h"

struct timers {
    struct timer **heap; /* heap[0] is not used */
    size_t count, room;
};

struct timers *timers_new(void)
{
    return mem_zero(1, sizeof(struct timers));
}

void timers_free(struct timers *timers)
{
    if (!timers)
        return;
    free(timers->heap);
    free(timers);
}

static void put(struct timers *t, struct timer *timer, size_t place)
{
    t->heap[place] = timer;
    timer->place = place;
}

static void sift_up(struct timers *t, size_t place)
{
    struct timer *timer = t->heap[place];
    for (; place > 1 && t->heap[place / 2]->due_ms > timer->due_ms; place /= 2)
        put(t, t->heap[place / 2], place);
    put(t, timer, place);
}

static void sift_down(struct timers *t, size_t place)
{
    struct timer *timer = t->heap[place];
    for (;;) {
        size_t child = place * 2;
        if (child > t->count)
            break;
        if (child < t->count && t->heap[child + 1]->due_ms < t->heap[child]->due_ms)
            child++;
        if (t->heap[child]->due_ms >= timer->due_ms)
            break;
        put(t, t->heap[child], place);
        place = child;
    }
    put(t, timer, place);
}

static void disarm(struct timers *t, struct timer *timer)
{
    size_t place = timer->place;
    if (place == 0)
        return;
    timer->place = 0;
    struct timer *last = t->heap[t->count--];
    if (last == timer)
        return;
    put(t, last, place);
    sift_up(t, place);
    sift_down(t, last->place);
}

static void add(struct timers *t, struct timer *timer)
{
    if (t->count + 2 > t->room) {
        t->room = t->room ? t->room * 2 : 64;
        t->heap = mem_grow(t->heap, t->room, sizeof(struct timer *));
    }
    put(t, timer, ++t->count);
}

void timers_set(struct timers *timers, struct timer *timer, int64_t due_ms)
{
    if (due_ms == INT64_MAX) {
        disarm(timers, timer);
        return;
    }
    timer->due_ms = due_ms;
    if (timer->place == 0)
        add(timers, timer);
    sift_up(timers, timer->place);
    sift_down(timers, timer->place);
}

int64_t timers_next(const struct timers *timers)
{
    return timers->count > 0 ? timers->heap[1]->due_ms : INT64_MAX;
}

void timers_run(struct timers *timers, int64_t now_ms, void *ctx)
{
    for (size_t left = timers->count; left > 0 && timers_next(timers) <= now_ms; left--) {
        struct timer *timer = timers->heap[1];
        disarm(timers, timer);
        timer->fire(ctx, timer->owner);
    }
}
