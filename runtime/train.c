/* train: see train.h. From the job file to a run that is ready, and the loop over its steps. */
#include "runtime/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/shelf.h"
#include "common/fsutil.h"
#include "common/log.h"
#include "common/mem.h"
#include "kernels/kernels.h"
#include "runtime/bucket.h"
#include "runtime/config.h"
#include "runtime/convert/weights.h"
#include "runtime/exits.h"
#include "runtime/host.h"
#include "runtime/resume.h"
#include "runtime/run.h"
#include "runtime/save.h"
#include "runtime/signals.h"
#include "runtime/step.h"
#include "runtime/stored.h"
#include "runtime/tell.h"

/* ---- setup ------------------------------------------------------------------------------------------------------------ */

static int64_t env_attempt(void)
{
    const char *text = getenv("BELAY_ATTEMPT");
    long long value = text ? strtoll(text, NULL, 10) : 0;
    return value > 0 ? value : 0;
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
                                         .held_loss = NAN};
    weights_model_of_job(&s->train, &run->state.model);
    (void)snprintf(run->state.job, sizeof run->state.job, "%s", job ? job : "");
}

static int join_mesh(struct run *run, struct err *err)
{
    const struct job_spec *s = run->spec;
    struct mesh_sizes sizes = {(int)s->tp, (int)s->pp, (int)s->cp, (int)s->dp, (int)s->ep};
    return mesh_open(&run->mesh, run->comm, &sizes, false, err) != 0 ? EXIT_BAD_CONFIG : 0;
}

/* Files of nanoGPT, llm.c and Megatron-LM do not say what their tokens are, and `bytes` is only the field's default. */
static void doubt_tokenizer(const struct run *run)
{
    const struct job_train *t = &run->spec->train;
    if (run->rank == 0 && data_tokenizer(run->data) == 0 && t->model.vocab > 256 && t->tokenizer &&
        strcmp(t->tokenizer, "bytes") == 0)
        log_warn(
            "the token files do not say which tokenizer made them, and train.data.tokenizer is bytes, of 256 "
            "tokens: training is the same, but generate, eval and export will take the model's %" PRId64
            " tokens for bytes; name the tokenizer, here or later by their --tokenizer",
            t->model.vocab);
}

static int open_parts(struct run *run, struct err *err)
{
    const struct job_train *t = &run->spec->train;
    if (fault_parse(getenv("BELAY_FAULT"), &run->fault, err) != 0)
        return EXIT_ERROR;
    run->kernels =
        backend_kernels(run->backend, t->precision == PRECISION_FP32 ? KERNEL_FP32 : KERNEL_BF16, err);
    run->data = run->kernels ? data_open(t, err) : NULL;
    if (!run->data)
        return EXIT_ERROR;
    struct engine_request request = {
        .spec = run->spec, .mesh = &run->mesh, .kernels = run->kernels, .behind = run->backend->cuda != NULL};
    run->engine = engine_new(&request, err);
    if (!run->engine)
        return EXIT_ERROR;
    run->guard = guard_new(t);
    run->arrays = stored_arrays(engine_store(run->engine), engine_layout(run->engine), false, &run->n_arrays);
    run->share = stored_arrays(engine_store(run->engine), engine_layout(run->engine), true, &run->n_share);
    stored_add_fp8(run->engine, run->rank, run->size, run->share, &run->n_share);
    run->state.data_tokens = data_tokens(run->data);
    run->state.data_fingerprint = data_fingerprint(run->data);
    run->state.model.tokenizer_fingerprint = data_tokenizer(run->data);
    doubt_tokenizer(run);
    return 0;
}

static int sweep_and_fetch(struct run *run, struct err *err)
{
    shelf_sweep(run->spec->checkpoint.directory);
    return bucket_fetch(run, err);
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
    return run_fenced(run, sweep_and_fetch, err);
}

/* With the claim held: the file is cut back and replaced. */
static int open_metrics(struct run *run, struct err *err)
{
    char *path = str_printf("%s/metrics.csv", run->spec->checkpoint.directory);
    metrics_close(run->metrics); /* after going back */
    run->metrics = metrics_open(path, run->state.step, err);
    free(path);
    return run->metrics ? 0 : EXIT_ERROR;
}

