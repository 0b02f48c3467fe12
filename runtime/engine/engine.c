/* engine: see engine.h. A pass waits for its input, computes, and sends its output; receives are started one pass ahead, sends are waited for
 * when the step ends or when their buffer is wanted again. */
#include "runtime/engine/engine.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"

/* Room for what one pass sends or receives, (R,C). */
struct boundary {
    act *data;
    struct comm_request *sending; /* done: free again */
    bool taken;
};

/* An input on its way. */
struct arrival {
    struct comm_request *request;
    int boundary; /* backward: where it goes; forward: -1, it goes into the slot */
    bool started;
};

struct engine {
    struct engine_request r;
    const struct kernels *k;
    const struct mesh *mesh;
    struct layout layout;
    struct store *store;
    struct model *model;
    struct pipeline_pass *passes;
    size_t n_passes;
    int virtual_stages, micro_batches;
    enum job_pipeline schedule;
    size_t batch, context,
        tokens; /* sequences of a micro-batch; tokens of a sequence, and of this rank's part of it */
    int slots;
    int *slot_of; /* (chunks, micro_batches): -1 = none */
    bool *slot_taken;
    struct arrival *arrivals; /* (n_passes) */
    struct boundary *boundaries;
    size_t n_boundaries;
    int32_t *samples, *targets; /* (micro_batches, B, T/CP) */
    int32_t *whole;             /* (2, T) one sequence */
    uint64_t first_sample;
    bool begins, ends; /* has the first piece; the last */
};

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
                              .split_weights = e->schedule == PIPELINE_ZERO_BUBBLE,
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

double engine_bubble(const struct engine *engine)
{
    if (engine->mesh->size.pp == 1)
        return 0;
    return pipeline_bubble(engine->schedule, engine->mesh->size.pp, engine->virtual_stages,
                           engine->micro_batches);
}

/* ---- samples ---- */

/* Keeps this rank's positions of one sequence. */
static void keep_own(const struct engine *e, size_t index)
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
        keep_own(e, i);
    }
    return 0;
}

static double count_targets(const struct engine *e, size_t sequences)
{
    uint64_t counted = 0;
    for (size_t i = 0; e->ends && i < sequences * e->tokens; i++)
        counted += e->targets[i] >= 0;
    /* on the last stage: one rank for each part of the batch */
    return comm_sum_double(e->mesh->dp_group, (double)counted);
}

/* ---- between stages ---- */

static int take_boundary(struct engine *e)
{
    for (size_t i = 0; i < e->n_boundaries; i++) {
        struct boundary *b = &e->boundaries[i];
        if (!b->taken && b->sending && comm_done(b->sending)) {
            comm_wait(b->sending);
            b->sending = NULL;
        }
        if (!b->taken && !b->sending) {
            b->taken = true;
            return (int)i;
        }
    }
    e->boundaries = mem_grow(e->boundaries, e->n_boundaries + 1, sizeof *e->boundaries);
    e->boundaries[e->n_boundaries] =
        (struct boundary){.data = e->k->alloc(model_boundary(e->model) * e->k->act_size), .taken = true};
    if (!e->boundaries[e->n_boundaries].data) {
        log_error("no memory for what is sent to the next stage of the pipeline; use a smaller batch.micro");
        abort(); /* in the middle of a collective step nothing can be undone */
    }
    return (int)e->n_boundaries++;
}

static size_t boundary_bytes(const struct engine *e)
{
    return model_boundary(e->model) * e->k->act_size;
}

/* The stage `by` pieces further on. */
static int stage(const struct engine *e, int by)
{
    int pp = e->mesh->size.pp;
    return (e->mesh->pp + by + pp) % pp;
}

/* Tags tell activations from gradients, and the chunks of the receiver apart. */
static int tag_of(bool forward, int chunk)
{
    return 2 * chunk + forward;
}

/* Boundary `i` goes to a neighbour and is free when it has gone. */
static void send_boundary(struct engine *e, int i, bool forward, int chunk)
{
    struct boundary *b = &e->boundaries[i];
    int pp = e->mesh->size.pp, last = pp - 1;
    int theirs = forward ? chunk + (e->mesh->pp == last) : chunk - (e->mesh->pp == 0);
    b->sending = comm_send_start(e->mesh->pp_group, b->data, boundary_bytes(e), stage(e, forward ? 1 : -1),
                                 tag_of(forward, theirs));
    b->taken = false;
}

static int *slot_at(const struct engine *e, const struct pipeline_pass *p)
{
    return &e->slot_of[p->chunk * e->micro_batches + p->micro];
}

/* A free slot; -1 when all are taken. */
static int take_slot(struct engine *e)
{
    for (int i = 0; i < e->slots; i++)
        if (!e->slot_taken[i]) {
            e->slot_taken[i] = true;
            return i;
        }
    return -1;
}

