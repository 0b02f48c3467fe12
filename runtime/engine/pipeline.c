/* pipeline: see pipeline.h. All three schedules have one shape: some forward passes to fill the pipeline, then forward and backward in turn,
 * then the backward passes that are left. They differ in how many come first, in which micro-batch and chunk pass number k is, and in
 * whether weight passes follow the backward passes at a distance. */
#include "runtime/engine/pipeline.h"

#include <stdlib.h>

#include "common/mem.h"

#define PASSES_MAX ((int64_t)1 << 28) /* far beyond any step; keeps the list within memory and an int */

struct plan {
    int pp, chunks, rank;
    int64_t total;  /* forward passes: micro * chunks */
    int64_t warmup; /* of them before the first backward pass */
    bool split;     /* weight passes are passes of their own */
    int64_t behind; /* backward passes before the first of them */
    struct pipeline_pass *passes;
    size_t count;
};

/* Groups of pp micro-batches go through chunk after chunk (arXiv 2104.04473, section 2.2). With one chunk pass k is micro-batch k. */
static void add(struct plan *p, enum pipeline_kind kind, int64_t k)
{
    int64_t group = (int64_t)p->pp * p->chunks;
    int chunk = p->chunks > 1 ? (int)(k % group / p->pp) : 0;
    int64_t micro = p->chunks > 1 ? k / group * p->pp + k % p->pp : k;
    if (kind != PASS_FORWARD)
        chunk = p->chunks - 1 - chunk;
    p->passes[p->count++] = (struct pipeline_pass){.kind = kind, .micro = (int)micro, .chunk = chunk};
}

static void add_backward(struct plan *p, int64_t k)
{
    add(p, PASS_BACKWARD, k);
    if (p->split && k >= p->behind)
        add(p, PASS_WEIGHTS, k - p->behind);
}

static void add_all(struct plan *p)
{
    int64_t forward = 0, backward = 0;
    while (forward < p->warmup)
        add(p, PASS_FORWARD, forward++);
    while (forward < p->total) {
        add(p, PASS_FORWARD, forward++);
        add_backward(p, backward++);
    }
    while (backward < p->total)
        add_backward(p, backward++);
    int64_t late = p->behind < p->total
                       ? p->behind
                       : p->total; /* weight passes that no backward pass was left to follow */
    for (int64_t k = p->total - late; k < p->total; k++)
        add(p, PASS_WEIGHTS, k);
}

/* Ranks before the last run ahead by the ranks behind them; with chunks by twice as many and by all chunks but one (Megatron-LM's warm-up,
 * which lets each gradient come back just in time). */
static int64_t warmup_of(const struct plan *p)
{
    int64_t behind = p->pp - p->rank - 1;
    int64_t ahead = p->chunks == 1 ? behind : 2 * behind + (int64_t)(p->chunks - 1) * p->pp;
    return ahead < p->total ? ahead : p->total;
}

static int check(enum job_pipeline schedule, int pp, int virtual_stages, int micro, int rank, struct err *err)
{
    if (pp < 1 || virtual_stages < 1 || micro < 1 || rank < 0 || rank >= pp)
        return err_set(err,
                       "rank %d of %d pipeline ranks with %d virtual stages and %d micro-batches is nothing "
                       "that can be scheduled",
                       rank, pp, virtual_stages, micro);
    if (3 * (int64_t)micro * virtual_stages > PASSES_MAX)
        return err_set(
            err,
            "%d micro-batches in %d virtual stages are too many passes for one step; raise train.batch.micro",
            micro, virtual_stages);
    if (schedule != PIPELINE_INTERLEAVED && virtual_stages > 1)
        return err_set(err, "%d virtual stages need parallel.schedule: interleaved", virtual_stages);
    if (virtual_stages > 1 && micro % pp != 0)
        return err_set(err,
                       "%d micro-batches are not a multiple of pp = %d, which the interleaved schedule "
                       "needs; change train.batch or "
                       "use parallel.schedule: 1f1b",
                       micro, pp);
    return 0;
}

struct pipeline_pass *pipeline_passes(enum job_pipeline schedule, int pp, int virtual_stages, int micro,
                                      int rank, size_t *count, struct err *err)
{
    if (check(schedule, pp, virtual_stages, micro, rank, err) < 0)
        return NULL;
    struct plan p = {.pp = pp,
                     .chunks = virtual_stages,
                     .rank = rank,
                     .total = (int64_t)micro * virtual_stages,
                     .split = schedule == PIPELINE_ZERO_BUBBLE};
    p.warmup = warmup_of(&p);
    /* ZB-H1: rank r lets r weight passes wait, so that gradients reach the ranks before it the sooner (arXiv 2401.10241, section 2.3). */
    p.behind = p.split ? rank : 0;
    p.passes = mem_zero((size_t)p.total * (p.split ? 3 : 2), sizeof *p.passes);
    add_all(&p);
    *count = p.count;
    return p.passes;
}

int pipeline_in_flight(const struct pipeline_pass *passes, size_t count)
{
    bool split = false;
    int held = 0, most = 0;
    for (size_t i = 0; i < count; i++)
        split = split || passes[i].kind == PASS_WEIGHTS;
    for (size_t i = 0; i < count; i++) {
        if (passes[i].kind == PASS_FORWARD)
            held++;
        else if (passes[i].kind == PASS_WEIGHTS || !split)
            held--;
        most = held > most ? held : most;
    }
    return most;
}

double pipeline_bubble(enum job_pipeline schedule, int pp, int virtual_stages, int micro)
{
    double p = pp, m = micro, v = virtual_stages;
    bool split = schedule == PIPELINE_ZERO_BUBBLE;
    double work = split ? 3 * m : v * m;
    double idle = split && m < p ? 2 * p - 1 - m : p - 1;
    return pp > 1 ? idle / (work + idle) : 0;
}
