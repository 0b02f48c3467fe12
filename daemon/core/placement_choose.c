/* placement_choose: see placement_choose.h. Sorting by room makes each choice a prefix of the whole parts and one of the used ones. */
#include "daemon/core/placement_choose.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

/* The parts with room, whole ones and used ones apart, largest first. */
struct sorted {
    struct choose_part **whole, **used;
    size_t n_whole, n_used;
};

static int by_room(const void *x, const void *y)
{
    const struct choose_part *a = *(struct choose_part *const *)x, *b = *(struct choose_part *const *)y;
    if (a->room != b->room)
        return a->room > b->room ? -1 : 1;
    return a < b ? -1 : a > b;
}

static struct sorted sort_parts(struct choose_part *parts, size_t n)
{
    struct sorted s = {mem_zero(n, sizeof(void *)), mem_zero(n, sizeof(void *)), 0, 0};
    for (size_t i = 0; i < n; i++) {
        parts[i].taken = 0;
        if (parts[i].room > 0 && parts[i].whole)
            s.whole[s.n_whole++] = &parts[i];
        else if (parts[i].room > 0)
            s.used[s.n_used++] = &parts[i];
    }
    qsort(s.whole, s.n_whole, sizeof(void *), by_room);
    qsort(s.used, s.n_used, sizeof(void *), by_room);
    return s;
}

static int64_t sum_of(struct choose_part *const *parts, size_t n)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += parts[i]->room;
    return sum;
}

/* How many of the largest of both kinds together have `need`. */
static size_t fewest(const struct sorted *s, int64_t need)
{
    size_t w = 0, u = 0;
    while (need > 0 && (w < s->n_whole || u < s->n_used)) {
        bool whole = u == s->n_used || (w < s->n_whole && s->whole[w]->room > s->used[u]->room);
        need -= whole ? s->whole[w++]->room : s->used[u++]->room;
    }
    return w + u;
}

/* Sets how many of the largest whole and used parts to take. */
static void count_parts(const struct sorted *s, int64_t need, enum choose_by by, size_t *whole, size_t *used)
{
    size_t most = by == CHOOSE_FEWEST ? fewest(s, need) : s->n_whole + s->n_used;
    size_t u = most < s->n_used ? most : s->n_used, w = 0;
    int64_t sum = sum_of(s->used, u);
    while (sum < need && w < s->n_whole) {
        sum += s->whole[w++]->room;
        while (w + u > most)
            sum -= s->used[--u]->room;
    }
    while (u > 0 && sum - s->used[u - 1]->room >= need)
        sum -= s->used[--u]->room;
    *whole = w;
    *used = u;
}

/* The smallest of parts[first..n-1] that still has `need`; they are sorted, largest first. */
static size_t best_fit(struct choose_part *const *parts, size_t first, size_t n, int64_t need)
{
    size_t best = first;
    while (best + 1 < n && parts[best + 1]->room >= need)
        best++;
    while (best > first && parts[best - 1]->room == parts[best]->room)
        best--; /* the first in order of those alike */
    return best;
}

static void take_all(struct choose_part *const *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        parts[i]->taken = parts[i]->room;
}

/* Takes need from the n largest: all of the first n - 1, and the rest from the one that fits it best. */
static void take_last(struct choose_part *const *parts, size_t n, size_t n_all, int64_t need)
{
    take_all(parts, n - 1);
    need -= sum_of(parts, n - 1);
    parts[best_fit(parts, n - 1, n_all, need)]->taken = need;
}

/* The run of `length` parts that has `need` and leaves least over, with at most `whole` whole ones; n = there is none. */
static size_t find_run(const struct choose_part *parts, size_t n, size_t length, size_t whole, int64_t need)
{
    size_t best = n, wholes = 0;
    int64_t sum = 0, least = 0;
    for (size_t i = 0; i < n; i++) {
        sum += parts[i].room;
        wholes += parts[i].whole;
        if (i >= length) {
            sum -= parts[i - length].room;
            wholes -= parts[i - length].whole;
        }
        if (i + 1 >= length && sum >= need && wholes <= whole && (best == n || sum < least)) {
            best = i + 1 - length;
            least = sum;
        }
    }
    return best;
}

