/* steptime: one block's forward and backward pass on one device first, then a stage of blocks, then the schedule of micro-batches. */
#include "planner/steptime.h"

#include <math.h>

#include "planner/params.h"

/* All that the formulas share. Seconds are of one micro-batch unless said otherwise. */
struct work {
    const struct job_spec *spec;
    const struct job_model *m;
    const struct plan_device *device;
    const struct fabric *fabric;
    const enum job_domain *level;
    double width;   /* bytes of a number in the passes */
    double peak;    /* FLOP/s */
    double tokens;  /* of a micro-batch on one rank of CP, all ranks of TP together */
    double context; /* tokens that one of them can look at */
    double tp;
    double micro_batches;
};

/* Seconds of the parts of a pass through one block, forward or both ways. */
struct block {
    double products, attention, elementwise, tp, cp, ep;
};

static struct work work_of(const struct job_spec *spec, const struct fabric *fabric,
                           const enum job_domain *level)
{
    const struct job_train *t = &spec->train;
    bool half = t->precision != PRECISION_FP32;
    double micro = (double)t->batch_global / (double)(t->batch_micro * spec->dp);
    return (struct work){
        .spec = spec,
        .m = &t->model,
        .device = fabric->device,
        .fabric = fabric,
        .level = level,
        .width = half ? 2 : 4,
        .peak = half ? fabric->device->bf16 : fabric->device->fp32,
        .tokens = (double)(t->batch_micro * t->model.context) / (double)spec->cp,
        .context = (double)t->model.context,
        .tp = (double)spec->tp,
        .micro_batches = micro < 1 ? 1 : micro,
    };
}

/* ---- products ---- */

/* Seconds of (tokens, inner) x (inner, outer). Filling and draining the device's pipelines and the last, half empty tiles cost as if inner and
 * outer were larger by gemm_half. */
static double product(const struct work *w, double tokens, double inner, double outer)
{
    double slower = (1 + w->device->gemm_half / inner) * (1 + w->device->gemm_half / outer);
    return 2 * tokens * inner * outer / (w->peak * w->device->gemm) * slower + w->device->kernel_s;
}

/* Column-parallel then row-parallel (Megatron-LM): the outer width of the first and the inner width of the second are cut over TP. */
static double attention_products(const struct work *w)
{
    double hidden = (double)w->m->hidden, kv = (double)params_kv_width(w->m);
    return product(w, w->tokens, hidden, (hidden + 2 * kv) / w->tp) +
           product(w, w->tokens, hidden / w->tp, hidden);
}

/* A token goes through top_k experts; each rank of EP has its share of all tokens of the group. */
static double ffn_products(const struct work *w)
{
    double hidden = (double)w->m->hidden, inner = (double)w->m->ffn / w->tp;
    double tokens = w->m->experts > 0 ? w->tokens * (double)w->m->top_k : w->tokens;
    double first = w->m->arch == ARCH_LLAMA ? 2 * inner : inner;
    return product(w, tokens, hidden, first) + product(w, tokens, inner, hidden);
}

/* Scores and values, 4 x tokens x context x hidden, half of it behind the causal mask. */
static double attention_core(const struct work *w)
{
    return 2 * w->tokens * w->context * (double)w->m->hidden / w->tp / w->peak;
}

/* ---- bound by memory ---- */

static double stream(const struct work *w, double bytes)
{
    return bytes / (w->device->bandwidth * w->device->stream);
}

/* Numbers read and written by fused kernels, per token, forward: twice residual, branch and their sum and its norm (8 x hidden), queries
 * and keys turned in place, the activation between the matrices. */
static double forward_numbers(const struct work *w)
{
    double hidden = (double)w->m->hidden, kv = (double)params_kv_width(w->m);
    double copies = w->m->experts > 0 ? (double)w->m->top_k : 1;
    double inner = (w->m->arch == ARCH_LLAMA ? 3 : 2) * (double)w->m->ffn;
    double turned = w->m->arch == ARCH_LLAMA ? 2 * (hidden + kv) : 0;
    return 8 * hidden + turned + copies * inner;
}

