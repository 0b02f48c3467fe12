/* runs: what the ranks of a job do once all of them run: load, step, save, and stand still when a part of them is gone.
 *
 * The whole gang is one thing here: it makes (time / step time / slowness) steps, and is looked at only when something happens: a
 * checkpoint is due, the old high-water mark is passed (the end of the replay), the last step is done. It tells the core its step at
 * exactly those moments and just before a failure, which is all that the core's accounts need. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "sim/sim_private.h"

static const struct scenario_job *entry_of(const struct sim *sim, const struct vjob *job)
{
    return &sim->sc->jobs[job->entry];
}

static void wake(struct sim *sim, struct vjob *job, int64_t in_ms)
{
    job->stamp = sim_later(sim, in_ms, EVENT_RUN, job->id, 0);
}

static bool is_new(const struct vjob *job)
{
    return job->done >= (double)job->high;
}

/* ---- accounts ---- */

static double useful_level(const struct vjob *job)
{
    bool counts = job->state == RUN_STEPPING && is_new(job);
    return counts ? (double)job->ranks / job->slowness : 0;
}

static void enter(struct sim *sim, struct vjob *job, enum run_state state)
{
    sim->useful.value -= useful_level(job);
    job->state = state;
    sim->useful.value += useful_level(job);
}

static double rate(const struct vjob *job)
{
    return 1 / (job->step_ms * job->slowness);
}

void runs_settle(struct sim *sim, struct vjob *job)
{
    double ms = (double)(sim->now_ms - job->since_ms);
    bool fresh = is_new(job);
    job->since_ms = sim->now_ms;
    if (!job->live || ms <= 0)
        return;
    if (job->state == RUN_STEPPING) {
        sim->useful.value -= useful_level(job);
        job->done = fmin(job->done + ms * rate(job), (double)job->target);
        double undisturbed = ms / job->slowness * job->share;
        job->useful += fresh ? undisturbed : 0;
        job->slowed += fresh ? ms - undisturbed : 0;
        sim->useful.value += useful_level(job);
    }
    bool stalls = job->state == RUN_SAVING || (job->state == RUN_WAITING && job->before != RUN_LOADING);
    if (stalls && fresh)
        job->stalled += ms;
}

static int64_t whole(double steps)
{
    return (int64_t)floor(steps + 1e-6);
}

static void say_step(struct sim *sim, struct vjob *job)
{
    int64_t step = whole(job->done);
    agents_say(sim, job, "STEP", step);
    job->said = true;
    if (step > job->high)
        job->high = step;
}

/* ---- stepping ---- */

static int64_t nearest_target(const struct vjob *job)
{
    int64_t done = whole(job->done), target = job->steps;
    if (job->every > 0 && job->next_save < target)
        target = job->next_save;
    if (job->high > done && job->high < target)
        target = job->high;
    if (!job->said && done + 1 < target)
        target = done + 1; /* the first step ends what the core books as loading */
    if (job->asked && job->every > 0 && done + 1 < target)
        target = done + 1;
    return target;
}

static void set_out(struct sim *sim, struct vjob *job)
{
    enter(sim, job, RUN_STEPPING);
    job->target = nearest_target(job);
    double ms = ((double)job->target - job->done) / rate(job);
    wake(sim, job, (int64_t)ceil(fmax(ms, 0)));
}

static void finish(struct sim *sim, struct vjob *job)
{
    enter(sim, job, RUN_OVER);
    agents_finish(sim, job);
}

/* ---- checkpoints ---- */

static void announce_durable(struct sim *sim, struct vjob *job, int64_t step)
{
    agents_say(sim, job, "CHECKPOINT_DURABLE", step);
}

static void wait_there(struct sim *sim, struct vjob *job)
{
    job->before = job->state;
    job->stamp = 0;
    enter(sim, job, RUN_WAITING);
}

static void begin_save(struct sim *sim, struct vjob *job)
{
    const struct scenario_checkpoint *c = &entry_of(sim, job)->checkpoint;
    enter(sim, job, RUN_SAVING);
    if (c->overlap && job->writing) {
        wait_there(sim, job); /* for the one before */
        return;
    }
    wake(sim, job, c->stall_ms);
}

static int64_t save_after(const struct vjob *job, int64_t step)
{
    return job->every > 0 ? step - step % job->every + job->every : job->steps;
}