static void take_run(struct choose_part *parts, size_t first, int64_t need)
{
    for (size_t i = first; need > 0; i++) {
        parts[i].taken = parts[i].room < need ? parts[i].room : need;
        need -= parts[i].taken;
    }
}

void choose_parts(struct choose_part *parts, size_t n, int64_t need, enum choose_by by, bool adjacent)
{
    struct sorted s = sort_parts(parts, n);
    size_t whole, used;
    count_parts(&s, need, by, &whole, &used);
    size_t run = adjacent ? find_run(parts, n, whole + used, whole, need) : n;
    if (run < n) {
        take_run(parts, run, need);
    } else if (used > 0) {
        take_all(s.whole, whole);
        take_last(s.used, used, s.n_used, need - sum_of(s.whole, whole));
    } else {
        take_last(s.whole, whole, s.n_whole, need);
    }
    free(s.whole);
    free(s.used);
}

/* ---- runs ---- */

enum { RUNS_MAX = 4000000 }; /* groups x parts that are looked at: some 20 ms */

struct run {
    size_t first, length, whole; /* whole: parts in it that nobody uses yet */
    int64_t room;
};

static bool shorter(const struct run *a, const struct run *b)
{
    if (a->length != b->length)
        return a->length < b->length;
    if (a->whole != b->whole)
        return a->whole < b->whole;
    return a->room < b->room;
}

static int64_t left_in(const struct choose_part *p)
{
    return p->room - p->taken;
}

static bool untouched(const struct choose_part *p)
{
    return p->whole && p->taken == 0;
}

/* The best run with room for `width`: two ends that only move forward. */
static struct run best_run(const struct choose_part *parts, size_t n, int64_t width)
{
    struct run best = {0, n + 1, 0, 0}, r = {0, 0, 0, 0};
    for (size_t end = 0; end < n; end++) {
        r.room += left_in(&parts[end]);
        r.whole += untouched(&parts[end]);
        r.length++;
        while (r.length > 1 && r.room - left_in(&parts[r.first]) >= width) {
            r.room -= left_in(&parts[r.first]);
            r.whole -= untouched(&parts[r.first]);
            r.first++;
            r.length--;
        }
        if (r.room >= width && shorter(&r, &best))
            best = r;
    }
    return best;
}

/* For sizes at which looking at every run for every group would take seconds: one after the other in order. */
static void fill_in_order(struct choose_part *parts, size_t n, int64_t need)
{
    for (size_t i = 0; i < n; i++) {
        parts[i].taken = parts[i].room < need ? parts[i].room : need;
        need -= parts[i].taken;
    }
}

void choose_runs(struct choose_part *parts, size_t n, int64_t groups, int64_t width)
{
    if (groups > RUNS_MAX / (int64_t)(n > 0 ? n : 1)) {
        fill_in_order(parts, n, groups * width);
        return;
    }
    for (size_t i = 0; i < n; i++)
        parts[i].taken = 0;
    for (int64_t g = 0; g < groups; g++) {
        struct run r = best_run(parts, n, width);
        int64_t need = width;
        for (size_t i = r.first; need > 0; i++) {
            int64_t take = left_in(&parts[i]) < need ? left_in(&parts[i]) : need;
            parts[i].taken += take;
            need -= take;
        }
    }
}

/* ---- alignment ---- */

static int64_t aligned(int64_t at, int64_t least, int64_t most, const int64_t *steps, size_t n_steps)
{
    for (size_t i = 0; i < n_steps; i++) {
        int64_t take = (at + most) / steps[i] * steps[i] - at;
        if (take >= least && take > 0)
            return take;
    }
    return most;
}

void choose_align(struct choose_part *parts, size_t n, const int64_t *steps, size_t n_steps)
{
    int64_t need = 0, room = 0, at = 0;
    for (size_t i = 0; i < n; i++) {
        need += parts[i].taken;
        room += parts[i].taken > 0 ? parts[i].room : 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (parts[i].taken == 0)
            continue;
        room -= parts[i].room;
        int64_t most = parts[i].room < need ? parts[i].room : need;
        int64_t least = need - room > 0 ? need - room : 0;
        parts[i].taken = aligned(at, least, most, steps, n_steps);
        at += parts[i].taken;
        need -= parts[i].taken;
    }
}
