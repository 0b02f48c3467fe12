/* bench_overlap: does the sum of gradients hide behind computing? Run as two ranks with a slow network between them by bench_overlap.sh.
 *
 * A step is that of a backward pass: for each of LAYERS layers PRODUCTS matrix products, then its bucket of gradients has to be summed over the
 * ranks. Timed are the products alone, the sums alone, one after the other, and each bucket's sum begun as soon as its layer
 * is done while later layers are computed, with a comm_progress after each product. The four take turns, and medians are
 * printed: other work on the host disturbs some. */
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/mem.h"
#include "kernels/kernels.h"
#include "runtime/comm/comm.h"

enum { LAYERS = 12, PRODUCTS = 8, TOKENS = 256, WIDTH = 1024, TURNS = 5 };
#define BUCKET ((size_t)WIDTH * WIDTH) /* a layer's gradients */

enum { COMPUTE, COMMUNICATE, AFTER, OVERLAP, MODES };

struct bench {
    const struct kernels *kernels;
    struct comm *comm;
    struct comm_group *world;
    real *x, *w, *y, *gradients; /* (TOKENS,WIDTH), (WIDTH,WIDTH), (TOKENS,WIDTH), (LAYERS,WIDTH,WIDTH) */
};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x)
{
    qsort(x, TURNS, sizeof *x, ascending);
    return x[TURNS / 2];
}

static void products(struct bench *b, bool progress)
{
    const struct kernel_matrix x = {(const act *)(const void *)b->x, WIDTH, false};
    const struct kernel_matrix w = {(const act *)(const void *)b->w, WIDTH, false};
    for (int i = 0; i < PRODUCTS; i++) {
        b->kernels->gemm_real(TOKENS, WIDTH, WIDTH, x, w, false, b->y, WIDTH);
        if (progress)
            comm_progress(b->comm);
    }
}

static void one_after_the_other(struct bench *b, bool compute, bool communicate)
{
    for (int l = 0; compute && l < LAYERS; l++)
        products(b, false);
    for (size_t l = 0; communicate && l < LAYERS; l++)
        comm_all_reduce(b->world, b->gradients + l * BUCKET, BUCKET, COMM_REAL);
}

static void overlapped(struct bench *b)
{
    struct comm_request *requests[LAYERS];
    for (size_t l = 0; l < LAYERS; l++) {
        products(b, true);
        requests[l] = comm_all_reduce_start(b->world, b->gradients + l * BUCKET, BUCKET, COMM_REAL);
    }
    for (size_t l = 0; l < LAYERS; l++)
        comm_wait(requests[l]);
}

/* Seconds of one step, from when all ranks are ready until all have finished; -1 when a sum is wrong. */
static double step(struct bench *b, int mode)
{
    int size = comm_size(b->world);
    for (size_t i = 0; i < LAYERS * BUCKET; i++)
        b->gradients[i] = (real)(i % 1000 + (size_t)comm_rank(b->world));
    comm_barrier(b->world);
    double start = clock_monotonic_s();
    if (mode == OVERLAP)
        overlapped(b);
    else
        one_after_the_other(b, mode != COMMUNICATE, mode != COMPUTE);
    comm_barrier(b->world);
    double seconds = clock_monotonic_s() - start;
    for (size_t i = 0; mode != COMPUTE && i < LAYERS * BUCKET; i++)
        if (b->gradients[i] != (real)(i % 1000 * (size_t)size + (size_t)(size * (size - 1) / 2)))
            return -1;
    return seconds;
}

static void report(double seconds[MODES][TURNS], double bytes)
{
    double m[MODES];
    for (int i = 0; i < MODES; i++)
        m[i] = median(seconds[i]);
    double sum = m[COMPUTE] + m[COMMUNICATE],
           longer = m[COMPUTE] > m[COMMUNICATE] ? m[COMPUTE] : m[COMMUNICATE];
    printf("compute             %.3f s a step: %d layers of %d products %d x %d x %d\n", m[COMPUTE], LAYERS,
           PRODUCTS, TOKENS, WIDTH, WIDTH);
    printf("communication       %.3f s: %.0f MiB from each rank, %.2f Gbit/s\n", m[COMMUNICATE],
           bytes / 1048576, bytes * 8 / m[COMMUNICATE] / 1e9);
    printf("one after the other %.3f s; the sum of both is %.3f s\n", m[AFTER], sum);
    printf("overlapped          %.3f s: %.2f of the sum; the longer of both alone would be %.2f\n",
           m[OVERLAP], m[OVERLAP] / sum, longer / sum);
    printf("hidden              %.0f %% of the shorter of both\n", 100 * (sum - m[OVERLAP]) / (sum - longer));
}

static int measure(struct bench *b)
{
    double seconds[MODES][TURNS];
    uint64_t bytes = 0;
    for (int turn = -1; turn < TURNS; turn++) /* the first turn warms up */
        for (int mode = 0; mode < MODES; mode++) {
            comm_counters_reset(b->world);
            double s = step(b, mode);
            if (s < 0) {
                fprintf(stderr, "bench_overlap: the sum over the ranks is wrong; run comm_test\n");
                return 1;
            }
            if (turn >= 0)
                seconds[mode][turn] = s;
            if (mode == COMMUNICATE)
                bytes = comm_counters(b->world).bytes;
        }
    if (comm_rank(b->world) == 0)
        report(seconds, (double)bytes);
    return 0;
}

int main(void)
{
    struct err err = {""};
    struct bench b = {.kernels = kernels_cpu(KERNEL_FP32, &err)};
    b.comm = b.kernels ? comm_open(NULL, &err) : NULL;
    if (!b.comm) {
        fprintf(stderr, "bench_overlap: %s\n", err.text);
        return 1;
    }
    b.world = comm_world(b.comm);
    b.x = mem_zero((size_t)TOKENS * WIDTH, sizeof *b.x);
    b.y = mem_zero((size_t)TOKENS * WIDTH, sizeof *b.y);
    b.w = mem_zero(BUCKET, sizeof *b.w);
    b.gradients = mem_zero(LAYERS * BUCKET, sizeof *b.gradients);
    int code = measure(&b);
    free(b.x);
    free(b.y);
    free(b.w);
    free(b.gradients);
    comm_close(b.comm);
    return code;
}
