/* comm_lab: what the checks of comm compute with: numbers that each rank can tell of every other one, and buffers where the run has them. */
#ifndef BELAY_TESTS_PROGRAMS_COMM_LAB_H
#define BELAY_TESTS_PROGRAMS_COMM_LAB_H

#include <dlfcn.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "kernels/cuda/backend.h"
#include "kernels/real.h"
#include "runtime/comm/comm_private.h"
#include "tests/programs/fake_device.h"

static struct comm *comm;
static const struct comm_memory *memory = &comm_memory_host;
static const struct cuda_backend *backend; /* NULL: none */

/* ---- numbers ---------------------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 32);
}

static uint64_t draw(uint64_t *state)
{
    return mix(*state += 0x9e3779b97f4a7c15u);
}

/* Of very different sizes, so that sums in another order have other bits. */
static double value(int rank, size_t i, uint64_t salt)
{
    uint64_t x = mix(mix(salt * 1000003 + i) + (uint64_t)rank * 7919);
    return ldexp((double)(int64_t)x, -63 - (int)(x % 12));
}

static uint16_t bf16_of(double x)
{
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static float of_bf16(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void put(void *x, size_t i, enum comm_type type, double v)
{
    if (type == COMM_REAL)
        ((real *)x)[i] = (real)v;
    else if (type == COMM_DOUBLE)
        ((double *)x)[i] = v;
    else if (type == COMM_BF16)
        ((uint16_t *)x)[i] = bf16_of(v);
    else
        ((unsigned char *)x)[i] = (unsigned char)llrint(ldexp(v, 20));
}

/* The sum over the ranks of the group, in their order, of element i of what fill() gave each. */
static void put_sum(void *x, size_t at, const struct comm_group *g, size_t i, enum comm_type type,
                    uint64_t salt)
{
    real r = 0;
    double d = 0;
    float f = 0;
    for (int k = 0; k < comm_size(g); k++) {
        double v = value(comm_world_rank(g, k), i, salt);
        r = k == 0 ? (real)v : r + (real)v;
        d = k == 0 ? v : d + v;
        f = k == 0 ? of_bf16(bf16_of(v)) : f + of_bf16(bf16_of(v));
    }
    if (type ==
        COMM_BF16) { /* rounded to nearest even in double's exact arithmetic: half a unit of the last place decides */
        int e;
        double scaled = ldexp(frexp((double)f, &e), 8);
        f = (float)ldexp(rint(scaled), e - 8);
    }
    put(x, at, type, type == COMM_REAL ? (double)r : type == COMM_BF16 ? (double)f : d);
}

static void *fill(size_t from, size_t count, enum comm_type type, int rank, uint64_t salt)
{
    void *x = mem_grow(NULL, count + 1, comm_type_size(type));
    for (size_t i = 0; i < count; i++)
        put(x, i, type, value(rank, from + i, salt));
    return x;
}

static bool equal(const void *a, const void *b, size_t count, enum comm_type type)
{
    return memcmp(a, b, count * comm_type_size(type)) == 0;
}

/* ---- buffers ---------------------------------------------------------------------------------------------------------- */

static void *buffer(size_t bytes)
{
    return memory->alloc(bytes + 1);
}

/* All that the computing lane has been given is done. */
static void sync_lane(void)
{
    struct comm_mark *mark = memory->mark(NULL);
    while (!memory->reached(mark)) {
        comm_progress(comm); /* looks after the other ranks */
        sched_yield();
    }
    memory->drop(mark);
}

static void put_in(void *to, const void *host, size_t bytes)
{
    if (!memory->from_host) {
        memcpy(to, host, bytes);
        return;
    }
    static void *last; /* one copy is under way while the test goes on */
    sync_lane();
    if (last)
        memory->unpinned(last);
    last = memory->pinned(bytes + 1);
    memcpy(last, host, bytes);
    memory->from_host(NULL, to, last, bytes);
}

static void take_out(void *host, const void *from, size_t bytes)
{
    if (!memory->to_host) {
        memcpy(host, from, bytes);
        return;
    }
    void *pinned = memory->pinned(bytes + 1);
    memory->to_host(NULL, pinned, from, bytes);
    sync_lane();
    memcpy(host, pinned, bytes);
    memory->unpinned(pinned);
}

static void *moved_in(void *host, size_t bytes)
{
    void *x = buffer(bytes);
    put_in(x, host, bytes);
    free(host);
    return x;
}

static void *moved_out(void *buffer_, size_t bytes)
{
    void *x = mem_zero(bytes + 1, 1);
    take_out(x, buffer_, bytes);
    memory->free(buffer_);
    return x;
}

/* ---- where buffers lie ------------------------------------------------------------------------------------------------- */

/* The rank's device, modulo how many there are: all ranks are on this host, even where they are told of several nodes. */
static struct comm_device open_backend(const char *path)
{
    struct err err = {""};
    struct cuda_device device;
    const char *text = getenv("PMIX_RANK");
    int rank = text ? (int)strtol(text, NULL, 10) : 0;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    backend = library ? dlsym(library, CUDA_BACKEND_SYMBOL) : NULL;
    int count = backend ? backend->devices(&err) : 0;
    if (count == 0 || backend->open(rank % count, rank, &device, &err) != 0) {
        fprintf(stderr, "comm_check: %s\n", backend ? err.text : dlerror());
        exit(2);
    }
    struct comm_device out = {.memory = backend->memory, .direct = backend->transport};
    memcpy(out.id, device.id, sizeof out.id);
    return out;
}

/* Where COMM_CHECK_DEVICE wants the buffers; NULL: in the host's memory. */
static const struct comm_device *device(void)
{
    static struct comm_device chosen = {.memory = &fake_memory, .id = "none"};
    const char *name = getenv("COMM_CHECK_DEVICE");
    if (!name)
        return NULL;
    if (strcmp(name, "fake") != 0)
        chosen = open_backend(name);
    memory = chosen.memory;
    return &chosen;
}

#endif
