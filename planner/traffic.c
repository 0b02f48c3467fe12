/* traffic: bytes per step by axis. Every collective is taken as a ring, in which a rank sends (n-1)/n of the data for a gather or
 * a scatter and twice that for an all-reduce. Formulas and sources: docs/planning.md, "Traffic". */
#include "planner/traffic.h"

#include "planner/params.h"

static const char *const names[AXIS_COUNT] = {
    [AXIS_TP] = "TP", [AXIS_CP] = "CP", [AXIS_EP] = "EP", [AXIS_PP] = "PP", [AXIS_DP] = "DP"};

/* What a run: job is taken to send per axis, steps apart that no ring factor (1/2 to 2) can bridge. */
static const double nominal_bytes[AXIS_COUNT] = {
    [AXIS_TP] = 256e9, [AXIS_CP] = 32e9, [AXIS_EP] = 8e9, [AXIS_DP] = 2e9, [AXIS_PP] = 0.5e9};
#define NOMINAL_MESSAGES 100

const char *axis_name(enum axis axis)
{
    return (unsigned)axis < AXIS_COUNT ? names[axis] : "?";
}

/* The numbers that all axes need. */
struct step {
    double tp, cp, ep, pp, dp;
    double micro_batches, layers, virtual_stages; /* of one rank and step */
    double activation; /* bytes that enter a block in one micro-batch, on all ranks of TP together */
    double kv;         /* bytes of keys and values of the whole sequence, on one rank of TP */
    double width;      /* bytes of a number */
};

static double at_least_1(double v)
{
    return v < 1 ? 1 : v;
}

static double kv_bytes(const struct job_spec *spec, double width)
{
    const struct job_model *m = &spec->train.model;
    int64_t head = m->hidden / m->heads, tokens = spec->train.batch_micro * m->context;
    double heads = at_least_1((double)m->kv_heads / (double)spec->tp);
    return (double)tokens * 2 * heads * (double)head * width;
}

static struct step step_of(const struct job_spec *spec)
{
    const struct job_train *t = &spec->train;
    double width = t->precision != PRECISION_FP32 ? 2 : 4;
    double tokens = (double)(t->batch_micro * t->model.context) / (double)spec->cp;
    return (struct step){
        .tp = (double)spec->tp,
        .cp = (double)spec->cp,
        .ep = (double)spec->ep,
        .pp = (double)spec->pp,
        .dp = (double)(spec->dp * spec->cp),
        .micro_batches = at_least_1((double)t->batch_global / (double)(t->batch_micro * spec->dp)),
        .layers = (double)params_stages(spec).most,
        .virtual_stages = (double)spec->virtual_stages,
        .activation = tokens * (double)t->model.hidden * width,
        .kv = kv_bytes(spec, width),
        .width = width,
    };
}

/* Two all-reduces forward and two backward per block (Megatron-LM, arXiv 1909.08053), or with sequence parallelism as many
 * all-gathers and reduce-scatters, which move the same bytes (arXiv 2205.05198). */
static void tensor_axis(const struct step *s, struct axis_traffic *out)
{
    double times = 4 * s->layers * s->micro_batches;
    out->bytes = times * 2 * (s->tp - 1) / s->tp * s->activation;
    out->messages = times * 2 * (s->tp - 1);
}

/* Keys and values go around once forward; backward they go again, with their gradients (arXiv 2310.01889). */
static void context_axis(const struct step *s, struct axis_traffic *out)
{
    double times = 3 * s->layers * s->micro_batches;
    out->bytes = times * (s->cp - 1) / s->cp * s->kv;
    out->messages = times * (s->cp - 1);
}

/* Dispatch and combine, forward and backward, of top_k copies of each token; each rank of TP has its part of the tokens. */
static void expert_axis(const struct step *s, int64_t top_k, struct axis_traffic *out)
{
    double times = 4 * s->layers * s->micro_batches;
    out->bytes = times * (s->ep - 1) / s->ep * (double)top_k * s->activation / s->tp;
    out->messages = times * (s->ep - 1);
}

/* Activation forward and its gradient backward per micro-batch and virtual stage; each rank of TP sends its part of it (scatter/gather,
 * arXiv 2104.04473 section 4.1). */