/* Feeds the guard what the rows before this step tell, on all ranks alike. */
static void recall(struct run *run)
{
    size_t room = 3 * (size_t)run->spec->train.guard_window;
    struct metrics_past *past = mem_zero(room, sizeof *past);
    uint64_t count = 0;
    if (run->rank == 0) {
        char *path = str_printf("%s/metrics.csv", run->spec->checkpoint.directory);
        count = metrics_recall(path, past, room);
        free(path);
    }
    comm_broadcast(run->mesh.world, &count, sizeof count, 0);
    comm_broadcast(run->mesh.world, past, count * sizeof *past, 0);
    for (uint64_t i = 0; i < count; i++)
        guard_feed(run->guard, past[i].step, past[i].loss, past[i].grad_norm);
    free(past);
}

static void introduce_device(const struct run *run, int threads)
{
    const struct job_model *m = &run->spec->train.model;
    char what[256];
    run->kernels->describe(what, sizeof what);
    printf("%s: %s, %.2f M parameters, %d rank(s)", run->spec->name, job_arch_name(m->arch),
           (double)job_model_parameters(m) / 1e6, run->size);
    if (run->backend->cuda)
        printf("\nGPU %d: %s, %.0f TFLOP/s in all\n", run->backend->number, what, run->peak / 1e12);
    else
        printf(" of %d thread(s), %s, %.0f GFLOP/s sgemm in all\n", threads, what, run->peak / 1e9);
}

static void introduce(const struct run *run, int threads)
{
    const struct job_spec *s = run->spec;
    const struct job_train *t = &s->train;
    struct store_bytes b = store_bytes(engine_store(run->engine));
    introduce_device(run, threads);
    if (run->size > 1)
        printf("mesh: tp %" PRId64 ", cp %" PRId64 ", pp %" PRId64 ", dp %" PRId64 ", ep %" PRId64
               ", zero %" PRId64 "\n",
               s->tp, s->cp, s->pp, s->dp, s->ep, s->zero);
    printf(
        "memory of rank 0: %.1f MiB weights, %.1f MiB gradients, %.1f MiB optimizer, %.1f MiB activations\n",
        (double)b.weights / 1048576, (double)b.gradients / 1048576, (double)b.optimizer / 1048576,
        (double)engine_activation_bytes(run->engine) / 1048576);
    char *data = data_describe(run->data);
    if (run->state.step >= t->steps)
        printf("data: %s; nothing is left to do: step %" PRId64 " of %" PRId64
               " is done; raise train.steps to train on, or name another checkpoint.directory\n",
               data, run->state.step, t->steps);
    else
        printf("data: %s; steps %" PRId64 " to %" PRId64 ", %.0f tokens each\n", data, run->state.step + 1,
               t->steps, run_step_tokens(run));
    free(data);
}

static int setup(struct run *run)
{
    struct err err = {""};
    int threads = host_set_threads(comm_env_local_size());
    describe_run(run);
    run->notify = notify_open(getenv("BELAY_NOTIFY_SOCKET"), run->rank);
    notify_send(run->notify, "PHASE=loading");
    if (run->rank == 0) /* one is enough: several would hear it at different steps, and each makes a save */
        notify_keep(run->notify, "CHECKPOINT_ON=SIGUSR1");
    int code = run_agree(run, join_mesh(run, &err), &err);
    if (code == 0)
        code = run_agree(run, open_parts(run, &err), &err);
    if (code == 0)
        code = run_agree(run, run->rank == 0 ? own_directory(run, &err) : 0, &err);
    if (code == 0)
        code = save_open(run);
    if (code == 0)
        code = resume_run(run);
    if (code == 0)
        code = run_agree(run, run->rank == 0 ? run_fenced(run, open_metrics, &err) : 0, &err);
    if (code == 0)
        code = run_agree(run, run->rank == 0 ? bucket_open(run, &err) : 0, &err);
    if (code != 0)
        return code;
    recall(run);
    interval_open(&run->interval, run->spec->checkpoint.every, run->state.step, getenv("BELAY_MTTF_S"));
    run->peak = comm_sum_double(comm_world(run->comm), backend_peak(run->backend, run->kernels));
    if (run->rank == 0)
        introduce(run, threads);
    notify_send(run->notify, "PHASE=training");
    return 0;
}

