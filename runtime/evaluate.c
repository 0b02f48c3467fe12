/* evaluate: see evaluate.h. */
#include "runtime/evaluate.h"

#include <math.h>
#include <stdlib.h>

#include "common/mem.h"

#define ROWS 2048 /* tokens of a pass, about: enough for the matrix library */

struct pass {
    struct model *model;
    size_t batch, context;
    int32_t *tokens, *targets; /* (batch, context) */
};

static int open_pass(struct pass *p, const struct inference *in, size_t context, uint64_t windows,
                     struct err *err)
{
    struct model_request r = inference_request(in);
    size_t batch = ROWS / context > 0 ? ROWS / context : 1;
    r.context = context;
    r.batch = windows < batch ? (size_t)windows : batch;
    *p = (struct pass){.model = model_new(&r, err), .batch = r.batch, .context = context};
    p->tokens = mem_zero(r.batch * context, sizeof *p->tokens);
    p->targets = mem_zero(r.batch * context, sizeof *p->targets);
    return p->model ? 0 : -1;
}

static void close_pass(struct pass *p)
{
    model_free(p->model);
    free(p->tokens);
    free(p->targets);
}

/* Windows at..; what is more than `end` is not counted. */
static int fill(const struct pass *p, const struct evalset *set, uint64_t at, uint64_t end, struct err *err)
{
    for (size_t i = 0; i < p->batch; i++) {
        int32_t *targets = p->targets + i * p->context;
        bool there = at + i < end;
        if (evalset_fill(set, there ? at + i : at, p->tokens + i * p->context, targets, err) != 0)
            return -1;
        for (size_t j = 0; !there && j < p->context; j++)
            targets[j] = -1;
    }
    return 0;
}

static void count(const struct pass *p, const struct tokenizer *t, struct evaluate_result *result)
{
    for (size_t i = 0; i < p->batch * p->context; i++) {
        size_t len = 0;
        if (p->targets[i] < 0)
            continue;
        result->counted++;
        if (!tokenizer_is_special(t, p->targets[i]) && tokenizer_bytes(t, p->targets[i], &len))
            result->bytes += len;
    }
}

static int run(const struct pass *p, const struct inference *in, const struct evalset *set, uint64_t at,
               uint64_t end, struct evaluate_result *result, struct err *err)
{
    struct model_batch batch = {.tokens = p->tokens, .targets = p->targets};
    if (fill(p, set, at, end, err) != 0)
        return -1;
    model_forward(p->model, &batch, NULL);
    result->nats += model_take_loss(p->model).cross_entropy;
    result->windows = at + p->batch < end ? at + p->batch : end;
    count(p, in->tokenizer, result);
    if (isfinite(result->nats))
        return 0;
    return err_set(err,
                   "the loss is not finite within windows %llu to %llu; the model may come from a run that "
                   "diverged",
                   (unsigned long long)at, (unsigned long long)result->windows - 1);
}

int evaluate(const struct inference *inference, const struct evalset *set, size_t context, uint64_t windows,
             evaluate_progress *progress, void *arg, struct evaluate_result *result, struct err *err)
{
    struct pass p;
    *result = (struct evaluate_result){.nats = 0};
    int rc = open_pass(&p, inference, context, windows, err);
    for (uint64_t at = 0; rc == 0 && at < windows; at += p.batch) {
        rc = run(&p, inference, set, at, windows, result, err);
        if (rc == 0 && progress)
            progress(arg, result, windows);
    }
    close_pass(&p);
    return rc;
}
