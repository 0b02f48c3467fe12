/* host: how many threads this rank uses, and what matrix rate this host allows it. */
#ifndef BELAY_RUNTIME_HOST_H
#define BELAY_RUNTIME_HOST_H

/* Sets the number of OpenMP threads: OMP_NUM_THREADS when given, else the usable cores divided by the ranks on this host (at least 1).
 * Before kernel_open, whose library takes the number over. Returns it. */
int host_set_threads(int local_ranks);

/* Floating point operations per second of this host's own matrix product with the present threads: the best of several products within
 * about 0.15 s. After kernel_open. It is the 100 % of "mfu" on a CPU, where no vendor's peak means anything. */
double host_gemm_peak(void);

#endif
