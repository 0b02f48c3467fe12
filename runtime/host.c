/* host: see host.h. */
#include "runtime/host.h"

#include <limits.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mem.h"
#include "kernels/kernels.h"

#define PEAK_SIZE    768 /* three matrices of 2.25 MiB: large enough for the full rate, 0.9 GFLOP a product */
#define PEAK_SECONDS 0.15
/* On a device: sizes that double until a product takes long beside starting it. */
#define PEAK_FROM   256
#define PEAK_TO     8192
#define PEAK_LONG_S 1e-3
#define SPIN_COUNT  "1000" /* some 30 us, about what waking a sleeping thread takes */

void host_bound_spinning(char **argv)
{
    char path[PATH_MAX];
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT"))
        return;
    ssize_t len = readlink("/proc/self/exe", path, sizeof path);
    if (len <= 0 || (size_t)len >= sizeof path || setenv("GOMP_SPINCOUNT", SPIN_COUNT, 1) != 0)
        return;
    path[len] = 0;
    (void)execv(
        path,
        argv); /* comes back only when it failed: then threads spin for long, which is slow but not wrong */
}

int host_set_threads(int local_ranks)
{
    const char *given = getenv("OMP_NUM_THREADS");
    if (given && *given)
        return omp_get_max_threads(); /* libgomp has read it */
    cpu_set_t cores;
    int usable = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    int threads = usable / local_ranks > 1 ? usable / local_ranks : 1;
    char text[16];
    (void)snprintf(text, sizeof text, "%d", threads); /* always fits */
    (void)setenv("OMP_NUM_THREADS", text,
                 1); /* OpenBLAS reads it; without memory for this nothing else would work */
    omp_set_num_threads(threads);
    return threads;
}

/* The best rate within PEAK_SECONDS of products of width n, in room for three of them. */
static double rate_at(const struct kernels *k, size_t n, act *room)
{
    struct kernel_matrix x = {.data = room, .stride = n}, y = {.data = act_at(k, room, n * n), .stride = n};
    double best = 0, begin = clock_monotonic_s(), now = begin;
    do {
        double before = now;
        k->gemm(n, n, n, x, y, false, act_at(k, room, 2 * n * n), n);
        k->sync();
        now = clock_monotonic_s();
        double rate = 2.0 * (double)n * (double)n * (double)n / (now - before);
        best = rate > best ? rate : best;
    } while (now - begin < PEAK_SECONDS);
    return best;
}

/* Any numbers, but not 0: processors are cooler then, and faster. */
static act *operands(const struct kernels *k, size_t n)
{
    act *a = k->alloc(3 * n * n * k->act_size);
    real *start = mem_zero(n * n, sizeof *start), *there = k->alloc(n * n * sizeof *there);
    for (size_t i = 0; i < n * n; i++)
        start[i] = (real)(i % 7);
    if (a && there) {
        k->from_host(there, start, n * n * sizeof *there);
        for (size_t i = 0; i < 2; i++)
            k->act_from_real(act_at(k, a, i * n * n), there, n * n);
    }
    k->free(there);
    free(start);
    return a;
}

double host_gemm_peak(const struct kernels *k, bool behind)
{
    double best = 0;
    for (size_t n = behind ? PEAK_FROM : PEAK_SIZE; n <= PEAK_TO; n *= 2) {
        act *a = operands(k, n);
        double rate = a ? rate_at(k, n, a) : 0;
        k->free(a);
        best = rate > best ? rate : best;
        double one_s = rate > 0 ? 2.0 * (double)n * (double)n * (double)n / rate : PEAK_LONG_S;
        if (!behind || one_s >= PEAK_LONG_S)
            break;
    }
    return best;
}
