/* fake_device: the memory of a device that there is not, for tests of comm (runtime/comm/transport.h).
 *
 * Addresses are no addresses of the process: whoever forgets a copy crashes. Lanes are lists of work that is done when somebody asks for a mark, one
 * lane's or another's as a die falls, but always in the order that marks demand: work without such an order is done in the wrong one sooner or
 * later. Fresh and freed memory holds what no test expects, from when the computing lane comes to it. */
#ifndef BELAY_TESTS_FAKE_DEVICE_H
#define BELAY_TESTS_FAKE_DEVICE_H

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "runtime/comm/transport.h"

#define FAKE_OFFSET ((uintptr_t)1 << 62) /* far outside what a process can have */
enum { FAKE_LANES = 64, FAKE_JUNK = 0xA5 };

struct comm_mark {
    int lane;
    size_t place; /* so many pieces of work of the lane come before it */
};

struct fake_work {
    enum { FAKE_COPY, FAKE_SUM, FAKE_AFTER, FAKE_SPOIL, FAKE_FREE } kind;
    void *to;
    const void *from;
    size_t n; /* bytes; elements */
    enum comm_type type;
    struct comm_terms terms;
    struct comm_mark mark;
};

struct comm_lane {
    struct fake_work *work;
    size_t n, room, done;
};

static struct comm_lane fake_lanes[FAKE_LANES]; /* 0 computes */
static bool fake_lane_used[FAKE_LANES] = {true};
static uint64_t fake_die = 1;

static inline void *fake_real(const void *address)
{
    return (void *)((uintptr_t)address - FAKE_OFFSET);
}

static inline int fake_number(const struct comm_lane *lane)
{
    return lane ? (int)(lane - fake_lanes) : 0;
}

static inline void fake_give(struct comm_lane *lane, struct fake_work work)
{
    lane = lane ? lane : &fake_lanes[0];
    lane->work = mem_one_more(lane->work, lane->n, &lane->room, sizeof *lane->work);
    lane->work[lane->n++] = work;
}

static inline void fake_do(struct fake_work *w)
{
    if (w->kind == FAKE_COPY)
        memmove(w->to, w->from, w->n);
    else if (w->kind == FAKE_SUM)
        comm_sum(w->to, &w->terms, w->n, w->type);
    else if (w->kind == FAKE_SPOIL)
        memset(w->to, FAKE_JUNK, w->n);
    else if (w->kind == FAKE_FREE)
        free((size_t *)w->to - 2);
}

/* One piece of work of a lane; false when there is none or it has to wait. */
static inline bool fake_step(struct comm_lane *lane)
{
    if (lane->done == lane->n)
        return false;
    struct fake_work *w = &lane->work[lane->done];
    if (w->kind == FAKE_AFTER && fake_lanes[w->mark.lane].done < w->mark.place)
        return false;
    fake_do(w);
    lane->done++;
    return true;
}

static inline bool fake_reached(const struct comm_mark *mark)
{
    for (int tries = 0; tries < 4 * FAKE_LANES && fake_lanes[mark->lane].done < mark->place; tries++) {
        fake_die = fake_die * 6364136223846793005u + 1442695040888963407u;
        struct comm_lane *lane = &fake_lanes[fake_die >> 58];
        for (uint64_t n = fake_die >> 50 & 15; n > 0 && fake_step(lane); n--)
            ;
    }
    return fake_lanes[mark->lane].done >= mark->place;
}

static inline void *fake_alloc(size_t bytes)
{
    size_t *x = mem_grow(NULL, bytes + 2 * sizeof *x, 1);
    *x = bytes;
    fake_give(NULL, (struct fake_work){.kind = FAKE_SPOIL, .to = x + 2, .n = bytes});
    return (char *)(x + 2) + FAKE_OFFSET;
}

static inline void fake_free(void *data)
{
    size_t *x = data ? fake_real(data) : NULL;
    if (!x)
        return;
    fake_give(NULL, (struct fake_work){.kind = FAKE_SPOIL, .to = x, .n = x[-2]});
    fake_give(NULL, (struct fake_work){.kind = FAKE_FREE, .to = x});
}

static inline void fake_copy(struct comm_lane *lane, void *to, const void *from, size_t bytes)
{
    fake_give(lane, (struct fake_work){
                        .kind = FAKE_COPY, .to = fake_real(to), .from = fake_real(from), .n = bytes});
}

static inline void fake_to_host(struct comm_lane *lane, void *pinned, const void *from, size_t bytes)
{
    fake_give(lane, (struct fake_work){.kind = FAKE_COPY, .to = pinned, .from = fake_real(from), .n = bytes});
}

static inline void fake_from_host(struct comm_lane *lane, void *to, const void *pinned, size_t bytes)
{
    fake_give(lane, (struct fake_work){.kind = FAKE_COPY, .to = fake_real(to), .from = pinned, .n = bytes});
}

static inline void fake_sum(struct comm_lane *lane, void *out, const struct comm_terms *terms, size_t count,
                            enum comm_type type)
{
    struct fake_work w = {.kind = FAKE_SUM, .to = fake_real(out), .n = count, .type = type, .terms = *terms};
    w.terms.own = fake_real(terms->own);
    w.terms.others = fake_real(terms->others);
    fake_give(lane, w);
}

static inline void *fake_pinned(size_t bytes)
{
    return mem_grow(NULL, bytes, 1);
}

static inline struct comm_lane *fake_lane(void)
{
    for (int i = 0; i < FAKE_LANES; i++)
        if (!fake_lane_used[i]) {
            fake_lane_used[i] = true;
            return &fake_lanes[i];
        }
    abort();
}

/* Its work may still be going on; another lane of the number goes on behind it. */
static inline void fake_lane_free(struct comm_lane *lane)
{
    fake_lane_used[fake_number(lane)] = false;
}

static inline struct comm_mark *fake_mark(struct comm_lane *lane)
{
    struct comm_mark *mark = mem_zero(1, sizeof *mark);
    *mark = (struct comm_mark){fake_number(lane), fake_lanes[fake_number(lane)].n};
    return mark;
}

static inline void fake_after(struct comm_lane *lane, const struct comm_mark *mark)
{
    fake_give(lane, (struct fake_work){.kind = FAKE_AFTER, .mark = *mark});
}

static inline void fake_drop(struct comm_mark *mark)
{
    free(mark);
}

static const struct comm_memory fake_memory = {.alloc = fake_alloc,
                                               .free = fake_free,
                                               .copy = fake_copy,
                                               .sum = fake_sum,
                                               .pinned = fake_pinned,
                                               .unpinned = free,
                                               .to_host = fake_to_host,
                                               .from_host = fake_from_host,
                                               .lane = fake_lane,
                                               .lane_free = fake_lane_free,
                                               .mark = fake_mark,
                                               .after = fake_after,
                                               .reached = fake_reached,
                                               .drop = fake_drop};

#endif
