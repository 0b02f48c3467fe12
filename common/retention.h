/* retention: which checkpoints of a directory stay. Pure, so that whoever removes them and whoever only keeps count come to the same answer. */
#ifndef BELAY_COMMON_RETENTION_H
#define BELAY_COMMON_RETENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As the job file says: checkpoint.keep, keep_every, keep_best. */
struct retention_policy {
    int64_t keep;       /* so many of the newest, at least 1 */
    int64_t keep_every; /* those of steps that this divides; 0 = none */
    int64_t keep_best;  /* so many with the lowest held-out loss; 0 = none */
};

/* Why one stays; several may hold. */
enum { RETENTION_NEWEST = 1, RETENTION_EVERY = 2, RETENTION_BEST = 4 };

struct retention_item {
    int64_t step;
    double held_loss; /* NAN = not known: never among the best */
    bool complete;
    unsigned stays; /* filled in: RETENTION_ bits, 0 = it may go */
};

/* Decides about all checkpoints of one directory, newest first. What is not complete takes nobody's place, is never among the best, and may go
 * only when `keep` complete ones are newer. Of equal losses the newer counts as better. */
void retention_decide(const struct retention_policy *policy, struct retention_item *items, size_t count);

#endif
