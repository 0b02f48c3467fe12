/* timers: a binary heap of deadlines. A timer is part of what it belongs to; the heap only points at it. */
#ifndef BELAY_DAEMON_CORE_TIMERS_H
#define BELAY_DAEMON_CORE_TIMERS_H

#include <stddef.h>
#include <stdint.h>

struct timer {
    int64_t due_ms;
    size_t place; /* in the heap, counted from 1; 0 = not armed */
    void *owner;
    void (*fire)(void *ctx, void *owner);
};

struct timers;

struct timers *timers_new(void);
void timers_free(struct timers *timers);

/* Arms timer for due_ms (moves it when armed already); INT64_MAX disarms it. */
void timers_set(struct timers *timers, struct timer *timer, int64_t due_ms);

/* When the first one is due, or INT64_MAX. */
int64_t timers_next(const struct timers *timers);

/* Disarms and fires every timer due at now_ms, earliest first. One that a fire() arms for now or earlier fires in the next call. */
void timers_run(struct timers *timers, int64_t now_ms, void *ctx);

#endif
