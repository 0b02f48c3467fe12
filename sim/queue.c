/* queue: a binary heap in an array. */
#include "sim/queue.h"

#include <stdlib.h>

#include "common/mem.h"

static bool before(const struct queue_event *a, const struct queue_event *b)
{
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->order < b->order;
}

void queue_put(struct queue *q, struct queue_event event)
{
    event.order = q->order++;
    q->heap = mem_one_more(q->heap, q->count, &q->room, sizeof(*q->heap));
    size_t i = q->count++;
    for (; i > 0 && before(&event, &q->heap[(i - 1) / 2]); i = (i - 1) / 2)
        q->heap[i] = q->heap[(i - 1) / 2];
    q->heap[i] = event;
}

int64_t queue_next_ms(const struct queue *q)
{
    return q->count > 0 ? q->heap[0].at_ms : INT64_MAX;
}

static void sink(struct queue *q, struct queue_event event)
{
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < q->count; i = child) {
        if (child + 1 < q->count && before(&q->heap[child + 1], &q->heap[child]))
            child++;
        if (!before(&q->heap[child], &event))
            break;
        q->heap[i] = q->heap[child];
    }
    q->heap[i] = event;
}

bool queue_take(struct queue *q, int64_t until_ms, struct queue_event *out)
{
    if (queue_next_ms(q) > until_ms)
        return false;
    *out = q->heap[0];
    struct queue_event last = q->heap[--q->count];
    if (q->count > 0)
        sink(q, last);
    return true;
}

void queue_clear(struct queue *q)
{
    free(q->heap);
    *q = (struct queue){.heap = NULL};
}