/* Backward: the gradient arriving, the saved input, the residual's gradient, and writing; the activation reads its inputs as well. */
static double backward_numbers(const struct work *w)
{
    double hidden = (double)w->m->hidden, kv = (double)params_kv_width(w->m);
    double copies = w->m->experts > 0 ? (double)w->m->top_k : 1;
    double inner = (w->m->arch == ARCH_LLAMA ? 5 : 3) * (double)w->m->ffn;
    double turned = w->m->arch == ARCH_LLAMA ? 2 * (hidden + kv) : 0;
    return 10 * hidden + turned + copies * inner;
}

static double elementwise(const struct work *w, double numbers)
{
    const double kernels = 5; /* of a pass through a block */
    return stream(w, numbers * w->tokens / w->tp * w->width) + kernels * w->device->kernel_s;
}

/* ---- communication within passes ---- */

/* Collectives of one axis: bytes over the ring, and a message per doubling of the ranks, as trees and switches have it. */
static double ring_seconds(const struct work *w, enum axis axis, double times, double bytes)
{
    struct cluster_link link = fabric_ring(w->fabric, w->spec, axis, w->level[axis]);
    int64_t n = w->spec->ranks / axis_groups(w->spec, axis);
    return n <= 1 ? 0 : bytes / link.bytes_per_s + times * ceil(log2((double)n)) * link.latency_s;
}

/* Two all-reduces a pass. */
static double tensor_seconds(const struct work *w)
{
    double activation = w->tokens * (double)w->m->hidden * w->width;
    double bytes = 2 * 2 * (w->tp - 1) / w->tp * activation;
    return w->device->tp_exposed * ring_seconds(w, AXIS_TP, 2, bytes);
}

/* Keys and values around the ring once. */
static double context_seconds(const struct work *w)
{
    double cp = (double)w->spec->cp, heads = fmax(1, (double)w->m->kv_heads / w->tp);
    double head = (double)w->m->hidden / (double)w->m->heads;
    double bytes = (cp - 1) * w->tokens * 2 * heads * head * w->width;
    return ring_seconds(w, AXIS_CP, cp - 1, bytes);
}

/* Two all-to-alls a pass. */
static double expert_seconds(const struct work *w)
{
    double ep = (double)w->spec->ep;
    struct cluster_link link = fabric_pairs(w->fabric, w->level[AXIS_EP]);
    double bytes =
        2 * (ep - 1) / ep * (double)w->m->top_k * w->tokens * (double)w->m->hidden * w->width / w->tp;
    return ep <= 1 ? 0 : bytes / link.bytes_per_s + 2 * ceil(log2(ep)) * link.latency_s;
}

/* ---- a block, a stage ---- */

/* What of a communication keeps the device waiting when it may hide behind a computation. The part that hides still takes memory bandwidth
 * and processors from it. */
static double exposed(const struct work *w, double communication, double computation)
{
    double waits = fmax(0, communication - computation);
    return waits + (communication - waits) * w->device->contention;
}

static struct block forward(const struct work *w)
{
    double core = attention_core(w) / w->device->attention_forward;
    return (struct block){
        .products = attention_products(w) + ffn_products(w),
        .attention = core,
        .elementwise = elementwise(w, forward_numbers(w)),
        .tp = tensor_seconds(w),
        .cp = exposed(w, context_seconds(w), core),
        .ep = expert_seconds(w),
    };
}

/* Twice the products; 2.5 times the attention, which computes its scores again; keys and values go around with their gradients. */
static struct block backward(const struct work *w)
{
    double core = 2.5 * attention_core(w) / w->device->attention_backward;
    return (struct block){
        .products = 2 * (attention_products(w) + ffn_products(w)),
        .attention = core,
        .elementwise = elementwise(w, backward_numbers(w)),
        .tp = tensor_seconds(w),
        .cp = exposed(w, 2 * context_seconds(w), core),
        .ep = expert_seconds(w),
    };
}

