/* resume: see resume.h. Rank 0 lists the checkpoints; for each candidate, newest first, rank r checks the hash of files r, r+size, …, and all
 * take it only when all are content. */
#include "runtime/resume.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/account.h"
#include "checkpoint/shelf.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "runtime/convert/weights.h"
#include "runtime/exits.h"
#include "runtime/held.h"
#include "runtime/save.h"
#include "runtime/stored.h"

#define CANDIDATES_MAX 4096
#define NAMED_MAX      8 /* steps that an error lists */

struct candidates {
    int64_t count;
    int64_t steps[CANDIDATES_MAX];
};

static int list_candidates(struct run *run, struct candidates *c)
{
    struct err err = {""};
    int code = 0;
    if (run->rank == 0) {
        int64_t *steps;
        c->count = shelf_list(run->spec->checkpoint.directory, &steps, &err);
        if (c->count < 0)
            code = EXIT_ERROR;
        else if (c->count > CANDIDATES_MAX)
            c->count = CANDIDATES_MAX;
        if (c->count > 0)
            memcpy(c->steps, steps, (size_t)c->count * sizeof *steps);
        free(steps);
    }
    code = run_agree(run, code, &err);
    if (code == 0)
        comm_broadcast(comm_world(run->comm), c, sizeof *c, 0);
    return code;
}

/* Is the checkpoint of `step` complete and undamaged? All ranks get the same answer. */
static bool verify(struct run *run, int64_t step, struct manifest_state *found)
{
    struct err err;
    char *folder = shelf_path(run->spec->checkpoint.directory, step);
    int bad = checkpoint_verify(folder, run->rank, run->size, found, &err) != 0;
    if (!bad && found->step != step)
        bad = err_set(&err, "%s: its manifest is of step %" PRId64, folder, found->step) != 0;
    if (bad)
        log_warn("skipping checkpoint step %" PRId64 ": %s", step, err.text);
    free(folder);
    return comm_max_int(comm_world(run->comm), bad) == 0;
}

/* The step to go on from, 0 for none: the newest good one that passes the filters (only: that step; own: of this job). */
static int64_t choose(struct run *run, const struct candidates *c, int64_t only, bool own,
                      struct manifest_state *found)
{
    for (int64_t i = 0; i < c->count; i++) {
        if (only >= 0 && c->steps[i] != only)
            continue;
        if (verify(run, c->steps[i], found) && (!own || strcmp(found->job, run->state.job) == 0))
            return c->steps[i];
    }
    return 0;
}

/* Which steps have a checkpoint, one that is known to be bad left out. The caller frees. */
static char *steps_there(const struct candidates *c, int64_t bad)
{
    char *list = str_dup("");
    int64_t n = 0, first = 0, last = 0;
    for (int64_t i = c->count; i-- > 0;) {
        if (c->steps[i] == bad)
            continue;
        last = c->steps[i];
        first = n == 0 ? last : first;
        if (n++ >= NAMED_MAX)
            continue;
        char *longer = str_printf("%s%s%" PRId64, list, n > 1 ? ", " : "", last);
        free(list);
        list = longer;
    }
    char *out = n == 0 ? str_dup("there is none: leave checkpoint.resume out")
                : n > NAMED_MAX
                    ? str_printf("there are %" PRId64 ", of steps %" PRId64 " to %" PRId64, n, first, last)
                    : str_printf("there are those of the steps %s", list);
    free(list);
    return out;
}

static void complain_step(const struct run *run, const struct candidates *c, int64_t step)
{
    char *there = steps_there(c, step);
    log_error("checkpoint.resume asks for step %" PRId64 ", of which %s has no complete checkpoint; %s", step,
              run->spec->checkpoint.directory, there);
    free(there);
}

static int choose_by_rule(struct run *run, const struct candidates *c, struct manifest_state *found,
                          int64_t *step)
{
    int64_t rule = run->spec->checkpoint.resume;
    *step = 0;
    if (rule == JOB_RESUME_AUTO)
        *step = choose(run, c, -1, false, found);
    else if (run->state.attempt > 1)
        *step = choose(run, c, -1, true, found);
    if (*step > 0 || rule == JOB_RESUME_AUTO || rule == JOB_RESUME_NEVER || rule == 0)
        return 0;
    *step = choose(run, c, rule, false, found);
    if (*step > 0)
        return 0;
    if (run->rank == 0)
        complain_step(run, c, rule);
    return EXIT_NO_RETRY;
}

/* Other files, other weights, or another part held out: the order of the samples depends on all of them. */
static void compare_data(const struct manifest_state *now, const struct manifest_state *then)
{
    bool as_many = now->data_tokens == then->data_tokens;
    if (as_many && now->data_fingerprint == then->data_fingerprint)
        return;
    char *how =
        as_many ? str_dup("as many tokens, but others, or another train.data.holdout or other weights in mix")
                : str_printf("%" PRIu64 " tokens now, %" PRIu64 " then", now->data_tokens, then->data_tokens);
    log_warn(
        "the training data is not what the checkpoint was trained on (%s): the order of the data changes, "
        "and what is held out now may have been trained on before",
        how);
    free(how);
}