static bool needs_input(const struct engine *e, const struct pipeline_pass *p)
{
    const struct layout_chunk *c = &e->layout.chunks[p->chunk];
    return (p->kind == PASS_FORWARD && !c->begins) || (p->kind == PASS_BACKWARD && !c->ends);
}

/* Starts the receive of pass i, unless that has happened or there is no slot for it yet. */
static void start_arrival(struct engine *e, size_t i)
{
    const struct pipeline_pass *p = &e->passes[i];
    struct arrival *a = &e->arrivals[i];
    bool forward = p->kind == PASS_FORWARD;
    if (a->started)
        return;
    if (forward && *slot_at(e, p) < 0)
        *slot_at(e, p) = take_slot(e);
    if (forward && *slot_at(e, p) < 0)
        return;
    a->boundary = forward ? -1 : take_boundary(e);
    a->started = true;
    if (!needs_input(e, p))
        return;
    act *to =
        forward ? model_input(e->model, *slot_at(e, p), (size_t)p->chunk) : e->boundaries[a->boundary].data;
    a->request = comm_receive_start(e->mesh->pp_group, to, boundary_bytes(e), stage(e, forward ? -1 : 1),
                                    tag_of(forward, p->chunk));
}

/* The input of pass i is there; that of the next one that has any is on its way. */
static void await_arrival(struct engine *e, size_t i)
{
    start_arrival(e, i);
    for (size_t j = i + 1; j < e->n_passes; j++)
        if (needs_input(e, &e->passes[j])) {
            start_arrival(e, j);
            break;
        }
    comm_wait(e->arrivals[i].request);
    e->arrivals[i].request = NULL;
}

/* ---- passes ---- */

/* What a step, or an evaluation, has come to so far on this rank. */
struct tally {
    double cross_entropy, router, busy_s;
};

static struct model_batch batch_of(const struct engine *e, const struct pipeline_pass *p,
                                   const struct model_batch *all)
{
    size_t at = (size_t)p->micro * e->batch;
    struct model_batch b = *all;
    b.slot = *slot_at(e, p);
    b.chunk = (size_t)p->chunk;
    b.tokens = e->samples + at * e->tokens;
    b.targets = e->targets + at * e->tokens;
    b.first_sample = e->first_sample + at;
    return b;
}

static void release_slot(struct engine *e, const struct pipeline_pass *p)
{
    e->slot_taken[*slot_at(e, p)] = false;
    *slot_at(e, p) = -1;
}

static void forward_pass(struct engine *e, const struct pipeline_pass *p, const struct model_batch *all,
                         struct tally *t)
{
    struct model_batch b = batch_of(e, p, all);
    bool ends = e->layout.chunks[p->chunk].ends;
    int out = ends ? -1 : take_boundary(e);
    double start = clock_monotonic_s();
    struct model_loss loss = model_forward(e->model, &b, ends ? NULL : e->boundaries[out].data);
    t->busy_s += clock_monotonic_s() - start;
    t->cross_entropy += loss.cross_entropy;
    t->router += loss.router;
    if (!ends)
        send_boundary(e, out, true, p->chunk);
}

static void backward_pass(struct engine *e, const struct pipeline_pass *p, const struct model_batch *all,
                          struct tally *t, int d)
{
    struct model_batch b = batch_of(e, p, all);
    double start = clock_monotonic_s();
    model_backward(e->model, &b, e->boundaries[d].data);
    t->busy_s += clock_monotonic_s() - start;
    if (e->layout.chunks[p->chunk].begins)
        e->boundaries[d].taken = false;
    else
        send_boundary(e, d, false, p->chunk);
    if (e->schedule != PIPELINE_ZERO_BUBBLE)
        release_slot(e, p);
}

static void weights_pass(struct engine *e, const struct pipeline_pass *p, const struct model_batch *all,
                         struct tally *t)
{
    struct model_batch b = batch_of(e, p, all);
    double start = clock_monotonic_s();
    model_weights(e->model, &b);
    t->busy_s += clock_monotonic_s() - start;
    release_slot(e, p);
}

static void run_pass(struct engine *e, size_t i, const struct model_batch *all, struct tally *t)
{
    const struct pipeline_pass *p = &e->passes[i];
    if (p->kind != PASS_WEIGHTS)
        await_arrival(e, i);
    if (p->kind == PASS_FORWARD)
        forward_pass(e, p, all, t);
    else if (p->kind == PASS_BACKWARD)
        backward_pass(e, p, all, t, e->arrivals[i].boundary);
    else
        weights_pass(e, p, all, t);
}

