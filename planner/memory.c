/* memory: the stage with most is looked for, because it decides. Early stages hold more micro-batches, the first one the table of
 * embeddings too, the last one the head and its logits. */
#include "planner/memory.h"

#include "planner/params.h"

/* What is there before a model is: CUDA context (~0.5 GB), cuBLAS workspaces, NCCL channels of a handful of communicators, and what
 * the allocator cannot use. */
#define RESERVE_BYTES 3e9
#define FP32_BYTES    4
#define IMAGE_BYTES                                                                                          \
    12 /* of a number in a checkpoint: itself and two moments, in fp32 (docs/checkpoint-format.md) */

/* bf16: weights 2, gradients 2, fp32 master copy and two moments 12. fp32: 4, 4 and two moments 8. */
struct widths {
    double number, gradient, optimizer;
};

static struct widths widths_of(enum job_precision precision)
{
    bool half = precision != PRECISION_FP32;
    return half ? (struct widths){2, 2, 12} : (struct widths){4, 4, 8};
}

double memory_per_parameter(enum job_precision precision)
{
    struct widths w = widths_of(precision);
    return w.number + w.gradient + w.optimizer;
}

double memory_kv_cache(const struct job_model *m, int64_t context, double width)
{
    return 2.0 * (double)m->layers * (double)params_kv_width(m) * (double)context * width;
}

/* Numbers that a token leaves in one feed-forward block: the inputs of its matrices and what its activation needs. Llama keeps gate and
 * up and computes their product again; GPT-2 keeps both sides of GELU. */
static double ffn_numbers(const struct job_model *m, enum job_recompute recompute)
{
    double copies = m->experts > 0 ? (double)m->top_k : 1;
    double inner = m->arch == ARCH_LLAMA ? 2 : recompute == RECOMPUTE_SELECTIVE ? 1 : 2;
    double dispatched = m->experts > 0 ? copies * (double)m->hidden : 0;
    return copies * inner * (double)m->ffn + dispatched;
}

/* Inputs of the norms (2) and their outputs (2); GPT-2 also two dropout masks of a byte, as its 34 bytes are counted. Selective leaves the
 * outputs of the norms away, full all but the first input. */
static double stream_numbers(const struct job_model *m, enum job_recompute recompute)
{
    double norms = recompute == RECOMPUTE_FULL ? 1 : recompute == RECOMPUTE_SELECTIVE ? 2 : 4;
    double masks = m->arch == ARCH_GPT2 && recompute == RECOMPUTE_NONE ? 1 : 0;
    return (norms + masks) * (double)m->hidden;
}

/* Queries, keys, values, and the output of attention. */
static double attention_numbers(const struct job_model *m)
{
    return 2 * (double)m->hidden + 2 * (double)params_kv_width(m);
}

/* Numbers that a token leaves in one block: in the residual stream, and within the block. */
struct kept {
    double stream, inner;
};

static struct kept block_numbers(const struct job_model *m, enum job_recompute recompute)
{
    double inner = recompute == RECOMPUTE_FULL ? 0 : attention_numbers(m) + ffn_numbers(m, recompute);
    return (struct kept){stream_numbers(m, recompute), inner};
}

double memory_block_activation(const struct job_model *m, enum job_recompute recompute, double width)
{
    struct kept k = block_numbers(m, recompute);
    return (k.stream + k.inner) * width;
}

/* What zero-bubble keeps of a block's backward pass until its weight pass: the gradients of what both halves add to the stream, of queries,
 * keys and values, and of the activation function's input. */
static struct kept put_off(const struct job_spec *spec)
{
    const struct job_model *m = &spec->train.model;
    double copies = m->experts > 0 ? (double)m->top_k : 1;
    double wide = copies * (m->arch == ARCH_LLAMA ? 2 : 1) * (double)m->ffn;
    if (spec->pp == 1 || spec->pipeline != PIPELINE_ZERO_BUBBLE)
        return (struct kept){0, 0};
    return (struct kept){2 * (double)m->hidden, (double)m->hidden + 2 * (double)params_kv_width(m) + wide};
}

/* Bytes that one token and one block leave on one rank. Without sequence parallelism each rank of TP has the stream whole. */
static double block_bytes(const struct job_spec *spec, enum job_recompute recompute, double width)
{
    struct kept passes = block_numbers(&spec->train.model, recompute), later = put_off(spec);
    double stream = passes.stream + later.stream, inner = passes.inner + later.inner;
    double tp = (double)spec->tp;
    return ((spec->sequence ? stream / tp : stream) + inner / tp) * width;
}

