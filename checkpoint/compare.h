/* compare: two checkpoints tensor by tensor, whatever meshes wrote them, read in bands of a few MiB. */
#ifndef BELAY_CHECKPOINT_COMPARE_H
#define BELAY_CHECKPOINT_COMPARE_H

#include <stddef.h>
#include <stdint.h>

#include "checkpoint/manifest.h"
#include "common/err.h"

enum compare_kind {
    COMPARE_BOTH,
    COMPARE_ONLY_FIRST,
    COMPARE_ONLY_SECOND,
    COMPARE_SHAPES /* in both, but of different shapes: not read */
};

/* What comparing one tensor came to. The numbers are for COMPARE_BOTH. */
struct compare_tensor {
    char name[MANIFEST_NAME_SIZE];
    enum compare_kind kind;
    size_t shape[2][2]; /* of the first and the second; columns 0 of one dimension */
    uint64_t numbers;
    uint64_t unequal; /* numbers whose bits differ */
    double
        largest; /* difference between two numbers; infinite when only one of them is finite, NaN is as different */
    double magnitude; /* largest finite magnitude in either */
    double norm[2];   /* square root of the sum of squares, summed in double */
};

/* One side: a checkpoint folder and its manifest. */
struct compare_side {
    const char *folder;
    const struct manifest *manifest;
};

/* Calls each() for every tensor of either, in the order of the names. A side of format 1 is looked at under the other's names where that is of
 * format 2. watch (may be NULL) hears of what is read. 0, or -1 with a sentence: a file cannot be read. */
int compare_checkpoints(const struct compare_side sides[2],
                        void (*each)(void *arg, const struct compare_tensor *t), void *arg,
                        const struct digest_watch *watch, struct err *err);

#endif
