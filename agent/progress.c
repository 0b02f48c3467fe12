/* progress: a short array in order of arrival. Losing some of it harms nothing (the next step says the same again), but a
 * checkpoint is announced once, so those messages are never merged. */
#include "agent/progress.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

struct progress {
    struct link_progress *items;
    size_t n, limit;
};

struct progress *progress_new(size_t limit)
{
    struct progress *p = mem_zero(1, sizeof *p);
    p->items = mem_zero(limit, sizeof *p->items);
    p->limit = limit;
    return p;
}

void progress_free(struct progress *p)
{
    if (!p)
        return;
    while (p->n > 0)
        progress_pop(p);
    free(p->items);
    free(p);
}

static bool names_checkpoint(json_t *values)
{
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach(values, key, value) if (strncmp(key, "CHECKPOINT_", 11) == 0) return true;
    return false;
}

/* The last message of the same rank when it may be merged into, or NULL. */
static struct link_progress *mergeable(struct progress *p, const struct link_progress *msg)
{
    for (size_t i = p->n; i-- > 0;) {
        struct link_progress *old = &p->items[i];
        if (old->rank == msg->rank && old->job == msg->job && old->attempt == msg->attempt)
            return names_checkpoint(old->values) ? NULL : old;
    }
    return NULL;
}

void progress_add(struct progress *p, const struct link_progress *msg)
{
    struct link_progress *old = names_checkpoint(msg->values) ? NULL : mergeable(p, msg);
    if (old) {
        (void)json_object_update(old->values, msg->values); /* fails only without memory: lossy by contract */
        return;
    }
    if (p->n == p->limit)
        progress_pop(p);
    p->items[p->n] = *msg;
    p->items[p->n++].values = json_copy(msg->values);
}

const struct link_progress *progress_first(const struct progress *p)
{
    return p->n > 0 ? &p->items[0] : NULL;
}

void progress_pop(struct progress *p)
{
    if (p->n == 0)
        return;
    link_progress_clear(&p->items[0]);
    memmove(p->items, p->items + 1, --p->n * sizeof *p->items);
}
