/* attention: the table's functions. Each turns its arguments into one struct attention and gives it to the first path that takes it. */
#include "kernels/cuda/attention.h"

#include <math.h>

#include "kernels/cuda/fill.h"
#include "kernels/cuda/launch.cuh"

static void set_dropout(struct attention *a, const struct kernel_attention *s)
{
    a->threshold = (uint32_t)(s->dropout->rate * 4294967296.0);
    a->keep = (float)(1 / (1 - s->dropout->rate));
    a->key = s->dropout->key;
    a->rows = s->dropout->rows;
    a->q_position = s->q_position;
    a->k_position = s->k_position;
    a->first_head = s->first_head;
}

static struct attention call_of(bool half, const act *q, const act *k, const act *v,
                                const struct kernel_attention *s)
{
    struct attention a = {};
    a.half = half;
    a.causal = s->causal;
    a.batch = (int)s->batch;
    a.queries = (int)s->queries;
    a.keys = (int)s->keys;
    a.heads = (int)s->heads;
    a.kv_heads = (int)s->kv_heads;
    a.size = (int)s->size;
    a.q_stride = s->q_stride;
    a.q_batch = s->q_batch;
    a.kv_stride = s->kv_stride;
    a.kv_batch = s->kv_batch;
    a.out_stride = s->out_stride;
    a.out_batch = s->out_batch;
    a.lse_stride = s->lse_stride;
    a.scale = 1 / sqrtf((float)s->size);
    if (s->dropout)
        set_dropout(&a, s);
    a.q = q;
    a.k = k;
    a.v = v;
    return a;
}

static bool empty(const struct attention *a)
{
    return a->batch == 0 || a->heads == 0 || a->size == 0;
}

static void run_forward(const struct attention *a)
{
    if (empty(a) || attention_hopper_forward(a) || attention_mma_forward(a))
        return;
    attention_plain_forward(a);
}

static void run_backward(const struct attention *a)
{
    if (empty(a) || attention_hopper_backward(a) || attention_mma_backward(a))
        return;
    attention_plain_backward(a);
}

template <bool HALF>
static void attention_forward(real *out, real *lse, bool first, const act *q, const act *k, const act *v,
                              const struct kernel_attention *shape)
{
    struct attention a = call_of(HALF, q, k, v, shape);
    a.first = first;
    a.out_sum = out;
    a.lse = lse;
    run_forward(&a);
}

template <bool HALF>
static void attention_whole(act *out, real *lse, const act *q, const act *k, const act *v,
                            const struct kernel_attention *shape)
{
    struct attention a = call_of(HALF, q, k, v, shape);
    a.first = true;
    a.out = out;
    a.lse = lse;
    run_forward(&a);
}

template <bool HALF>
static void attention_backward(real *dq, real *dk, real *dv, const act *dout, const act *out, const real *lse,
                               const act *q, const act *k, const act *v, const struct kernel_attention *shape)
{
    struct attention a = call_of(HALF, q, k, v, shape);
    a.dout = dout;
    a.kept_out = out;
    a.kept_lse = lse;
    a.dq_sum = dq;
    a.dk_sum = dk;
    a.dv_sum = dv;
    run_backward(&a);
}

template <bool HALF>
static void attention_whole_backward(act *dq, act *dk, act *dv, const act *dout, const act *out,
                                     const real *lse, const act *q, const act *k, const act *v,
                                     const struct kernel_attention *shape)
{
    struct attention a = call_of(HALF, q, k, v, shape);
    a.dout = dout;
    a.kept_out = out;
    a.kept_lse = lse;
    a.dq = dq;
    a.dk = dk;
    a.dv = dv;
    run_backward(&a);
}

template <bool HALF> static void fill(struct kernels *table)
{
    table->attention_forward = attention_forward<HALF>;
    table->attention_backward = attention_backward<HALF>;
    table->attention_whole = attention_whole<HALF>;
    table->attention_whole_backward = attention_whole_backward<HALF>;
}

CUDA_FILL(attention)
{
    table->type == KERNEL_BF16 ? fill<true>(table) : fill<false>(table);
}
