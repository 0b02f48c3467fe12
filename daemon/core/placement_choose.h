/* placement_choose: which of the parts of a domain a job takes when none of them alone has room for it. Inside daemon/core only. */
#ifndef BELAY_DAEMON_CORE_PLACEMENT_CHOOSE_H
#define BELAY_DAEMON_CORE_PLACEMENT_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A part (a pod of the cluster, a rack of a pod …), in topology order. */
struct choose_part {
    int64_t room;  /* blocks that fit */
    int64_t taken; /* out: blocks that the job takes; 0 = it leaves the part alone */
    bool whole;    /* nothing of it is in use */
};

enum choose_by {
    CHOOSE_FEWEST, /* as few parts as possible; among as many, as few whole ones as possible */
    CHOOSE_USED,   /* as few whole ones as possible; then as few parts as possible */
};

/* Takes `need` blocks (at most the sum of rooms, and more than any one part has): the largest parts full, and of the last as much as
 * is missing, where the last is the smallest that suffices. adjacent: where as many consecutive parts would do, takes those. */
void choose_parts(struct choose_part *parts, size_t n, int64_t need, enum choose_by by, bool adjacent);

/* Takes `groups` x `width` blocks: each group from as short a run of consecutive parts as there is. */
void choose_runs(struct choose_part *parts, size_t n, int64_t groups, int64_t width);

/* Moves what was taken so that the boundaries between parts, counted in blocks from the first, fall on multiples of the largest
 * of steps[n_steps] (descending) for which the room suffices. Only parts with taken > 0 are used. */
void choose_align(struct choose_part *parts, size_t n, const int64_t *steps, size_t n_steps);

#endif
