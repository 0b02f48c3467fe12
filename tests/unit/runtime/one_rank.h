/* one_rank: what tests of whole models share: an engine on a mesh of one rank, its tensors by name, and numbers from an integer formula. Compiled
 * with the number type of the test that includes it. */
#ifndef BELAY_TESTS_RUNTIME_ONE_RANK_H
#define BELAY_TESTS_RUNTIME_ONE_RANK_H

#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "runtime/engine/engine.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Number i of a stream, 32 bits: a multiplicative hash, an xorshift, and another one (tests/fixtures/model/reference.py, words). */
static inline uint32_t word(uint32_t stream, size_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u + stream * 40503u + 12345u;
    x ^= x >> 15;
    x *= 2246822519u;
    return x ^ (x >> 13);
}

/* 24 bits of it from -0.5 up to 0.5, exact in float */
static inline double fraction(uint32_t stream, size_t i)
{
    return (double)(word(stream, i) >> 8) / (1 << 24) - 0.5;
}

/* Of this process alone; opened once. One thread: the models of tests are too small to share, and threads that wait would spin. */
static inline struct mesh *one_mesh(void)
{
    static struct mesh mesh;
    const struct mesh_sizes one = {1, 1, 1, 1, 1};
    struct err err;
    if (mesh.comm)
        return &mesh;
    omp_set_num_threads(1);
    struct comm *comm = comm_open(NULL, &err);
    if (!comm || mesh_open(&mesh, comm, &one, false, &err) != 0)
        fail_msg("%s", err.text);
    return &mesh;
}

static inline const struct kernels *one_kernels(enum kernel_type type)
{
    struct err err;
    const struct kernels *k = kernels_cpu(type, &err);
    if (!k)
        fail_msg("%s", err.text);
    return k;
}

/* A job of one rank that trains the model on `global` sequences a step, `micro` at a time. */
static inline struct job_spec one_spec(const struct job_model *model, int64_t global, int64_t micro)
{
    struct job_spec s = {.is_train = true, .tp = 1, .pp = 1, .cp = 1, .dp = 1, .ep = 1, .virtual_stages = 1};
    s.train.model = *model;
    s.train.batch_global = global;
    s.train.batch_micro = micro;
    s.train.seed = 7;
    return s;
}

/* spec is borrowed */
static inline struct engine *one_engine_of(const struct job_spec *spec, enum kernel_type type)
{
    struct err err;
    struct engine_request r = {.spec = spec, .mesh = one_mesh(), .kernels = one_kernels(type)};
    struct engine *e = engine_new(&r, &err);
    if (!e)
        fail_msg("%s", err.text);
    return e;
}

static inline struct engine *one_engine(const struct job_spec *spec)
{
    return one_engine_of(spec, KERNEL_FP32);
}

/* A tensor of an engine and where its numbers lie; on one rank every tensor is whole. */
struct whole {
    const struct layout_tensor *tensor;
    size_t count;
    real *values, *gradients, *first, *second;
};

static inline struct whole whole_at(struct engine *e, size_t t)
{
    struct store *s = engine_store(e);
    const struct layout_tensor *x = &engine_layout(e)->tensors[t];
    return (struct whole){.tensor = x,
                          .count = x->shape[0] * x->shape[1],
                          .values = store_owned(s, t, STORE_MASTER).data,
                          .gradients = store_owned(s, t, STORE_GRADIENT).data,
                          .first = store_owned(s, t, STORE_FIRST).data,
                          .second = store_owned(s, t, STORE_SECOND).data};
}

static inline struct whole whole_named(struct engine *e, const char *name)
{
    const struct layout *l = engine_layout(e);
    for (size_t t = 0; t < l->n_tensors; t++)
        if (strcmp(l->tensors[t].name, name) == 0)
            return whole_at(e, t);
    fail_msg("there is no tensor %s", name);
    return (struct whole){.count = 0};
}

/* Scales of norms are 1 and a bit, everything else is around 0. */
static inline bool is_scale(const struct layout_tensor *t)
{
    return t->fill == FILL_ONE;
}

/* x (count) = fraction * size of stream, + 1 where it scales a norm */
static inline void whole_fill(const struct whole *w, uint32_t stream, double size)
{
    for (size_t i = 0; i < w->count; i++)
        w->values[i] = (real)(fraction(stream, i) * size + (is_scale(w->tensor) ? 1 : 0));
}

/* All tensors by the formula, tensor t from stream t. */
static inline void one_fill(struct engine *e, double size)
{
    for (size_t t = 0; t < engine_layout(e)->n_tensors; t++) {
        struct whole w = whole_at(e, t);
        whole_fill(&w, (uint32_t)t, size);
    }
    store_spread(engine_store(e));
}

#endif