/* The run may differ from the one that wrote the checkpoint; say so where it changes the course. */
static void compare_states(const struct manifest_state *now, const struct manifest_state *then)
{
    if (now->seed != then->seed)
        log_warn("train.seed is %" PRIu64 ", the checkpoint was written with %" PRIu64
                 ": the order of the data changes",
                 now->seed, then->seed);
    compare_data(now, then);
}

/* Heads, for one, cut the same matrices into other pieces: shapes cannot tell that it is another model. */
static int check_model(const struct run *run, int64_t step, const struct manifest_state *then,
                       struct err *err)
{
    struct err why;
    if (manifest_same_model(&run->state.model, &then->model, &why) == 0)
        return 0;
    err_set(err,
            "the checkpoint of step %" PRId64
            " cannot be resumed: %s; use another checkpoint.directory, or the model it was written with",
            step, why.text);
    return EXIT_NO_RETRY;
}

static bool same_mesh(const struct manifest_state *a, const struct manifest_state *b)
{
    return a->tp == b->tp && a->pp == b->pp && a->cp == b->cp && a->dp == b->dp;
}

/* The scales of fp8 are each rank's own: another mesh, even of as many ranks, or a checkpoint in bf16, has none for it. Then they start anew. */
static void load_fp8(struct run *run, int64_t step, const char *folder)
{
    const char *from = step == run->other_mesh ? NULL : folder;
    if (!stored_load_fp8(run->engine, run->rank, run->size, from) && run->rank == 0)
        log_warn("%s has no magnitudes of fp8 for this mesh: they are looked for anew", folder);
}

/* All numbers of the checkpoint of `step` in a folder, on every rank its own. */
static int load_numbers(struct run *run, int64_t step, const char *folder)
{
    struct err err = {""};
    enum checkpoint_result rc = checkpoint_load(folder, run->arrays, run->n_arrays, &err);
    int code = rc == CHECKPOINT_OK ? 0 : rc == CHECKPOINT_OTHER_MODEL ? EXIT_NO_RETRY : EXIT_ERROR;
    code = run_agree(run, code, &err);
    if (code == 0) {
        store_spread(engine_store(run->engine));
        load_fp8(run, step, folder);
    }
    return code;
}

static int load(struct run *run, int64_t step, const char *folder, const struct manifest_state *found)
{
    struct err err = {""};
    int code = run_agree(run, check_model(run, step, found, &err), &err);
    run->other_mesh = same_mesh(&run->state, found) ? 0 : step;
    if (code == 0)
        code = load_numbers(run, step, folder);
    if (code != 0)
        return code;
    if (run->rank == 0)
        compare_states(&run->state, found);
    run->state.step = found->step;
    run->state.samples = found->samples;
    run->state.tokens = found->tokens;
    return 0;
}

/* What this rank took from the checkpoint. */
static double owned_bytes(const struct run *run)
{
    double numbers = 0;
    for (size_t i = 0; i < run->n_arrays; i++)
        for (size_t k = 0; k < run->arrays[i].n_pieces; k++) {
            const struct checkpoint_piece *p = &run->arrays[i].pieces[k];
            numbers += (double)(p->to[0] - p->from[0]) * (double)(p->to[1] - p->from[1]);
        }
    return numbers * sizeof(float);
}

static int64_t ranks_of(const struct manifest_state *s)
{
    return s->tp * s->pp * s->cp * s->dp;
}

/* What went on and how long it took to find, verify and load: the time that a restart costs beside its processes. */
static void tell_resumed(const struct run *run, const struct manifest_state *found, const char *how,
                         const char *rest)
{
    double bytes = comm_sum_double(comm_world(run->comm), owned_bytes(run));
    if (run->rank == 0)
        printf("resuming from step %" PRId64 ", %s by attempt %" PRId64 " on %" PRId64
               " rank(s): %.1f MiB in %.3f s%s\n",
               found->step, how, found->attempt, ranks_of(found), bytes / 1048576,
               clock_monotonic_s() - run->resume_start, rest);
}

static int load_stored(struct run *run, int64_t step, const struct manifest_state *found)
{
    char *folder = shelf_path(run->spec->checkpoint.directory, step);
    int code = load(run, step, folder, found);
    free(folder);
    if (code != 0)
        return code;
    tell_resumed(run, found, "written", "");
    run->saved = run->verified = step;
    return 0;
}

/* ---- from memory ------------------------------------------------------------------------------------------------------- */

