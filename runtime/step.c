/* step: see step.h.
 *
 * First every rank reads its samples and all tell each other whether they can go on and what was asked of them, so that all act alike and nobody
 * is left waiting in the middle. Then the engine computes, and everybody has the same loss and norm to judge. The state that a checkpoint
 * describes changes in one place, after the update. */
#include "runtime/step.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "runtime/engine/schedule.h"
#include "runtime/exits.h"
#include "runtime/save.h"
#include "runtime/signals.h"

/* What the ranks tell each other before a step. */
struct word {
    int code; /* exit code when this rank cannot go on */
    int signals;
    int fault;  /* enum fault_kind that strikes within the step */
    int saving; /* save_busy */
};

static int fill(void *owner, uint64_t first, size_t count, int32_t *tokens, int32_t *targets, struct err *err)
{
    const struct run *run = owner;
    return data_fill(run->data, run->state.seed, first, count, tokens, targets, err);
}

static struct word prepare(struct run *run, struct err *err)
{
    struct engine_source source = {run, fill};
    struct word word = {
        .fault = (int)fault_strike(&run->fault, run->state.step + 1, run->rank, run->state.attempt)};
    if (engine_load(run->engine, &source, run->state.samples, err) != 0)
        word.code = EXIT_ERROR;
    word.signals = signals_take();
    word.saving = save_busy(run);
    return word;
}

/* Everyone's word to everyone: the largest code, all signals, faults and saves. */
static struct word exchange(struct run *run, const struct word *mine)
{
    struct word *all = mem_zero((size_t)run->size, sizeof *all), sum = {0};
    comm_share(run->mesh.world, mine, sizeof *mine, all);
    for (int r = 0; r < run->size; r++) {
        sum.signals |= all[r].signals;
        sum.saving |= all[r].saving;
        sum.fault = all[r].fault > sum.fault ? all[r].fault : sum.fault;
        if (all[r].code <= sum.code)
            continue;
        sum.code = all[r].code;
        if (run->rank == 0 && r != 0)
            log_error("stopping at step %" PRId64 ": rank %d has a problem (exit code %d)",
                      run->state.step + 1, r, sum.code);
    }
    free(all);
    return sum;
}

/* A fault on order within the step: what it would have done to the numbers. */
static void spoil(struct run *run, int fault, bool here, struct engine_result *result)
{
    if (fault == FAULT_NAN) {
        result->loss = NAN;
        result->own = here ? NAN : result->own;
    }
    if (fault != FAULT_NANGRAD)
        return;
    struct store_range r = store_written(engine_store(run->engine), 0, STORE_GRADIENT);
    real poison = NAN;
    if (here && r.begin < r.end)
        run->kernels->from_host(r.data, &poison, sizeof poison);
    result->norm = store_norm(engine_store(run->engine));
}

/* ---- judgement ---- */

static bool sound(const struct engine_result *r)
{
    return isfinite(r->loss) && isfinite(r->norm);
}

/* Says where a loss that is not finite comes from. */
static void name_culprit(const struct run *run, const struct engine_result *r)
{
    if (!isfinite(r->own) && run->size > 1)
        log_warn("rank %d: the loss is not finite at step %" PRId64, run->rank, run->state.step + 1);
}

static int stop_not_finite(const struct run *run, const struct engine_result *r)
{
    if (run->rank == 0)
        log_error("the %s is not finite at step %" PRId64
                  "; nothing was updated; lower the learning rate or look at the data",
                  isfinite(r->loss) ? "gradient" : "loss", run->state.step + 1);
    return EXIT_NOT_FINITE;
}

