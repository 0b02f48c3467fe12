/* job_check_training: the rules between steps, batch, optimizer, data and evaluation, and what follows from others among them. */
#include <inttypes.h>

#include "common/mem.h"
#include "schema/job_rules.h"

/* ---- steps ---- */

/* Completes micro, and checks the batch. */
static void check_batch(struct job_reader *r)
{
    struct job_train *t = &r->spec->train;
    int64_t dp = r->spec->dp;
    if (!SOUND(r, "train.batch", "train.batch.global", "train.batch.micro", "parallel.dp"))
        return;
    if (job_given(r, "train.batch.micro") && t->batch_global % (t->batch_micro * dp) != 0)
        COMPLAIN(r, "train.batch.global",
                 "%" PRId64 " is not a multiple of micro x dp = %" PRId64 " x %" PRId64 " = %" PRId64,
                 t->batch_global, t->batch_micro, dp, t->batch_micro * dp);
    else if (t->batch_global % dp != 0)
        COMPLAIN(r, "train.batch.global", "%" PRId64 " sequences cannot be divided by dp = %" PRId64,
                 t->batch_global, dp);
    else if (!job_given(r, "train.batch.micro"))
        t->batch_micro = t->batch_global / dp;
}

static void check_optimizer(struct job_reader *r)
{
    struct job_optimizer *o = &r->spec->train.optimizer;
    if (!job_given(r, "train.optimizer.min_lr"))
        o->min_lr = o->lr / 10;
    else if (o->min_lr > o->lr && SOUND(r, "train.optimizer.min_lr", "train.optimizer.lr"))
        COMPLAIN(r, "train.optimizer.min_lr", "%g is more than lr = %g", o->min_lr, o->lr);
    if (o->warmup > r->spec->train.steps && SOUND(r, "train.optimizer.warmup", "train.steps", "train"))
        COMPLAIN(r, "train.optimizer.warmup", "%" PRId64 " is more than the %" PRId64 " steps of the job",
                 o->warmup, r->spec->train.steps);
}

static void check_decay(struct job_reader *r)
{
    struct job_optimizer *o = &r->spec->train.optimizer;
    int64_t steps = r->spec->train.steps, rest = steps > o->warmup ? steps - o->warmup : 0;
    if (!SOUND(r, "train.optimizer.decay", "train.optimizer.warmup", "train.steps"))
        return;
    job_fill(r, "train.optimizer.decay", &o->decay, steps / 10 < rest ? steps / 10 : rest);
    if (o->schedule == LR_WSD && o->decay > rest)
        COMPLAIN(r, "train.optimizer.decay",
                 "%" PRId64 " and warmup %" PRId64 " are more than the %" PRId64
                 " steps of the job; use decay: %" PRId64 " or less",
                 o->decay, o->warmup, steps, rest);
}

/* ---- data ---- */

static void check_corpora(struct job_reader *r)
{
    bool path = job_given(r, "train.data.path"), mix = job_given(r, "train.data.mix");
    if (!job_given(r, "train.data") || !SOUND(r, "train.data", "train.data.path", "train.data.mix"))
        return;
    if (path && mix)
        COMPLAIN(
            r, "train.data.mix",
            "the job learns either path (one corpus) or mix (several), not both; put path into the list");
    else if (!path && !mix)
        diag_add(r->diag, job_place(r, "train.data.path"),
                 "train.data.path is missing: %s; or mix, for several",
                 job_fields[job_field_index("train.data.path")].help);
}

/* One corpus is the same whether it was given as path or as a mixture of one; the first of several stands for them in messages. */
static void fill_corpora(struct job_reader *r)
{
    struct job_train *t = &r->spec->train;
    if (t->n_corpora > 0 && !t->data_path && t->corpora[0].path)
        t->data_path = str_dup(t->corpora[0].path);
    if (t->n_corpora == 1)
        t->corpora[0].weight = 1;
    if (t->n_corpora > 0 || !t->data_path)
        return;
    t->corpora = mem_zero(1, sizeof *t->corpora);
    t->corpora[t->n_corpora++] = (struct job_corpus){str_dup(t->data_path), 1};
}

static void check_eval(struct job_reader *r)
{
    const struct job_train *t = &r->spec->train;
    if (t->eval_path && t->holdout > 0 && SOUND(r, "train.eval.path", "train.data.holdout"))
        COMPLAIN(r, "train.eval.path",
                 "is there, and train.data.holdout %g keeps a part of the training data for the same; leave "
                 "one of them away",
                 t->holdout);
    if (t->eval_every > 0 && t->holdout == 0 && !t->eval_path &&
        SOUND(r, "train.eval.every", "train.eval.path", "train.data.holdout", "train.data"))
        COMPLAIN(r, "train.eval.every",
                 "every %" PRId64
                 " steps, but there is nothing to evaluate on; add train.data.holdout, such as 0.01, or "
                 "train.eval.path, or use every: 0",
                 t->eval_every);
    if (r->spec->checkpoint.keep_best > 0 && t->eval_every == 0 &&
        SOUND(r, "checkpoint.keep_best", "train.eval.every"))
        COMPLAIN(
            r, "checkpoint.keep_best",
            "is %" PRId64
            ", but no held-out loss is computed by which the best could be told; add train.eval.every, of "
            "which checkpoint.every is a multiple, or use keep_best: 0",
            r->spec->checkpoint.keep_best);
}

void job_check_training(struct job_reader *r)
{
    check_corpora(r);
    fill_corpora(r);
    check_batch(r);
    check_optimizer(r);
    check_decay(r);
    check_eval(r);
}
