/* train: see train.h.
 *
 * A step: gradients of this rank's micro-batches; one exchange in which every rank learns the losses, the problems and the requests of
 * all (so that all act alike, at the same step); the sum of the gradients; norm, clip, AdamW. Nothing is updated before all ranks are known
 * to be finite. The state that a checkpoint describes changes in one place, after the update. */
#include "runtime/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/fsutil.h"
#include "common/log.h"
#include "common/mem.h"
#include "kernels/kernels.h"
#include "runtime/checkpoint/shelf.h"
#include "runtime/config.h"
#include "runtime/engine/schedule.h"
#include "runtime/exits.h"
#include "runtime/host.h"
#include "runtime/replica.h"
#include "runtime/resume.h"
#include "runtime/run.h"
#include "runtime/save.h"
#include "runtime/signals.h"

#define PRINT_INTERVAL_S 0.1 /* at most ten lines a second */

/* What the ranks tell each other in each step. */
struct word {
    double loss; /* sum over the targets of this rank, nats */
    int code;    /* exit code when this rank cannot go on */
    int signals;
};

/* One step as rank 0 sees it. */
struct step {
    double loss, norm, lr; /* mean over all targets of the global batch; before clipping */
    double start, wait_s;  /* wait_s: time spent in exchanges */
    int signals;           /* of any rank */
};

static size_t context(const struct run *run)
{
    return (size_t)run->spec->train.model.context;
}

static double batch_tokens(const struct run *run)
{
    return (double)run->spec->train.batch_global * (double)context(run);
}

/* ---- setup ------------------------------------------------------------------------------------------------------------ */

static int64_t env_attempt(void)
{
    const char *text = getenv("BELAY_ATTEMPT");
    long long value = text ? strtoll(text, NULL, 10) : 0;
    return value > 0 ? value : 0;
}

static struct manifest_model describe_model(const struct job_train *t)
{
    const struct job_model *m = &t->model;
    struct manifest_model out = {.layers = m->layers,
                                 .hidden = m->hidden,
                                 .heads = m->heads,
                                 .kv_heads = m->kv_heads,
                                 .ffn = m->ffn,
                                 .vocab = m->vocab,
                                 .context = m->context,
                                 .experts = m->experts,
                                 .top_k = m->top_k,
                                 .tied = m->tied,
                                 .norm_eps = m->norm_eps,
                                 .rope_theta = m->rope_theta};
    (void)snprintf(out.arch, sizeof out.arch, "%s", job_arch_name(m->arch)); /* fits */
    (void)snprintf(out.tokenizer, sizeof out.tokenizer, "%s",
                   t->tokenizer); /* a cut one is not found later */
    return out;
}

static void describe_run(struct run *run)
{
    const struct job_spec *s = run->spec;
    const char *job = getenv("BELAY_JOB_ID");
    run->state = (struct manifest_state){.seed = s->train.seed,
                                         .attempt = env_attempt(),
                                         .tp = s->tp,
                                         .pp = s->pp,
                                         .cp = s->cp,
                                         .dp = s->dp,
                                         .ep = s->ep,
                                         .model = describe_model(&s->train)};
    (void)snprintf(run->state.job, sizeof run->state.job, "%s", job ? job : "");
}

static int open_parts(struct run *run, struct err *err)
{
    const struct job_train *t = &run->spec->train;
    size_t micro = (size_t)t->batch_micro, n;
    if (fault_parse(getenv("BELAY_FAULT"), &run->fault, err) != 0 || kernel_open(err) != 0)
        return EXIT_ERROR;
    run->data = data_open(t, err);
    run->model = run->data ? model_new(&t->model, micro, context(run), err) : NULL;
    if (!run->model)
        return EXIT_ERROR;
    const struct model_tensor *tensors = model_tensors(run->model, &n);
    run->optimizer = optimizer_new(model_parameter_count(run->model), tensors, n, err);
    if (!run->optimizer)
        return EXIT_ERROR;
    float *const bases[] = {model_parameters(run->model), optimizer_first(run->optimizer),
                            optimizer_second(run->optimizer)};
    run->arrays = replica_arrays(tensors, n, bases, 0, 1, &run->n_arrays);
    run->share = replica_arrays(tensors, n, bases, run->rank, run->size, &run->n_arrays);
    run->state.data_tokens = data_tokens(run->data);
    run->state.data_fingerprint = data_fingerprint(run->data);
    run->tokens = mem_grow(NULL, micro * context(run), sizeof *run->tokens);
    run->targets = mem_grow(NULL, micro * context(run), sizeof *run->targets);
    return 0;
}