static void begin_passes(struct engine *e)
{
    memset(e->arrivals, 0, e->n_passes * sizeof *e->arrivals);
    for (int i = 0; i < e->virtual_stages * e->micro_batches; i++)
        e->slot_of[i] = -1;
}

static void end_passes(struct engine *e)
{
    for (size_t i = 0; i < e->n_boundaries; i++) {
        comm_wait(e->boundaries[i].sending);
        e->boundaries[i].sending = NULL;
    }
}

/* What each rank adds to the sums over the world. */
struct share {
    double cross_entropy, router, counted;
};

/* Sums over ranks that have different tokens (cross-entropy) or layers and tokens (router losses), each once. The cross-entropy of a stage that
 * does not end the model is 0, or NaN when its tokens are none of the vocabulary. */
static struct share sum_up(const struct engine *e, const struct tally *t, double counted)
{
    struct share mine = {0, 0, 0}, sum = {0, 0, 0};
    size_t size = (size_t)comm_size(e->mesh->world);
    struct share *all = mem_zero(size, sizeof *all);
    if (e->mesh->tp == 0)
        mine = (struct share){t->cross_entropy, t->router, e->ends && e->mesh->replica == 0 ? counted : 0};
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
    struct tally t = {0, 0, 0};
    double sequences = (double)e->r.spec->train.batch_global;
    double counted = count_targets(e, (size_t)e->micro_batches * e->batch);
    struct model_batch all = {.step = (uint64_t)step,
                              .scale = counted > 0 ? 1 / counted : 0,
                              .aux_scale = 1 / sequences,
                              .train = true};
    begin_passes(e);
    store_begin(e->store, e->micro_batches);
    double start = clock_monotonic_s();
    for (size_t i = 0; i < e->n_passes; i++)
        run_pass(e, i, &all, &t);
    *result = (struct engine_result){.busy_s = t.busy_s, .span_s = clock_monotonic_s() - start};
    end_passes(e);
    store_finish(e->store);
    struct share sum = sum_up(e, &t, counted);
    result->loss = sum.counted > 0 ? sum.cross_entropy / sum.counted : sum.cross_entropy;
    result->own = t.cross_entropy;
    result->router = sum.router / sequences;
    result->counted = (uint64_t)sum.counted;
    result->norm = store_norm(e->store);
}

void engine_update(struct engine *engine, const struct kernel_adamw *adamw)
{
    store_update(engine->store, adamw);
}

/* ---- evaluation: forward only, piece by piece in order ---- */

/* This replica's next `batch` sequences; those from `end` on are read as others' and not counted. */
static int load_held(struct engine *e, const struct engine_source *source, uint64_t first, uint64_t end,
                     struct err *err)
{
    e->first_sample = first;
    for (size_t i = 0; (e->begins || e->ends) && i < e->batch; i++) {
        uint64_t sample = first + i < end ? first + i : end - 1;
        if (source->fill(source->owner, sample, 1, e->whole, e->whole + e->context, err) != 0)
            return -1;
        keep_own(e, i);
        for (size_t j = 0; first + i >= end && j < e->tokens; j++)
            e->targets[i * e->tokens + j] = -1;
    }
    return 0;
}

/* One micro-batch through all chunks of this rank, in slot 0. */
static void evaluate_batch(struct engine *e, struct tally *t)
{
    struct model_batch all = {.train = false};
    begin_passes(e);
    for (int chunk = 0; chunk < e->virtual_stages; chunk++) {
        struct pipeline_pass p = {PASS_FORWARD, 0, chunk};
        const struct layout_chunk *c = &e->layout.chunks[chunk];
        *slot_at(e, &p) = 0;
        if (!c->begins)
            comm_wait(comm_receive_start(e->mesh->pp_group, model_input(e->model, 0, (size_t)chunk),
                                         boundary_bytes(e), stage(e, -1), tag_of(true, chunk)));
        forward_pass(e, &p, &all, t);
    }
    end_passes(e);
}

int engine_evaluate(struct engine *engine, const struct engine_source *source, uint64_t first, uint64_t count,
                    double *loss, struct err *err)
{
    struct engine *e = engine;
    struct tally t = {0, 0, 0};
    uint64_t round = (uint64_t)e->mesh->size.dp * e->batch, end = first + count;
    double counted = 0;
    for (uint64_t at = first; at < end; at += round) {
        int failed = load_held(e, source, at + (uint64_t)e->mesh->dp * e->batch, end, err);
        if (comm_max_int(e->mesh->world, failed != 0) != 0)
            return failed ? -1 : err_set(err, "another rank could not read the samples of the evaluation");
        counted += count_targets(e, e->batch);
        evaluate_batch(e, &t);
    }
    struct share sum = sum_up(e, &t, counted);
    *loss = sum.counted > 0 ? sum.cross_entropy / sum.counted : 0;
    return 0;
}
