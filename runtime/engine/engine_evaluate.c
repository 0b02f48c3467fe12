/* engine_evaluate: the loss of samples that are not learned from: forward only, one micro-batch after the other through all chunks. */
#include <math.h>

#include "runtime/engine/engine_private.h"

/* This replica's next `batch` sequences; those from `end` on are read as others' and not counted. */
static int load_held(struct engine *e, const struct engine_source *source, uint64_t first, uint64_t end,
                     struct err *err)
{
    e->first_sample = first;
    for (size_t i = 0; (e->begins || e->ends) && i < e->batch; i++) {
        uint64_t sample = first + i < end ? first + i : end - 1;
        if (source->fill(source->owner, sample, 1, e->whole, e->whole + e->context, err) != 0)
            return -1;
        engine_keep(e, i);
        for (size_t j = 0; first + i >= end && j < e->tokens; j++)
            e->targets[i * e->tokens + j] = -1;
    }
    return 0;
}

/* One micro-batch through all chunks of this rank, in slot 0. */
static void evaluate_batch(struct engine *e)
{
    struct model_batch all = {.train = false};
    double busy_s = 0;
    stages_begin(e);
    for (int chunk = 0; chunk < e->virtual_stages; chunk++) {
        struct pipeline_pass p = {PASS_FORWARD, 0, chunk};
        const struct layout_chunk *c = &e->layout.chunks[chunk];
        *stages_slot(e, &p) = 0;
        if (!c->begins)
            stages_receive(e, 0, chunk);
        engine_forward(e, &p, &all, &busy_s);
    }
    stages_end(e);
}

int engine_evaluate(struct engine *engine, const struct engine_source *source, uint64_t first, uint64_t count,
                    double *loss, struct err *err)
{
    struct engine *e = engine;
    uint64_t round = (uint64_t)e->mesh->size.dp * e->batch, end = first + count;
    double counted = 0;
    for (uint64_t at = first; at < end; at += round) {
        int failed = load_held(e, source, at + (uint64_t)e->mesh->dp * e->batch, end, err);
        if (comm_max_int(e->mesh->world, failed != 0) != 0)
            return failed ? -1 : err_set(err, "another rank could not read the samples of the evaluation");
        counted += engine_count_targets(e, e->batch);
        evaluate_batch(e);
    }
    struct model_loss own = model_take_loss(e->model);
    struct share sum = engine_sum(e, &own, counted);
    *loss = sum.counted > 0 ? sum.cross_entropy / sum.counted : NAN;
    return 0;
}