static int sweep(struct run *run, struct err *err)
{
    (void)err; /* what cannot be removed is told and stays */
    shelf_sweep(run->spec->checkpoint.directory);
    return 0;
}

/* Rank 0: makes the directory its own. */
static int own_directory(struct run *run, struct err *err)
{
    const char *directory = run->spec->checkpoint.directory;
    if (fs_mkdirs(directory, 0755, err) != 0)
        return EXIT_ERROR;
    enum claim_result rc = claim_take(directory, run->state.job, run->state.attempt, &run->claim, err);
    if (rc != CLAIM_OK)
        return rc == CLAIM_SUPERSEDED ? EXIT_SUPERSEDED : EXIT_ERROR;
    return run_fenced(run, sweep, err);
}

/* With the claim held: the file is cut back and replaced. */
static int open_metrics(struct run *run, struct err *err)
{
    char *path = str_printf("%s/metrics.csv", run->spec->checkpoint.directory);
    run->metrics = metrics_open(path, run->state.step, err);
    free(path);
    return run->metrics ? 0 : EXIT_ERROR;
}

static void introduce(const struct run *run, int threads)
{
    const struct job_train *t = &run->spec->train;
    char backend[128];
    kernel_describe(backend, sizeof backend);
    printf("%s: %s, %.2f M parameters, %" PRId64 " rank(s) of %d thread(s), %s, %.0f GFLOP/s sgemm in all\n",
           run->spec->name, job_arch_name(t->model.arch), (double)job_model_parameters(&t->model) / 1e6,
           run->spec->dp, threads, backend, run->peak / 1e9);
    char *data = data_describe(run->data);
    printf("data: %s; steps %" PRId64 " to %" PRId64 ", %.0f tokens each\n", data, run->state.step + 1,
           t->steps, batch_tokens(run));
    free(data);
}

static int setup(struct run *run)
{
    struct err err = {""};
    int threads = host_set_threads(comm_env_local_size());
    describe_run(run);
    run->notify = notify_open(getenv("BELAY_NOTIFY_SOCKET"), run->rank);
    notify_keep(run->notify, "PHASE=loading\nCHECKPOINT_ON=SIGUSR1");
    int code = run_agree(run, open_parts(run, &err), &err);
    if (code == 0)
        code = run_agree(run, run->rank == 0 ? own_directory(run, &err) : 0, &err);
    if (code == 0)
        code = resume_run(run);
    if (code == 0)
        code = run_agree(run, run->rank == 0 ? run_fenced(run, open_metrics, &err) : 0, &err);
    if (code != 0)
        return code;
    run->peak = comm_sum_double(comm_world(run->comm), host_gemm_peak());
    if (run->rank == 0)
        introduce(run, threads);
    notify_send(run->notify, "PHASE=training");
    return 0;
}

static void teardown(struct run *run, int code)
{
    claim_close(run->claim, code == 0);
    metrics_close(run->metrics);
    notify_close(run->notify);
    optimizer_free(run->optimizer);
    model_free(run->model);
    data_close(run->data);
    free(run->arrays);
    free(run->share);
    free(run->tokens);
    free(run->targets);
}

/* ---- one step --------------------------------------------------------------------------------------------------------- */

/* Forward and backward over this rank's part of the global batch: samples are dealt out in contiguous ranges by rank. */
static int gradients(struct run *run, double *loss, struct err *err)
{
    const struct job_train *t = &run->spec->train;
    uint64_t mine = (uint64_t)t->batch_global / (uint64_t)run->size, micro = (uint64_t)t->batch_micro;
    uint64_t first = run->state.samples + mine * (uint64_t)run->rank;
    *loss = 0;
    model_zero_gradients(run->model);
    for (uint64_t done = 0; done < mine; done += micro) {
        if (data_fill(run->data, run->state.seed, first + done, micro, run->tokens, run->targets, err) != 0)
            return EXIT_ERROR;
        *loss += model_forward(run->model, run->tokens, run->targets);
        model_backward(run->model, (real)(1 / batch_tokens(run)));
    }
    return 0;
}