static double sum_of(const struct block *b)
{
    return b->products + b->attention + b->elementwise + b->tp + b->cp + b->ep;
}

/* What is done again of a forward pass. */
static double recomputed(const struct work *w, const struct block *forward_pass)
{
    switch (w->spec->train.recompute) {
    case RECOMPUTE_FULL:
        return sum_of(forward_pass);
    case RECOMPUTE_SELECTIVE:
        return forward_pass->elementwise;
    case RECOMPUTE_NONE:
        break;
    }
    return 0;
}

/* Product with the table, and the loss: logits are read twice and their gradients written over them. */
static double head_products(const struct work *w)
{
    return 3 * product(w, w->tokens, (double)w->m->hidden, (double)w->m->vocab / w->tp);
}

static double head_elementwise(const struct work *w)
{
    return stream(w, w->tokens * (double)w->m->vocab / w->tp * 3 * w->width);
}

static void add_passes(struct steptime *t, const struct block *b, double times)
{
    t->products += times * b->products;
    t->attention += times * b->attention;
    t->elementwise += times * b->elementwise;
    t->tp += times * b->tp;
    t->cp += times * b->cp;
    t->ep += times * b->ep;
}

static double busy(const struct steptime *t)
{
    return t->products + t->attention + t->elementwise + t->recompute + t->tp + t->cp + t->ep;
}

/* One micro-batch through one pipeline rank, both ways. */
static struct steptime stage_of(const struct work *w, enum params_place place)
{
    struct params_share share = params_share(w->spec, place);
    struct block f = forward(w), b = backward(w);
    struct steptime t = {.recompute = (double)share.layers * recomputed(w, &f)};
    add_passes(&t, &f, (double)share.layers);
    add_passes(&t, &b, (double)share.layers);
    if (share.head) {
        t.products += head_products(w);
        t.elementwise += head_elementwise(w);
    }
    return t;
}

/* ---- the step ---- */

/* Activation and gradient go to the neighbour. The interleaved schedule sends while it computes, so only filling and emptying the
 * pipeline waits for the links; the others wait each time. */
static double pipeline_seconds(const struct work *w)
{
    struct cluster_link link = fabric_pairs(w->fabric, w->level[AXIS_PP]);
    double bytes = w->tokens * (double)w->m->hidden * w->width / w->tp;
    double hops = (double)(w->spec->pp - 1);
    if (w->spec->pipeline == PIPELINE_1F1B)
        hops += w->micro_batches;
    return w->spec->pp == 1 ? 0 : 2 * hops * (bytes / link.bytes_per_s + link.latency_s);
}

/* Of m micro-batches in groups of pp, the last group has `rest` of them: its pieces come around only after a whole turn of pp, so each of
 * v-1 turns stands still for the pieces that are missing. */
static double missing_pieces(const struct work *w)
{
    double pp = (double)w->spec->pp, rest = fmod(w->micro_batches, pp);
    return rest > 0 ? (double)(w->spec->virtual_stages - 1) * (pp - rest) : 0;
}

/* Pieces of different size go at the pace of the largest. */
static double uneven_pieces(const struct work *w)
{
    struct params_stages s = params_stages(w->spec);
    return (double)(w->spec->virtual_stages * s.piece) / (double)s.most;
}

/* (pp-1)/(v m) of the passes when m is a multiple of pp (Narayanan et al., arXiv 2104.04473, section 2.2). ZB-H1 leaves a third (Qi et al.,
 * arXiv 2401.10241) when the pipeline can be filled; with less than pp micro-batches one has to go there and back all the same. */
static double bubble_share(const struct work *w)
{
    double pp = (double)w->spec->pp, v = (double)w->spec->virtual_stages, m = w->micro_batches;
    if (w->spec->pipeline == PIPELINE_ZERO_BUBBLE)
        return fmax(pp - 1, pp == 1 ? 0 : 2 * pp - 1 - m) / (3 * v * m);
    return (1 + (pp - 1 + missing_pieces(w)) / (v * m)) * uneven_pieces(w) - 1;
}

