/* outside: a token that is none of the vocabulary, as the first of a sequence, where it is nobody's target: only the first stage of a pipeline can
 * notice, and the loss that every rank gets must be NaN. */
#ifndef BELAY_TESTS_MESH_OUTSIDE_H
#define BELAY_TESTS_MESH_OUTSIDE_H

#include <math.h>

#include "tests/mesh/lab.h"

static int outside_fill(void *owner, uint64_t first, size_t count, int32_t *tokens, int32_t *targets,
                        struct err *err)
{
    const struct job_model *m = owner;
    int rc = lab_fill(owner, first, count, tokens, targets, err);
    for (size_t i = 0; i < count; i++)
        if (first + i == 5)
            tokens[i * (size_t)m->context] = (int32_t)m->vocab;
    return rc;
}

/* 1 when the loss of a step is NaN, 0 when not, on this rank, with `pp` stages; -1 when no engine can be made. */
static int outside_noticed(struct comm *comm, const struct kernels *kernels, int pp, struct err *err)
{
    struct mesh mesh;
    struct mesh_sizes sizes = {1, pp, 1, 1, 1};
    struct job_spec spec = lab_spec(LAB_GPT2);
    struct engine_request request = {.spec = &spec, .mesh = &mesh, .kernels = kernels};
    struct engine_source source = {&spec.train.model, outside_fill};
    struct engine_result result = {.loss = NAN};
    spec.pp = pp;
    spec.train.batch_micro = 4;
    if (mesh_open(&mesh, comm, &sizes, true, err) != 0)
        return -1;
    if (mesh.size.tp == 0) /* no rank of this mesh */
        return 1;
    struct engine *e = engine_new(&request, err);
    if (!e || engine_load(e, &source, 0, err) != 0)
        return -1;
    store_init(engine_store(e), &spec.train.model, LAB_SEED);
    engine_gradients(e, 1, &result);
    engine_free(e);
    return isnan(result.loss);
}

#endif