/* A loss or gradient of this rank that is not finite becomes its word. The step is the one that was being computed. */
static int check_finite(const struct run *run, double loss, struct err *err)
{
    const char *what = NULL;
    if (!isfinite(loss))
        what = "loss";
    else if (!kernel_all_finite(model_gradients(run->model), model_parameter_count(run->model)))
        what = "gradient";
    if (!what)
        return 0;
    err_set(err,
            "the %s is not finite at step %" PRId64
            "; nothing was updated; lower the learning rate or look at the data",
            what, run->state.step + 1);
    return EXIT_NOT_FINITE;
}

static struct word compute(struct run *run, struct err *err)
{
    struct word word = {.loss = 0};
    int64_t step = run->state.step + 1;
    enum fault_kind fault = fault_strike(&run->fault, step, run->rank, run->state.attempt);
    word.code = gradients(run, &word.loss, err);
    if (fault == FAULT_NAN)
        word.loss = NAN;
    if (fault == FAULT_NANGRAD)
        model_gradients(run->model)[0] = NAN;
    if (word.code == 0)
        word.code = check_finite(run, word.loss, err);
    word.signals = signals_take();
    return word;
}

/* Everyone's word to everyone. Returns the largest code; adds losses in rank order. */
static int exchange(struct run *run, const struct word *mine, struct step *step)
{
    struct word *all = mem_zero((size_t)run->size, sizeof *all);
    int code = 0;
    comm_share(comm_world(run->comm), mine, sizeof *mine, all);
    step->loss = 0;
    step->signals = 0;
    for (int r = 0; r < run->size; r++) {
        step->loss += all[r].loss / batch_tokens(run);
        step->signals |= all[r].signals;
        if (all[r].code > code) {
            code = all[r].code;
            if (run->rank == 0 && r != 0)
                log_error("stopping at step %" PRId64 ": rank %d has a problem (exit code %d)",
                          run->state.step + 1, r, code);
        }
    }
    free(all);
    return code;
}

static int update(struct run *run, struct step *step)
{
    const struct job_train *t = &run->spec->train;
    real *g = model_gradients(run->model);
    size_t count = model_parameter_count(run->model);
    int64_t number = run->state.step + 1;
    double before = clock_monotonic_s();
    comm_all_reduce(comm_world(run->comm), g, count, COMM_REAL);
    step->wait_s += clock_monotonic_s() - before;
    step->norm = sqrt(kernel_sum_of_squares(g, count));
    if (!isfinite(step->norm)) { /* the same bits, hence the same answer, on every rank */
        struct err err;
        err_set(&err,
                "the sum of the gradients of all ranks is not finite at step %" PRId64
                "; nothing was updated",
                number);
        run_complain(run, &err);
        return EXIT_NOT_FINITE;
    }
    step->lr = schedule_lr(&t->optimizer, t->steps, number);
    optimizer_step(run->optimizer, &t->optimizer, step->lr, number,
                   optimizer_clip_scale(step->norm, t->optimizer.clip), model_parameters(run->model), g);
    run->state.step = number;
    run->state.samples += (uint64_t)t->batch_global;
    run->state.tokens += (uint64_t)t->batch_global * context(run);
    return 0;
}

static int one_step(struct run *run, struct step *step)
{
    struct err err = {""};
    step->start = clock_monotonic_s();
    struct word word = compute(run, &err);
    if (word.code != 0)
        run_complain(run, &err);
    double before = clock_monotonic_s();
    int code = exchange(run, &word, step);
    step->wait_s = clock_monotonic_s() - before;
    return code == 0 ? update(run, step) : code;
}

/* ---- telling ---------------------------------------------------------------------------------------------------------- */

static struct metrics_row make_row(const struct run *run, const struct step *s)
{
    double seconds = clock_monotonic_s() - s->start, rate = batch_tokens(run) / seconds;
    double flops = model_flops_per_token(&run->spec->train.model, context(run));
    return (struct metrics_row){.step = run->state.step,
                                .loss = s->loss,
                                .grad_norm = s->norm,
                                .lr = s->lr,
                                .tokens = run->state.tokens,
                                .step_ms = (float)(seconds * 1e3),
                                .tokens_per_second = (float)rate,
                                .mfu = run->peak > 0 ? (float)(rate * flops / run->peak) : 0,
                                .compute_ms = (float)((seconds - s->wait_s) * 1e3),
                                .wait_ms = (float)(s->wait_s * 1e3),
                                .attempt = run->state.attempt};
}

