/* sum: sums of one array of each rank, in the order of the ranks. */
#ifndef BELAY_RUNTIME_COMM_SUM_H
#define BELAY_RUNTIME_COMM_SUM_H

#include <stddef.h>

#include "runtime/comm/comm.h"

/* Where the arrays of the ranks lie: this rank's at `own`, those of the ranks behind it (rank+1, rank+2, … and round to rank-1) one after
 * another at `others`, `stride` bytes apart. */
struct comm_terms {
    const void *own, *others;
    size_t stride;
    int rank, size;
};

size_t comm_type_size(enum comm_type type);

/* out (count) = term of rank 0 + term of rank 1 + …, each addition rounded to the type, for bf16 to float and only the result to bf16
 * (nearest even). out may be the term `own`. Not for COMM_BYTE. */
void comm_sum(void *out, const struct comm_terms *terms, size_t count, enum comm_type type);

#endif
