/* box: see box.h. Whether boxes overlap is found by a sweep over the rows: what was met and may reach further down is kept in the order of its
 * columns, so that a new box need only be held against those that share a column with it. */
#include "checkpoint/box.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

bool box_valid(const struct box *b)
{
    return b->from[0] < b->to[0] && b->from[1] < b->to[1];
}

size_t box_count(const struct box *b)
{
    return (b->to[0] - b->from[0]) * (b->to[1] - b->from[1]);
}

bool box_overlap(const struct box *a, const struct box *b, struct box *out)
{
    for (int i = 0; i < 2; i++) {
        out->from[i] = a->from[i] > b->from[i] ? a->from[i] : b->from[i];
        out->to[i] = a->to[i] < b->to[i] ? a->to[i] : b->to[i];
    }
    return box_valid(out);
}

int box_compare(const struct box *a, const struct box *b)
{
    for (int i = 0; i < 2; i++)
        if (a->from[i] != b->from[i])
            return a->from[i] < b->from[i] ? -1 : 1;
    return 0;
}

/* The boxes that the sweep still meets, disjoint in their columns and in the order of these. */
struct front {
    struct box *boxes;
    size_t count, room;
};

/* The first box of the front that ends beyond column `at`. */
static size_t front_find(const struct front *f, size_t at)
{
    size_t low = 0, high = f->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (f->boxes[middle].to[1] > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Puts a box in place of those that share a column with it; false when one of them shares a row, too. */
static bool front_put(struct front *f, const struct box *b)
{
    size_t first = front_find(f, b->from[1]), last = first;
    for (; last < f->count && f->boxes[last].from[1] < b->to[1]; last++)
        if (f->boxes[last].to[0] > b->from[0])
            return false;
    if (f->count == f->room)
        f->boxes = mem_one_more(f->boxes, f->count, &f->room, sizeof *f->boxes);
    memmove(f->boxes + first + 1, f->boxes + last, (f->count - last) * sizeof *f->boxes);
    f->boxes[first] = *b;
    f->count = f->count + 1 - (last - first);
    return true;
}

static bool within(const struct box *b, const size_t shape[2])
{
    return box_valid(b) && b->to[0] <= shape[0] && b->to[1] <= shape[1];
}

enum box_cover box_check_cover(const struct box *boxes, size_t stride, size_t count, const size_t shape[2])
{
    struct front front = {0};
    enum box_cover rc = BOX_COVER_EXACT;
    size_t covered = 0;
    for (size_t i = 0; i < count && rc == BOX_COVER_EXACT; i++) {
        const struct box *b = (const struct box *)(const void *)((const char *)boxes + i * stride);
        if (!within(b, shape))
            rc = BOX_COVER_OUTSIDE;
        else if (!front_put(&front, b))
            rc = BOX_COVER_TWICE;
        else
            covered += box_count(b);
    }
    free(front.boxes);
    return rc == BOX_COVER_EXACT && covered != shape[0] * shape[1] ? BOX_COVER_GAP : rc;
}