static void print_row(const struct run *run, const struct metrics_row *row)
{
    static double printed; /* when the last line went out */
    double now = clock_monotonic_s();
    if (now - printed < PRINT_INTERVAL_S && row->step != run->spec->train.steps)
        return;
    printed = now;
    printf("step %5" PRId64 "/%" PRId64
           "  loss %.4f  norm %.3f  lr %.2e  %.0f tokens/s  mfu %.0f %%  %.0f ms\n",
           row->step, run->spec->train.steps, row->loss, row->grad_norm, row->lr,
           (double)row->tokens_per_second, 100 * (double)row->mfu, (double)row->step_ms);
}

/* The last step must arrive, or a finished run would look as if it had stopped before its end. */
static void send_step(struct run *run, const struct metrics_row *row)
{
    char lines[512];
    int64_t steps = run->spec->train.steps;
    (void)snprintf(lines, sizeof lines,
                   "STEP=%" PRId64 "\nSTEPS=%" PRId64 "\nLOSS=%.9g\nTOKENS=%" PRIu64
                   "\nTOKENS_PER_SECOND=%.6g\nMFU=%.4g\nCOMPUTE_MS=%.6g\nWAIT_MS=%.6g",
                   row->step, steps, row->loss, row->tokens, (double)row->tokens_per_second, (double)row->mfu,
                   (double)row->compute_ms, (double)row->wait_ms); /* about 200 bytes */
    if (row->step == steps)
        notify_keep(run->notify, "%s", lines);
    else
        notify_send(run->notify, "%s", lines);
}

static void tell(struct run *run, const struct step *step)
{
    struct err err;
    struct metrics_row row = make_row(run, step);
    if (run->rank != 0) {
        notify_send(run->notify, "STEP=%" PRId64 "\nCOMPUTE_MS=%.6g\nWAIT_MS=%.6g", row.step,
                    (double)row.compute_ms, (double)row.wait_ms);
        return;
    }
    if (metrics_append(run->metrics, &row, &err) != 0)
        log_warn("%s", err.text);
    print_row(run, &row);
    send_step(run, &row);
}

/* ---- the loop --------------------------------------------------------------------------------------------------------- */

/* Saves when it is time to. A failed save ends the run only when it was the last chance (`last`). */
static int save_if_due(struct run *run, int signals, bool last)
{
    int64_t every = run->spec->checkpoint.every;
    bool due = last || (signals & SIGNALS_SAVE) || (every > 0 && run->state.step % every == 0);
    if (!due || run->saved == run->state.step)
        return 0;
    int code = save_checkpoint(run);
    if (code == EXIT_ERROR && !last) {
        if (run->rank == 0)
            log_warn("training goes on without a checkpoint of step %" PRId64, run->state.step);
        return 0;
    }
    return code;
}

static int loop(struct run *run)
{
    while (run->state.step < run->spec->train.steps) {
        struct step step;
        int code = one_step(run, &step);
        if (code != 0)
            return code;
        tell(run, &step);
        bool stop = step.signals & SIGNALS_STOP;
        code = save_if_due(run, step.signals, stop || run->state.step == run->spec->train.steps);
        if (code != 0)
            return code;
        if (stop && run->rank == 0)
            printf("stopped by request after step %" PRId64 "\n", run->state.step);
        if (stop)
            break;
    }
    return 0;
}

int train(const struct job_spec *spec, struct comm *comm)
{
    struct err err = {""};
    struct run run = {
        .spec = spec, .comm = comm, .rank = comm_rank(comm_world(comm)), .size = comm_size(comm_world(comm))};
    int code = config_check(spec, run.size, &err);
    if (code != 0) { /* every rank comes to the same answer; one says it */
        if (run.rank == 0)
            log_error("%s", err.text);
        return code;
    }
    code = setup(&run);
    if (code == 0)
        code = loop(&run);
    teardown(&run, code);
    return code;
}