static void go_on_after_save(struct sim *sim, struct vjob *job)
{
    int64_t done = whole(job->done);
    job->asked = false;
    job->next_save = save_after(job, done);
    if (done >= job->steps)
        finish(sim, job);
    else
        set_out(sim, job);
}

/* Training goes on; the checkpoint is written beside it. The last one is waited for. */
static void write_beside(struct sim *sim, struct vjob *job)
{
    int64_t step = whole(job->done);
    job->writing = true;
    job->durable_stamp = sim_later(sim, entry_of(sim, job)->checkpoint.cost_ms, EVENT_DURABLE, job->id, step);
    if (step >= job->steps)
        wait_there(sim, job);
    else
        go_on_after_save(sim, job);
}

static void saved(struct sim *sim, struct vjob *job)
{
    if (entry_of(sim, job)->checkpoint.overlap) {
        write_beside(sim, job);
        return;
    }
    if (sim->storage_out > 0) {
        wait_there(sim, job);
        return;
    }
    announce_durable(sim, job, whole(job->done));
    go_on_after_save(sim, job);
}

void runs_durable(struct sim *sim, const struct queue_event *event)
{
    struct vjob *job = sim_job(sim, event->a);
    if (!job->live || job->durable_stamp != event->stamp || job->state == RUN_BROKEN)
        return;
    if (sim->storage_out > 0) {
        job->durable_stamp =
            sim_later(sim, entry_of(sim, job)->checkpoint.cost_ms, EVENT_DURABLE, event->a, event->b);
        return; /* written once more; while it fails again, so again */
    }
    runs_settle(sim, job);
    job->writing = false;
    announce_durable(sim, job, event->b);
    if (job->state != RUN_WAITING || job->before != RUN_SAVING)
        return;
    if (event->b >= job->steps) {
        finish(sim, job);
        return;
    }
    enter(sim, job, RUN_SAVING);
    begin_save(sim, job);
}

void runs_ask_checkpoint(struct sim *sim, struct vjob *job)
{
    if (!job->live || job->asked)
        return;
    job->asked = true;
    if (job->state != RUN_STEPPING)
        return;
    runs_settle(sim, job);
    set_out(sim, job);
}

/* ---- storage ---- */

void runs_storage(struct sim *sim)
{
    for (size_t i = 0; i < sim->n_jobs && sim->storage_out == 0; i++) {
        struct vjob *job = sim->jobs[i];
        bool waits = job->live && job->state == RUN_WAITING && !job->writing;
        if (!waits)
            continue;
        runs_settle(sim, job);
        enter(sim, job, job->before);
        wake(sim, job,
             job->before == RUN_LOADING ? entry_of(sim, job)->load_ms
                                        : entry_of(sim, job)->checkpoint.cost_ms);
    }
}

/* ---- from the start to the end of an attempt ---- */

static void loaded(struct sim *sim, struct vjob *job)
{
    if (sim->storage_out > 0) {
        wait_there(sim, job);
        return;
    }
    job->next_save = save_after(job, whole(job->done));
    set_out(sim, job);
}

static void arrived_at_target(struct sim *sim, struct vjob *job)
{
    job->done = (double)job->target;
    bool save = job->every > 0 && (job->target == job->next_save || job->target == job->steps || job->asked);
    say_step(sim, job);
    if (save)
        begin_save(sim, job);
    else if (job->target >= job->steps)
        finish(sim, job);
    else
        set_out(sim, job);
}

void runs_event(struct sim *sim, const struct queue_event *event)
{
    struct vjob *job = sim_job(sim, event->a);
    if (!job->live || job->stamp != event->stamp)
        return;
    runs_settle(sim, job);
    if (job->state == RUN_LOADING)
        loaded(sim, job);
    else if (job->state == RUN_STEPPING)
        arrived_at_target(sim, job);
    else if (job->state == RUN_SAVING)
        saved(sim, job);
}

static double slowest(const struct sim *sim, const struct vjob *job)
{
    for (size_t i = 0; i < job->n_nodes; i++)
        if (sim->nodes[job->nodes[i]].slow)
            return sim->sc->slow_factor;
    return 1;
}

void runs_node_runs(struct sim *sim, struct vjob *job)
{
    if (++job->n_running < job->n_nodes || job->state != RUN_STARTING)
        return;
    job->since_ms = sim->now_ms;
    job->slowness = slowest(sim, job);
    enter(sim, job, RUN_LOADING);
    wake(sim, job, entry_of(sim, job)->load_ms);
}

