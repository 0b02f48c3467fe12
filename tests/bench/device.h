/* device: the options that say where and in what numbers a bench computes, and the device itself. */
#ifndef BELAY_TESTS_BENCH_DEVICE_H
#define BELAY_TESTS_BENCH_DEVICE_H

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/backend.h"

struct bench_device {
    bool gpu, json;
    enum kernel_type type;
    struct backend backend;
    const struct kernels *kernels;
};

#define BENCH_DEVICE_OPTIONS                                                                                 \
    {"precision", required_argument, NULL, 'p'}, {"device", required_argument, NULL, 'd'},                   \
    {                                                                                                        \
        "json", no_argument, NULL, 'j'                                                                       \
    }

/* Takes one of these options; false when it is another one, or its value is none. */
static inline bool bench_device_option(struct bench_device *b, int option)
{
    if (option == 'j')
        return b->json = true;
    if (option == 'p' && (strcmp(optarg, "bf16") == 0 || strcmp(optarg, "fp32") == 0)) {
        b->type = optarg[0] == 'b' ? KERNEL_BF16 : KERNEL_FP32;
        return true;
    }
    if (option == 'd' && (strcmp(optarg, "gpu") == 0 || strcmp(optarg, "cpu") == 0)) {
        b->gpu = optarg[0] == 'g';
        return true;
    }
    return false;
}

/* Before comm_open. Ends the program with a sentence when there is no such device. */
static inline void bench_device_open(struct bench_device *b, const char *name)
{
    struct err err;
    if (backend_open(b->gpu ? DEVICE_GPU : DEVICE_CPU, &b->backend, &err) == 0)
        b->kernels = backend_kernels(&b->backend, b->type, &err);
    if (b->kernels)
        return;
    fprintf(stderr, "%s: %s\n", name, err.text);
    exit(1);
}

/* Memory of the device; ends the program when there is not that much. */
static inline void *bench_room(const struct kernels *k, size_t bytes)
{
    void *x = k->alloc(bytes);
    if (x)
        return x;
    fprintf(stderr, "the bench finds no memory for %zu bytes on its device\n", bytes);
    exit(1);
}

/* Numbers from -size to size, the same again from every 2 Mi on: zeros would be computed faster. */
static inline void bench_fill(const struct kernels *k, real *x, size_t count, double size)
{
    static real host[(size_t)2 << 20];
    size_t period = sizeof host / sizeof *host;
    for (size_t i = 0; i < period; i++)
        host[i] = (real)(size * (1e-6 * (double)(i * 2654435761U % 2000003U) - 1));
    for (size_t at = 0; at < count; at += period)
        k->from_host(x + at, host, (count - at < period ? count - at : period) * sizeof *host);
}

static inline double bench_median(double *x, size_t n)
{
    for (size_t i = 1; i < n; i++) /* few numbers */
        for (size_t j = i; j > 0 && x[j] < x[j - 1]; j--) {
            double kept = x[j];
            x[j] = x[j - 1];
            x[j - 1] = kept;
        }
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

#endif
