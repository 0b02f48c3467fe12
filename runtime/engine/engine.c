/* engine: see engine.h. The life of an engine, its samples, and the passes of a step. */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"
#include "runtime/engine/engine_private.h"

/* ---- life ---- */

static int64_t *piece_layers(const struct job_spec *spec, int pieces)
{
    int64_t *layers = mem_zero((size_t)pieces, sizeof *layers);
    for (int i = 0; i < pieces; i++)
        layers[i] = pieces == 1 ? spec->train.model.layers : job_stage_layers(spec, i);
    return layers;
}

static void make_layout(struct engine *e)
{
    const struct job_spec *spec = e->r.spec;
    int64_t *layers = piece_layers(spec, e->mesh->size.pp * e->virtual_stages);
    struct layout_request r = {.model = &spec->train.model,
                               .size = e->mesh->size,
                               .tp = e->mesh->tp,
                               .pp = e->mesh->pp,
                               .replica = e->mesh->replica,
                               .piece_layers = layers,
                               .virtual_stages = e->virtual_stages,
                               .sequence = spec->sequence && e->mesh->size.tp > 1};
    layout_make(&e->layout, &r);
    free(layers);
    for (size_t i = 0; i < e->layout.n_chunks; i++) {
        e->begins = e->begins || e->layout.chunks[i].begins;
        e->ends = e->ends || e->layout.chunks[i].ends;
    }
}

static int make_model(struct engine *e, struct err *err)
{
    const struct job_spec *spec = e->r.spec;
    struct model_request r = {.config = &spec->train.model,
                              .mesh = e->mesh,
                              .kernels = e->k,
                              .layout = &e->layout,
                              .units = store_units(e->store),
                              .hooks = store_hooks(e->store),
                              .batch = e->batch,
                              .context = e->context,
                              .sequence = spec->sequence,
                              .recompute = spec->train.recompute,
                              .fp8 = spec->train.precision == PRECISION_FP8,
                              .split_weights = e->schedule == PIPELINE_ZERO_BUBBLE,
                              .fixed_weights = spec->zero < 3, /* what the store lends moves */
                              .fixed_gradients = spec->zero < 2,
                              .slots = e->slots,
                              .seed = spec->train.seed};
    e->model = model_new(&r, err);
    return e->model ? 0 : -1;
}

static int make_passes(struct engine *e, struct err *err)
{
    e->passes = pipeline_passes(e->schedule, e->mesh->size.pp, e->virtual_stages, e->micro_batches,
                                e->mesh->pp, &e->n_passes, err);
    if (!e->passes)
        return -1;
    e->slots = pipeline_in_flight(e->passes, e->n_passes);
    e->slot_taken = mem_zero((size_t)e->slots, sizeof *e->slot_taken);
    e->slot_of = mem_zero((size_t)e->virtual_stages * (size_t)e->micro_batches, sizeof *e->slot_of);
    e->arrivals = mem_zero(e->n_passes, sizeof *e->arrivals);
    return 0;
}

/* With one stage there is no pipeline: pieces and schedules that share it out differently mean nothing. */
static void set_sizes(struct engine *e)
{
    const struct job_spec *spec = e->r.spec;
    const struct job_train *t = &spec->train;
    bool pipeline = e->mesh->size.pp > 1;
    e->schedule = pipeline ? spec->pipeline : PIPELINE_1F1B;
    e->virtual_stages = pipeline ? (int)spec->virtual_stages : 1;
    e->batch = (size_t)t->batch_micro;
    e->context = (size_t)t->model.context;
    e->tokens = e->context / (size_t)e->mesh->size.cp;
    e->micro_batches = (int)(t->batch_global / (t->batch_micro * e->mesh->size.dp));
}