static void pipeline_axis(const struct step *s, struct axis_traffic *out)
{
    out->bytes = 2 * s->micro_batches * s->virtual_stages * s->activation / s->tp;
    out->messages = 2 * (s->micro_batches * s->virtual_stages + s->pp - 1);
}

/* Whole gradients are added up over the micro-batches and scattered once a step, and parameters gathered once (ZeRO, arXiv 1910.02054;
 * without it an all-reduce of the gradients moves the same). From stage 2 on a rank has no room for whole gradients, so they are scattered
 * after every micro-batch; ZeRO-3 gathers the parameters before every pass, forward and backward. */
double traffic_replica_rounds(const struct job_spec *spec)
{
    double micro_batches = step_of(spec).micro_batches;
    double scatters = spec->zero >= 2 ? micro_batches : 1;
    double gathers = spec->zero == 3 ? 2 * micro_batches : 1;
    return scatters + gathers;
}

static void data_axis(const struct step *s, const struct job_spec *spec, struct axis_traffic *out)
{
    struct params_share share = params_largest_share(spec);
    double replicas = s->dp / s->ep; /* of an expert */
    double rounds = traffic_replica_rounds(spec);
    double dense = (s->dp - 1) / s->dp * share.dense, expert = (replicas - 1) / replicas * share.expert;
    out->bytes = rounds * (dense + expert) * s->width;
    out->messages = rounds * (s->dp - 1);
}

static void nominal(struct traffic *out)
{
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
        struct axis_traffic *t = &out->axis[axis];
        double n = (double)t->size;
        t->bytes = nominal_bytes[axis] * (n - 1) / n;
        t->messages = NOMINAL_MESSAGES * (n - 1);
    }
}

static int64_t axis_size(const struct job_spec *spec, enum axis axis)
{
    switch (axis) {
    case AXIS_TP:
        return spec->tp;
    case AXIS_CP:
        return spec->cp;
    case AXIS_EP:
        return spec->ep;
    case AXIS_PP:
        return spec->pp;
    case AXIS_DP:
        return spec->dp * spec->cp;
    case AXIS_COUNT:
        break;
    }
    return 1;
}

static void of_model(const struct job_spec *spec, struct traffic *out)
{
    struct step s = step_of(spec);
    tensor_axis(&s, &out->axis[AXIS_TP]);
    context_axis(&s, &out->axis[AXIS_CP]);
    expert_axis(&s, spec->train.model.top_k, &out->axis[AXIS_EP]);
    pipeline_axis(&s, &out->axis[AXIS_PP]);
    data_axis(&s, spec, &out->axis[AXIS_DP]);
}

void traffic_of(const struct job_spec *spec, struct traffic *out)
{
    *out = (struct traffic){.axis = {{0}}};
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++)
        out->axis[axis].size = axis_size(spec, axis);
    if (spec->is_train)
        of_model(spec, out);
    else
        nominal(out);
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++)
        if (out->axis[axis].size == 1)
            out->axis[axis] = (struct axis_traffic){.size = 1};
}

double traffic_seconds(const struct axis_traffic *traffic, const struct cluster_link *link)
{
    if (traffic->size <= 1)
        return 0;
    return traffic->bytes / link->bytes_per_s + traffic->messages * link->latency_s;
}

int64_t axis_group(const struct job_spec *spec, enum axis axis, int64_t rank)
{
    int64_t tp = rank % spec->tp, cp = rank / spec->tp % spec->cp;
    int64_t pp = rank / (spec->tp * spec->cp) % spec->pp, dp = rank / (spec->tp * spec->cp * spec->pp);
    switch (axis) {
    case AXIS_TP:
        return rank / spec->tp;
    case AXIS_CP:
        return (dp * spec->pp + pp) * spec->tp + tp;
    case AXIS_EP:
        return ((dp * spec->cp + cp) / spec->ep * spec->pp + pp) * spec->tp + tp;
    case AXIS_PP:
        return (dp * spec->cp + cp) * spec->tp + tp;
    case AXIS_DP:
        return pp * spec->tp + tp;
    case AXIS_COUNT:
        break;
    }
    return 0;
}

int64_t axis_groups(const struct job_spec *spec, enum axis axis)
{
    return spec->ranks / axis_size(spec, axis);
}
