/* box: a rectangle of a tensor: rows [from[0],to[0]) x columns [from[1],to[1]). A tensor of one dimension has one column. Pure. */
#ifndef BELAY_CHECKPOINT_BOX_H
#define BELAY_CHECKPOINT_BOX_H

#include <stdbool.h>
#include <stddef.h>

struct box {
    size_t from[2], to[2];
};

/* Does it hold at least one element? */
bool box_valid(const struct box *b);
/* Its elements. */
size_t box_count(const struct box *b);
/* What two boxes share; false (and *out undefined) when that is nothing. */
bool box_overlap(const struct box *a, const struct box *b, struct box *out);
/* Order by first row, then by first column: <0, 0, >0 as qsort wants it. */
int box_compare(const struct box *a, const struct box *b);

enum box_cover { BOX_COVER_EXACT, BOX_COVER_GAP, BOX_COVER_TWICE, BOX_COVER_OUTSIDE };

/* Do boxes in the order of box_compare hold every element of a tensor (rows,columns) exactly once? Stride: bytes from one box to the next, so
 * that they may lie within larger records. Takes O(count log count). */
enum box_cover box_check_cover(const struct box *boxes, size_t stride, size_t count, const size_t shape[2]);

#endif