void runs_speed(struct sim *sim, struct vnode *node)
{
    for (size_t i = 0; i < node->n_shims; i++) {
        struct vjob *job = sim_job(sim, node->shims[i].job);
        if (!job->live || job->attempt != node->shims[i].attempt)
            continue;
        runs_settle(sim, job);
        sim->useful.value -= useful_level(job);
        job->slowness = slowest(sim, job);
        sim->useful.value += useful_level(job);
        if (job->state == RUN_STEPPING)
            set_out(sim, job);
    }
}

/* The steps up to here were reported as they were made; so the core knows them although the rank is gone now. */
void runs_break(struct sim *sim, struct vjob *job)
{
    if (!job->live || job->state == RUN_STARTING || job->state == RUN_BROKEN || job->state == RUN_OVER)
        return;
    runs_settle(sim, job);
    if (job->state == RUN_STEPPING)
        say_step(sim, job);
    job->done = floor(job->done + 1e-6);
    enter(sim, job, RUN_BROKEN);
    job->stamp = job->durable_stamp = 0;
    job->writing = false;
}

/* ---- attempts of the core ---- */

static int64_t *group_seats(struct sim *sim, struct vjob *job, const struct attempt_record *a)
{
    int64_t *counts = mem_zero(a->n_nodes + 1, sizeof(*counts));
    job->nodes = mem_grow(job->nodes, a->n_nodes + 1, sizeof(*job->nodes));
    job->n_nodes = a->n_nodes;
    struct idmap *seats = idmap_new();
    for (size_t i = 0; i < a->n_nodes; i++) {
        struct vnode *node = sim_node(sim, a->nodes[i].node);
        job->nodes[i] = (size_t)(node - sim->nodes);
        idmap_put(seats, a->nodes[i].node,
                  (void *)(uintptr_t)(i + 1)); /* NOLINT(performance-no-int-to-ptr) */
    }
    for (size_t r = 0; r < a->world; r++)
        counts[(size_t)(uintptr_t)idmap_get(seats, a->placement[r].node) - 1]++;
    idmap_free(seats);
    return counts;
}

static void hold(struct sim *sim, struct vjob *job, int64_t sign)
{
    for (size_t i = 0; i < job->n_nodes; i++)
        measure_hold(sim, &sim->nodes[job->nodes[i]], sign * job->seat_ranks[i]);
}

/* Spares are held like other slots, and counted on their own beside that. */
static void stand_by(struct sim *sim, const struct vjob *job, double sign)
{
    sim->spare.value += sign * (double)job->n_spares;
    sim->held.value += sign * (double)job->n_spares;
}

static void end(struct sim *sim, struct vjob *job)
{
    runs_settle(sim, job);
    enter(sim, job, RUN_OVER);
    hold(sim, job, -1);
    stand_by(sim, job, -1);
    job->live = false;
    job->idle_ms = sim->now_ms;
    job->stamp = job->durable_stamp = 0;
}

/* With fewer ranks an elastic job takes longer in proportion: its global batch stays the same. */
static void take_size(struct sim *sim, struct vjob *job, const struct attempt_record *a)
{
    job->ranks = (int64_t)a->world;
    job->share = (double)job->ranks / (double)entry_of(sim, job)->spec->ranks;
    job->step_ms = sim->entry_step_ms[job->entry] / job->share;
}

static void begin(struct sim *sim, struct vjob *job, const struct attempt_record *a)
{
    if (job->live)
        end(sim, job);
    take_size(sim, job, a);
    free(job->seat_ranks);
    job->attempt = a->number;
    job->seat_ranks = group_seats(sim, job, a);
    job->live = true;
    job->idle_ms = -1;
    job->n_running = 0;
    job->state = RUN_STARTING;
    job->done = a->from_step > 0 ? (double)a->from_step : 0;
    job->said = job->asked = job->writing = false;
    job->slowness = 1;
    job->since_ms = sim->now_ms;
    hold(sim, job, 1);
    job->n_spares = (int64_t)a->n_spares;
    stand_by(sim, job, 1);
}

void runs_attempt(struct sim *sim, int64_t id, int64_t number)
{
    struct vjob *job = sim_job(sim, id);
    const struct attempt_record *a = core_attempt(sim->core, id, number);
    if (a && number > job->attempt)
        begin(sim, job, a);
    if (number != job->attempt || !job->live)
        return;
    if (!a || a->state == ATTEMPT_ENDED)
        end(sim, job);
    else if (a->state == ATTEMPT_STOPPING)
        runs_break(sim, job);
}
