/* sort: orders entries by a number that many of them may share. */
#ifndef BELAY_KERNELS_CUDA_SORT_H
#define BELAY_KERNELS_CUDA_SORT_H

#include <stddef.h>
#include <stdint.h>

/* An entry: the number it is ordered by in the upper 32 bits, what belongs to it in the lower ones. */
struct sort_room {
    uint64_t *entries, *other; /* (n) of the device, aligned to 8 */
    uint32_t *counts;          /* sort_counts(n) */
};

size_t sort_counts(size_t n);

/* Enqueues the sorting of room's n < 2^32 entries by the `bits` lower bits of their numbers; entries of one number keep their order. Returns which
 * of the two arrays has the result; the other one's content is lost. */
const uint64_t *sort_entries(const struct sort_room *room, size_t n, int bits);

#endif