/* 1F1B: a stage runs ahead of the last one by the stages between. Interleaved: Narayanan et al. 2021 (arXiv 2104.04473), warm-up of the
 * schedule in Megatron-LM. Zero-bubble is taken as ZB-H1, which keeps 1F1B's memory: every rank as much as the first (Qi et al., arXiv
 * 2401.10241). */
double memory_in_flight(const struct job_spec *spec, int64_t stage)
{
    double v = (double)spec->virtual_stages;
    double micro = (double)spec->train.batch_global / (double)(spec->train.batch_micro * spec->dp);
    double ahead = (double)(spec->pipeline == PIPELINE_ZERO_BUBBLE ? spec->pp : spec->pp - stage);
    micro = micro < 1 ? 1 : micro;
    if (spec->pp > 1 && spec->virtual_stages > 1)
        ahead = (2 * (double)(spec->pp - stage - 1) + (v - 1) * (double)spec->pp + 1) / v;
    return ahead < micro ? ahead : micro;
}

struct shards {
    double dense, expert; /* ranks that a replica's state is cut over */
};

static double sharded(const struct params_share *s, const struct shards *n, bool cut, double width)
{
    return width * (cut ? s->dense / n->dense + s->expert / n->expert : s->dense + s->expert);
}

/* Of a micro-batch, on one rank of CP. */
static double tokens_of(const struct job_spec *spec)
{
    return (double)(spec->train.batch_micro * spec->train.model.context) / (double)spec->cp;
}

static double working_bytes(const struct job_spec *spec, enum job_recompute recompute, double width)
{
    if (recompute != RECOMPUTE_FULL)
        return 0;
    return tokens_of(spec) * block_bytes(spec, RECOMPUTE_NONE, width);
}

/* Logits in the width of the passes and once more in fp32 for the loss. */
static double logits_bytes(const struct job_spec *spec, bool head, double width)
{
    double full = width < 4 ? 4 : 0;
    double columns = (double)spec->train.model.vocab / (double)spec->tp;
    return head ? tokens_of(spec) * columns * (width + full) : 0;
}

static double gathered_bytes(const struct params_share *s, int64_t zero, double width)
{
    double block = (s->dense + s->expert) / (double)(s->layers > 0 ? s->layers : 1);
    return zero == 3 ? 2 * block * width : 0;
}

int64_t memory_n_images(const struct job_spec *spec)
{
    if (spec->checkpoint.memory_every == 0)
        return 1;
    return spec->checkpoint.buddy ? 5 : 3;
}

static void sum_up(struct memory *m)
{
    m->total = m->weights + m->gradients + m->optimizer + m->gathered + m->activations + m->working +
               m->logits + m->reserve;
}

static void of_stage(const struct job_spec *spec, enum params_place place, int64_t stage, int64_t zero,
                     enum job_recompute recompute, struct memory *out)
{
    struct widths w = widths_of(spec->train.precision);
    struct params_share s = params_share(spec, place);
    double replicas = (double)(spec->dp * spec->cp);
    struct shards n = {replicas, replicas / (double)spec->ep};
    *out = (struct memory){
        .weights = sharded(&s, &n, zero >= 3, w.number),
        .gradients = sharded(&s, &n, zero >= 2, w.gradient),
        .fp32_gradients = sharded(&s, &n, zero >= 2, FP32_BYTES - w.gradient),
        .optimizer = sharded(&s, &n, zero >= 1, w.optimizer),
        .gathered = gathered_bytes(&s, zero, w.number),
        .working = working_bytes(spec, recompute, w.number),
        .logits = logits_bytes(spec, s.head, w.number),
        .images = (double)memory_n_images(spec) * sharded(&s, &n, true, IMAGE_BYTES),
        .in_flight = memory_in_flight(spec, stage),
    };
    out->activations =
        out->in_flight * (double)s.layers * tokens_of(spec) * block_bytes(spec, recompute, w.number);
}

void memory_with(const struct job_spec *spec, bool gpu, int64_t zero, enum job_recompute recompute,
                 struct memory *out)
{
    const int64_t stages[PLACE_COUNT] = {0, 1, spec->pp - 1};
    *out = (struct memory){.total = 0};
    for (enum params_place place = 0; place < PLACE_COUNT; place++) {
        struct memory m;
        if (place == PLACE_MID && spec->pp < 3)
            continue;
        of_stage(spec, place, stages[place], zero, recompute, &m);
        m.reserve = gpu ? RESERVE_BYTES : 0;
        sum_up(&m);
        if (m.total > out->total)
            *out = m;
    }
}

void memory_of(const struct job_spec *spec, bool gpu, struct memory *out)
{
    memory_with(spec, gpu, spec->zero, spec->train.recompute, out);
}