static void teardown(struct run *run, int code)
{
    save_close(run);
    bucket_close(run, code);
    claim_close(run->claim, code == 0);
    metrics_close(run->metrics);
    notify_close(run->notify);
    guard_free(run->guard);
    engine_free(run->engine);
    data_close(run->data);
    free(run->arrays);
    free(run->share);
}

/* ---- evaluation ------------------------------------------------------------------------------------------------------- */

static int fill_held(void *owner, uint64_t first, size_t count, int32_t *tokens, int32_t *targets,
                     struct err *err)
{
    const struct run *run = owner;
    return data_fill_held(run->data, first, count, tokens, targets, err);
}

/* The loss over the held-out part when it is time for it, else NAN. */
static int evaluate_if_due(struct run *run, double *held)
{
    const struct job_train *t = &run->spec->train;
    struct engine_source source = {run, fill_held};
    struct err err = {""};
    uint64_t there = data_held(run->data), wanted = (uint64_t)t->eval_sequences;
    bool due = t->eval_every > 0 && (run->state.step % t->eval_every == 0 || run->state.step == t->steps);
    *held = NAN;
    if (!due || there == 0)
        return 0;
    notify_send(run->notify, "PHASE=evaluating");
    int failed = engine_evaluate(run->engine, &source, 0, wanted < there ? wanted : there, held, &err);
    if (failed)
        run_complain(run, &err);
    notify_send(run->notify, "PHASE=training");
    return failed ? EXIT_ERROR : 0;
}

/* ---- the loop --------------------------------------------------------------------------------------------------------- */

/* Back to the newest checkpoint, and metrics.csv with it. */
static int go_back(struct run *run)
{
    struct err err = {""};
    int code = save_wait(run);
    if (code == 0)
        code = resume_back(run);
    if (code == 0)
        code = run_agree(run, run->rank == 0 ? run_fenced(run, open_metrics, &err) : 0, &err);
    if (code == 0)
        code = save_went_back(run);
    if (code == 0)
        recall(run);
    return code;
}

/* In a job, 0 would say that it is completed: whoever wanted it to stop, belayd or not, the training is not at its end. */
static int stopped_code(const struct run *run)
{
    bool job = run->state.job[0] != '\0', ended = run->state.step >= run->spec->train.steps;
    return job && !ended ? EXIT_STOPPED : 0;
}

static int loop(struct run *run)
{
    while (run->state.step < run->spec->train.steps) {
        struct step step;
        double held;
        int code = step_run(run, &step);
        if (code == 0 && step.verdict == GUARD_ROLLBACK) {
            code = go_back(run);
            if (code == 0)
                continue;
        }
        if (code == 0)
            code = evaluate_if_due(run, &held);
        if (code != 0)
            return code;
        run->state.held_loss = held; /* of this step, or not known */
        tell_step(run, &step, held);
        interval_stepped(&run->interval, step.seconds);
        bucket_poll(run);
        bool stop = step.signals & SIGNALS_STOP;
        code = save_if_due(run, step.signals, stop || run->state.step == run->spec->train.steps);
        if (code != 0)
            return code;
        if (stop && run->rank == 0)
            printf("stopped by request after step %" PRId64 "\n", run->state.step);
        if (stop)
            return stopped_code(run);
    }
    return 0;
}

int train(const struct job_spec *spec, const struct backend *backend, struct comm *comm)
{
    struct err err = {""};
    struct run run = {.spec = spec,
                      .backend = backend,
                      .comm = comm,
                      .rank = comm_rank(comm_world(comm)),
                      .size = comm_size(comm_world(comm))};
    int code = config_check(spec, run.size, &err);
    if (code != 0) { /* every rank comes to the same answer; one says it */
        if (run.rank == 0)
            log_error("%s", err.text);
        return code;
    }
    code = setup(&run);
    if (code == 0) {
        code = loop(&run);
        int saved =
            code == EXIT_SUPERSEDED ? 0 : save_wait(&run); /* however it ended, what is under way counts */
        code = saved != 0 ? saved : code;
    }
    if (code == 0)
        tell_end(&run);
    teardown(&run, code);
    return code;
}
