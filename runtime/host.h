/* host: how many threads this rank uses, and what matrix rate this host allows it. */
#ifndef BELAY_RUNTIME_HOST_H
#define BELAY_RUNTIME_HOST_H

#include <stdbool.h>

#include "kernels/kernels.h"

/* Bounds how long a thread without work spins, by starting the program once more with GOMP_SPINCOUNT set: libgomp reads it before main.
 * Its default of several milliseconds makes a step ten to a hundred times slower as soon as threads are more than cores. Does nothing when
 * OMP_WAIT_POLICY or GOMP_SPINCOUNT is set already, as it is the second time. First thing in main. */
void host_bound_spinning(char **argv);

/* Sets the number of OpenMP threads: OMP_NUM_THREADS when given, else the usable cores divided by the ranks on this host (at least 1).
 * Before kernels_cpu, whose library takes the number over. Returns it. */
int host_set_threads(int local_ranks);

/* Floating point operations per second of this host's own matrix product with the present threads: the best of several products within
 * about 0.15 s. It is the 100 % of "mfu" on a CPU, where no vendor's peak means anything. behind: a device computes
 * on its own, behind the host, and needs larger products. */
double host_gemm_peak(const struct kernels *k, bool behind);

#endif