struct engine *engine_new(const struct engine_request *request, struct err *err)
{
    struct engine *e = mem_zero(1, sizeof *e);
    e->r = *request;
    e->k = request->kernels;
    e->mesh = request->mesh;
    set_sizes(e);
    if (make_passes(e, err) != 0) {
        engine_free(e);
        return NULL;
    }
    make_layout(e);
    struct store_request store = {
        .layout = &e->layout, .mesh = e->mesh, .kernels = e->k, .zero = (int)request->spec->zero};
    e->store = store_new(&store, err);
    if (!e->store || make_model(e, err) != 0) {
        engine_free(e);
        return NULL;
    }
    size_t step = (size_t)e->micro_batches * e->batch * e->tokens;
    e->samples = mem_zero(step, sizeof *e->samples);
    e->targets = mem_zero(step, sizeof *e->targets);
    e->whole = mem_zero(2 * e->context, sizeof *e->whole);
    return e;
}

void engine_free(struct engine *engine)
{
    if (!engine)
        return;
    model_free(engine->model);
    store_free(engine->store);
    layout_free(&engine->layout);
    for (size_t i = 0; i < engine->n_boundaries; i++)
        engine->k->free(engine->boundaries[i].data);
    free(engine->boundaries);
    free(engine->passes);
    free(engine->slot_of);
    free(engine->slot_taken);
    free(engine->arrivals);
    free(engine->samples);
    free(engine->targets);
    free(engine->whole);
    free(engine);
}

struct store *engine_store(struct engine *engine)
{
    return engine->store;
}

const struct layout *engine_layout(const struct engine *engine)
{
    return &engine->layout;
}

size_t engine_activation_bytes(const struct engine *engine)
{
    return model_activation_bytes(engine->model);
}

real *engine_fp8(const struct engine *engine, size_t *count)
{
    return model_fp8(engine->model, count);
}

double engine_bubble(const struct engine *engine)
{
    if (engine->mesh->size.pp == 1)
        return 0;
    return pipeline_bubble(engine->schedule, engine->mesh->size.pp, engine->virtual_stages,
                           engine->micro_batches);
}

/* ---- samples ---- */

/* Keeps this rank's positions of one sequence. */
void engine_keep(const struct engine *e, size_t index)
{
    const int32_t *at = model_positions(e->model);
    int32_t *tokens = e->samples + index * e->tokens, *targets = e->targets + index * e->tokens;
    for (size_t i = 0; i < e->tokens; i++) {
        tokens[i] = e->whole[at[i]];
        targets[i] = e->whole[e->context + (size_t)at[i]];
    }
}

int engine_load(struct engine *engine, const struct engine_source *source, uint64_t first, struct err *err)
{
    struct engine *e = engine;
    size_t mine = (size_t)e->micro_batches * e->batch;
    e->first_sample = first + (uint64_t)e->mesh->dp * mine;
    for (size_t i = 0; (e->begins || e->ends) && i < mine; i++) {
        if (source->fill(source->owner, e->first_sample + i, 1, e->whole, e->whole + e->context, err) != 0)
            return -1;
        engine_keep(e, i);
    }
    return 0;
}

double engine_count_targets(const struct engine *e, size_t sequences)
{
    uint64_t counted = 0;
    for (size_t i = 0; e->ends && i < sequences * e->tokens; i++)
        counted += e->targets[i] >= 0;
    /* on the last stage: one rank for each part of the batch */
    return comm_sum_double(e->mesh->dp_group, (double)counted);
}

/* ---- passes ---- */

static struct model_batch batch_of(const struct engine *e, const struct pipeline_pass *p,
                                   const struct model_batch *all)
{
    size_t at = (size_t)p->micro * e->batch;
    struct model_batch b = *all;
    b.slot = *stages_slot(e, p);
    b.chunk = (size_t)p->chunk;
    b.tokens = e->samples + at * e->tokens;
    b.targets = e->targets + at * e->tokens;
    b.first_sample = e->first_sample + at;
    return b;
}

void engine_forward(struct engine *e, const struct pipeline_pass *p, const struct model_batch *all,
                    double *busy_s)
{
    struct model_batch b = batch_of(e, p, all);
    bool ends = e->layout.chunks[p->chunk].ends;
    int out = ends ? -1 : stages_take(e);
    double start = clock_monotonic_s();
    model_forward(e->model, &b, ends ? NULL : e->boundaries[out].data);
    *busy_s += clock_monotonic_s() - start;
    if (!ends)
        stages_send(e, out, true, p->chunk);
}