/* A copy that is as new as anything in storage. *done: the run goes on from it. */
static int try_memory(struct run *run, const struct candidates *c, bool *done)
{
    struct memory_tier *memory = save_memory(run);
    bool allowed = run->spec->checkpoint.resume == JOB_RESUME_AUTO || run->state.attempt > 1;
    int64_t stored = c->count > 0 ? c->steps[0] : 0;
    struct held_checkpoint *held = memory && allowed ? held_find(run, memory, stored) : NULL;
    *done = held != NULL;
    if (!held)
        return 0;
    const struct manifest_state *found = &held->manifest->state;
    int code = load(run, held->step, held->folder, found);
    double fetched = comm_sum_double(comm_world(run->comm), (double)held->fetched);
    double stored_bytes = comm_sum_double(comm_world(run->comm), (double)account_total());
    char rest[128];
    (void)snprintf(rest, sizeof rest, "; %.1f MiB came from other nodes, %.0f bytes from storage",
                   fetched / 1048576, stored_bytes);
    if (code == 0)
        tell_resumed(run, found, "held in memory", rest);
    run->saved = stored; /* what a rollback goes to; not read yet */
    held_free(held);
    return code;
}

static int set_aside(struct run *run, struct err *err)
{
    return shelf_set_aside(run->spec->checkpoint.directory, run->state.step, err) < 0 ? EXIT_ERROR : 0;
}

/* What is later than the chosen step is a branch that this run leaves. */
static int leave_branch(struct run *run)
{
    struct err err = {""};
    int code = run->rank == 0 ? run_fenced(run, set_aside, &err) : 0;
    return run_agree(run, code, &err);
}

/* It may be meant, as when a vocabulary is exchanged; it looks like a bad start of the right one. */
static void compare_tokens(const struct run *run, const struct weights *weights)
{
    uint64_t now = run->state.model.tokenizer_fingerprint,
             then = weights_model(weights)->tokenizer_fingerprint;
    if (now != 0 && then != 0 && now != then)
        log_warn("the weights of %s were trained with another tokenizer (%s) than made train.data: the same "
                 "numbers are other tokens to them",
                 weights_path(weights), weights_model(weights)->tokenizer);
}

/* First values of a new run: those of train.from, else by the seed. */
static int begin(struct run *run)
{
    const struct job_train *t = &run->spec->train;
    struct store *store = engine_store(run->engine);
    struct err err = {""};
    if (!t->from) {
        store_init(store, &t->model, t->seed);
        return 0;
    }
    size_t count;
    struct checkpoint_array *arrays = stored_parameters(store, engine_layout(run->engine), &count);
    struct weights *weights = weights_open(t->from, &err);
    int code = weights ? 0 : EXIT_ERROR;
    if (code == 0 && weights_suit(weights, &run->state.model, &err) != 0)
        code = EXIT_NO_RETRY;
    if (code == 0 && (weights_verify(weights, run->rank, run->size, &err) != 0 ||
                      weights_load(weights, arrays, count, &err) != 0))
        code = EXIT_ERROR;
    if (code != 0)
        err_prefix(&err, "train.from");
    else if (run->rank == 0) {
        printf("starting from the weights of %s\n", weights_path(weights));
        compare_tokens(run, weights);
    }
    weights_close(weights);
    free(arrays);
    code = run_agree(run, code, &err);
    if (code == 0)
        store_spread(store);
    return code;
}

int resume_run(struct run *run)
{
    struct candidates *c = mem_zero(1, sizeof *c);
    struct manifest_state found;
    int64_t step = 0;
    bool done = false;
    run->resume_start = clock_monotonic_s();
    int code = list_candidates(run, c);
    if (code == 0)
        code = try_memory(run, c, &done);
    if (code == 0 && !done)
        code = choose_by_rule(run, c, &found, &step);
    if (code == 0 && !done)
        code = step > 0 ? load_stored(run, step, &found) : begin(run);
    free(c);
    return code == 0 ? leave_branch(run) : code;
}

/* The newest on storage that is undamaged: what was written well may have rotted since. */
static int choose_back(struct run *run, struct manifest_state *found, int64_t *step)
{
    struct candidates *c = mem_zero(1, sizeof *c);
    int code = list_candidates(run, c);
    *step = code == 0 ? choose(run, c, -1, false, found) : 0;
    free(c);
    if (code == 0 && *step == 0) {
        code = EXIT_ERROR;
        if (run->rank == 0)
            log_error("%s has no checkpoint to go back to that is undamaged",
                      run->spec->checkpoint.directory);
    }
    return code;
}

int resume_back(struct run *run)
{
    struct manifest_state found;
    int code = choose_back(run, &found, &run->saved);
    if (code != 0)
        return code;
    run->other_mesh = same_mesh(&run->state, &found) ? 0 : run->saved;
    char *folder = shelf_path(run->spec->checkpoint.directory, run->saved);
    code = load_numbers(run, run->saved, folder);
    free(folder);
    if (code != 0)
        return code;
    run->verified = run->saved;
    if (run->rank == 0)
        printf("going back from step %" PRId64 " to the checkpoint of step %" PRId64
               ", and past the samples in between\n",
               run->state.step, run->saved);
    /* The spike's own samples are not tried again; its tokens were computed like those of a skipped step. */
    run->state.samples += (uint64_t)run->spec->train.batch_global;
    run->state.tokens += (uint64_t)run_step_tokens(run);
    run->state.step = run->saved;
    return 0;
}
