/* comm: what the ranks of a run do together. Every function but comm_rank and comm_size is collective: all ranks call it in the same order.
 *
 * Sums are taken in rank order whatever the library, the network and the placement are, and every rank gets the same bits: a run
 * restarted elsewhere goes on bitwise as before. */
#ifndef BELAY_RUNTIME_COMM_H
#define BELAY_RUNTIME_COMM_H

#include <stddef.h>

#include "common/err.h"

struct comm;

/* Joins the other ranks: over MPI when a launcher (mpirun, belay-shim) started this process, else alone as rank 0 of 1.
 * NULL with a sentence when RANK/WORLD_SIZE speak of more ranks but no launcher offers a way to reach them. */
struct comm *comm_open(struct err *err);
/* Leaves in order; waits for the others. */
void comm_close(struct comm *comm);

int comm_rank(const struct comm *comm);
int comm_size(const struct comm *comm);

/* Rank 0's bytes to everyone. */
void comm_broadcast(struct comm *comm, void *data, size_t bytes);
/* Everyone's `bytes` bytes to everyone, in rank order: all (size,bytes). For small records. */
void comm_gather(struct comm *comm, const void *mine, size_t bytes, void *all);
/* x[i] becomes the sum over ranks, in rank order. Moves 2*(size-1)/size of x per rank, as a ring would. */
void comm_sum_float(struct comm *comm, float *x, size_t count);
/* The largest value of any rank. */
int comm_max_int(struct comm *comm, int value);
double comm_sum_double(struct comm *comm, double value);

/* How many ranks of this run share this host, from the environment; 1 when unknown. */
int comm_env_local_size(void);

#endif