static void backward_pass(struct engine *e, const struct pipeline_pass *p, const struct model_batch *all,
                          double *busy_s, int d)
{
    struct model_batch b = batch_of(e, p, all);
    double start = clock_monotonic_s();
    model_backward(e->model, &b, e->boundaries[d].data);
    *busy_s += clock_monotonic_s() - start;
    if (e->layout.chunks[p->chunk].begins)
        e->boundaries[d].taken = false;
    else
        stages_send(e, d, false, p->chunk);
    if (e->schedule != PIPELINE_ZERO_BUBBLE)
        stages_release(e, p);
}

static void weights_pass(struct engine *e, const struct pipeline_pass *p, const struct model_batch *all,
                         double *busy_s)
{
    struct model_batch b = batch_of(e, p, all);
    double start = clock_monotonic_s();
    model_weights(e->model, &b);
    *busy_s += clock_monotonic_s() - start;
    stages_release(e, p);
}

static void run_pass(struct engine *e, size_t i, const struct model_batch *all, double *busy_s)
{
    const struct pipeline_pass *p = &e->passes[i];
    if (p->kind != PASS_WEIGHTS)
        stages_await(e, i);
    if (p->kind == PASS_FORWARD)
        engine_forward(e, p, all, busy_s);
    else if (p->kind == PASS_BACKWARD)
        backward_pass(e, p, all, busy_s, e->arrivals[i].boundary);
    else
        weights_pass(e, p, all, busy_s);
}

/* Sums over ranks that have different tokens (cross-entropy) or layers and tokens (router losses), each once. The cross-entropy of a stage that
 * does not end the model is 0, or NaN when its tokens are none of the vocabulary. */
struct share engine_sum(const struct engine *e, const struct model_loss *own, double counted)
{
    struct share mine = {0, 0, 0}, sum = {0, 0, 0};
    size_t size = (size_t)comm_size(e->mesh->world);
    struct share *all = mem_zero(size, sizeof *all);
    if (e->mesh->tp == 0)
        mine =
            (struct share){own->cross_entropy, own->router, e->ends && e->mesh->replica == 0 ? counted : 0};
    comm_share(e->mesh->world, &mine, sizeof mine, all);
    for (size_t i = 0; i < size; i++) {
        sum.cross_entropy += all[i].cross_entropy;
        sum.router += all[i].router;
        sum.counted += all[i].counted;
    }
    free(all);
    return sum;
}

void engine_gradients(struct engine *engine, int64_t step, struct engine_result *result)
{
    struct engine *e = engine;
    double sequences = (double)e->r.spec->train.batch_global, busy_s = 0;
    double counted = engine_count_targets(e, (size_t)e->micro_batches * e->batch);
    struct model_batch all = {.step = (uint64_t)step,
                              .scale = counted > 0 ? 1 / counted : 0,
                              .aux_scale = 1 / sequences,
                              .train = true};
    stages_begin(e);
    store_begin(e->store, e->micro_batches);
    model_begin(e->model);
    double start = clock_monotonic_s();
    for (size_t i = 0; i < e->n_passes; i++)
        run_pass(e, i, &all, &busy_s);
    *result = (struct engine_result){.busy_s = busy_s, .span_s = clock_monotonic_s() - start};
    stages_end(e);
    store_finish(e->store);
    result->norm = store_norm(e->store); /* here the host waits for all that it has asked for */
    if (e->r.behind)
        result->busy_s = result->span_s = clock_monotonic_s() - start;
    struct model_loss own = model_take_loss(e->model);
    struct share sum = engine_sum(e, &own, counted);
    result->loss = sum.counted > 0 ? sum.cross_entropy / sum.counted : sum.cross_entropy;
    result->own = own.cross_entropy;
    result->router = sum.router / sequences;
    result->counted = (uint64_t)sum.counted;
}

void engine_update(struct engine *engine, const struct kernel_adamw *adamw)
{
    store_update(engine->store, adamw);
}