/* The guard's verdict, as far as it can be followed. 0 or an exit code. */
static int judge(struct run *run, struct step *s)
{
    struct err why = {""};
    s->verdict = guard_judge(run->guard, run->state.step + 1, s->result.loss, s->result.norm, &why);
    if (s->verdict == GUARD_FINE)
        return sound(&s->result) ? 0 : stop_not_finite(run, &s->result); /* the guard is off */
    if (s->verdict == GUARD_BEAR && run->rank == 0)
        log_warn("%s", why.text);
    if (s->verdict == GUARD_BEAR) {
        s->verdict = GUARD_FINE;
        return 0;
    }
    int code = s->verdict == GUARD_ROLLBACK ? save_wait(run) : 0; /* it may be the one to go back to */
    if (code != 0)
        return code;
    if (s->verdict == GUARD_ROLLBACK && run->saved == 0) {
        err_prefix(&why, "there is no checkpoint to go back to, so the update is skipped");
        s->verdict = GUARD_SKIP;
    }
    if (run->rank == 0 && s->verdict == GUARD_STOP)
        log_error("%s", why.text);
    else if (run->rank == 0)
        log_warn("%s", why.text);
    return s->verdict == GUARD_STOP ? EXIT_NOT_FINITE : 0;
}

/* ---- update ---- */

/* What clipping multiplies gradients of this norm by. */
static double clip_scale(double norm, double clip)
{
    return clip > 0 && norm > clip ? clip / norm : 1;
}

static void update(struct run *run, struct step *s)
{
    const struct job_train *t = &run->spec->train;
    const struct job_optimizer *o = &t->optimizer;
    int64_t number = run->state.step + 1;
    struct kernel_adamw adamw = {.lr = s->lr,
                                 .beta1 = o->beta1,
                                 .beta2 = o->beta2,
                                 .eps = o->eps,
                                 .weight_decay = o->weight_decay,
                                 .gradient_scale = clip_scale(s->result.norm, o->clip),
                                 .step = number};
    if (s->verdict == GUARD_FINE)
        engine_update(run->engine, &adamw);
    run->state.step = number;
    run->state.samples += (uint64_t)t->batch_global;
    run->state.tokens += (uint64_t)run_step_tokens(run);
}

/* ---- traffic ---- */

static struct step_traffic traffic_of(struct comm_group *group)
{
    struct comm_counters c = comm_counters(group);
    comm_counters_reset(group);
    return (struct step_traffic){c.seconds, (double)c.bytes};
}

static void count_traffic(struct run *run, struct step *s)
{
    const struct mesh *mesh = &run->mesh;
    s->tp = traffic_of(mesh->tp_group);
    s->pp = traffic_of(mesh->pp_group);
    s->cp = traffic_of(mesh->cp_group);
    s->ep = traffic_of(mesh->ep_group);
    s->dp = traffic_of(mesh->dp_group);
    struct step_traffic experts = traffic_of(mesh->expert_dp_group), world = traffic_of(mesh->world);
    struct step_traffic ends = mesh->ends_group ? traffic_of(mesh->ends_group) : (struct step_traffic){0, 0};
    s->dp.seconds += experts.seconds;
    s->dp.bytes += experts.bytes;
    s->pp.seconds += ends.seconds;
    s->pp.bytes += ends.bytes;
    s->wait_s = s->tp.seconds + s->pp.seconds + s->cp.seconds + s->ep.seconds + s->dp.seconds + world.seconds;
}

int step_run(struct run *run, struct step *step)
{
    struct err err = {""};
    count_traffic(
        run,
        step); /* what went on since the last step, an evaluation or a checkpoint, is none of this one's */
    *step = (struct step){.start = clock_monotonic_s()};
    struct word mine = prepare(run, &err);
    if (mine.code != 0)
        run_complain(run, &err);
    struct word all = exchange(run, &mine);
    step->signals = all.signals;
    int code = all.code != 0 ? all.code : save_advance(run, all.saving);
    if (code != 0)
        return code;
    engine_gradients(run->engine, run->state.step + 1, &step->result);
    spoil(run, all.fault, mine.fault == all.fault, &step->result);
    name_culprit(run, &step->result);
    step->lr = schedule_lr(&run->spec->train.optimizer, run->spec->train.steps, run->state.step + 1);
    code = judge(run, step);
    if (code == 0 && step->verdict != GUARD_ROLLBACK)
        update(run, step);
    count_traffic(run, step);
    step->seconds = clock_monotonic_s() - step->start;
    return code;
}
