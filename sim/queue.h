/* queue: what will happen and when: a heap of events by time; of equal times the one that was put in first comes first. */
#ifndef BELAY_SIM_QUEUE_H
#define BELAY_SIM_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue_event {
    int64_t at_ms;
    uint64_t order; /* given by queue_put */
    int kind;
    int64_t a, b;   /* what it is about */
    uint64_t stamp; /* whoever handles it compares: an event whose stamp is old means nothing any more */
};

struct queue {
    struct queue_event *heap;
    size_t count, room;
    uint64_t order;
};

void queue_put(struct queue *q, struct queue_event event);
int64_t queue_next_ms(const struct queue *q); /* INT64_MAX when empty */
bool queue_take(struct queue *q, int64_t until_ms,
                struct queue_event *out); /* the first that is due by then */
void queue_clear(struct queue *q);

#endif