/* Gathers and scatters over all replicas are rings of as many hops (NCCL has no trees for them); in a node the switch makes them one. */
static double gathers_seconds(const struct work *w, double collectives, double bytes)
{
    bool outside = w->level[AXIS_DP] > DOMAIN_NVLINK;
    double hops = outside ? (double)(w->spec->dp * w->spec->cp - 1) : 0;
    double seconds = ring_seconds(w, AXIS_DP, collectives, bytes) / (outside ? w->device->replica_share : 1);
    return seconds + collectives * hops * w->fabric->links[w->level[AXIS_DP]].latency_s;
}

/* Gradients go while the last micro-batch passes back, parameters while the first passes forward; what is sent for every micro-batch
 * (traffic_replica_rounds) has that one's passes beside it. ZeRO-3 gathers and scatters block by block. The first block's parameters and the last one's gradients have nothing to hide behind. */
static double replica_seconds(const struct work *w, const struct steptime *stage)
{
    struct traffic t;
    traffic_of(w->spec, &t);
    struct params_share share = params_largest_share(w->spec);
    double collectives = traffic_replica_rounds(w->spec) * (w->spec->zero == 3 ? (double)share.layers : 1);
    double all = gathers_seconds(w, collectives, t.axis[AXIS_DP].bytes);
    double beside = busy(stage) * (w->spec->zero >= 2 ? w->micro_batches : 1);
    double ends = all / (double)(share.layers > 0 ? share.layers : 1);
    return exposed(w, all - ends, fmax(0, beside - ends)) + ends;
}

/* AdamW reads gradient, master copy and moments and writes all but the gradient; the norm of all gradients reads them once more. */
static double optimizer_seconds(const struct work *w)
{
    struct params_share s = params_largest_share(w->spec);
    double replicas = (double)(w->spec->dp * w->spec->cp), experts = replicas / (double)w->spec->ep;
    bool cut = w->spec->zero >= 1;
    double held = cut ? s.dense / replicas + s.expert / experts : s.dense + s.expert;
    double bytes = w->width == 2 ? 12 + 12 + 2 + 2 + 2 : 12 + 12 + 4 + 4;
    return stream(w, held * bytes);
}

/* The expected largest of n normal values lies about sqrt(2 ln n) deviations above the mean. */
static double jitter_seconds(const struct work *w, double passes)
{
    return passes * w->device->jitter * sqrt(2 * log((double)w->spec->ranks));
}

static struct steptime busiest_stage(const struct work *w)
{
    struct steptime worst = stage_of(w, PLACE_LAST);
    struct steptime other = stage_of(w, w->spec->pp > 2 ? PLACE_MID : PLACE_FIRST);
    return busy(&other) > busy(&worst) ? other : worst;
}

static void scale_passes(struct steptime *t, double times)
{
    t->products *= times;
    t->attention *= times;
    t->elementwise *= times;
    t->recompute *= times;
    t->tp *= times;
    t->cp *= times;
    t->ep *= times;
}

void steptime_of(const struct job_spec *spec, const struct fabric *fabric,
                 const enum job_domain level[AXIS_COUNT], struct steptime *out)
{
    struct work w = work_of(spec, fabric, level);
    struct steptime stage = busiest_stage(&w);
    *out = stage;
    scale_passes(out, w.micro_batches);
    out->bubble_share = bubble_share(&w);
    out->bubble = out->bubble_share * busy(out);
    out->pp = pipeline_seconds(&w);
    out->dp = replica_seconds(&w, &stage);
    out->optimizer = optimizer_seconds(&w);
    out->jitter = jitter_seconds(&w, busy(out));
    out->total = busy(out) + out->pp + out->bubble + out->dp + out->optimizer + out->jitter;
}
