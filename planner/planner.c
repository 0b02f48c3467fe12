/* planner: checks that the mesh divides the model, asks each module for its part, and derives rates, days and energy. */
#include "planner/planner.h"

#include <inttypes.h>
#include <math.h>

#include "schema/job.h"

#define SECONDS_PER_DAY 86400.0
#define JOULES_PER_KWH  3.6e6

/* Llama 3 70B with ZeRO-3 on 256 GPUs (torchtitan): the most nodes that a confirmed prediction gathers over. */
#define CONFIRMED_NODES 32

void plan_level_default(const struct job_spec *spec, const double devices[DOMAIN_COUNT],
                        enum job_domain level[AXIS_COUNT])
{
    fabric_levels(spec, devices, level);
}

static struct fabric fabric_of(const struct plan_request *r)
{
    struct fabric f = {.device = r->device};
    for (enum job_domain level = 0; level < DOMAIN_COUNT; level++) {
        f.links[level] = r->links[level];
        f.devices[level] = r->devices[level];
    }
    return f;
}

void plan_request_init(const struct job_spec *spec, const struct plan_device *device,
                       struct plan_request *out)
{
    struct fabric f;
    fabric_default(device, &f);
    *out = (struct plan_request){.spec = spec, .device = device};
    for (enum job_domain level = 0; level < DOMAIN_COUNT; level++) {
        out->links[level] = f.links[level];
        out->devices[level] = f.devices[level];
    }
    plan_level_default(spec, out->devices, out->level);
}

/* ---- what cannot be planned ---- */

static int check_tensor(const struct job_spec *s, struct err *err)
{
    const struct job_model *m = &s->train.model;
    if (m->heads % s->tp != 0)
        return err_set(err, "tp %" PRId64 " does not divide the %" PRId64 " heads: use a tp that does", s->tp,
                       m->heads);
    if (m->ffn % s->tp != 0)
        return err_set(err, "tp %" PRId64 " does not divide ffn %" PRId64 ": use a tp that does", s->tp,
                       m->ffn);
    return 0;
}

static int check_pipeline(const struct job_spec *s, struct err *err)
{
    int64_t layers = s->train.model.layers, most = (layers + s->pp - 1) / s->pp;
    if (s->pp > layers)
        return err_set(err,
                       "pp %" PRId64 " is more than the %" PRId64 " layers: use at most one rank a layer",
                       s->pp, layers);
    if (s->virtual_stages > most)
        return err_set(err,
                       "%" PRId64 " virtual stages are more than the %" PRId64
                       " layers of a pipeline rank: use virtual_stages: %" PRId64 " or fewer",
                       s->virtual_stages, most, most);
    return 0;
}

static int check_rest(const struct job_spec *s, struct err *err)
{
    const struct job_train *t = &s->train;
    if (t->model.context % s->cp != 0)
        return err_set(err,
                       "cp %" PRId64 " does not divide the context of %" PRId64 " tokens: use a cp that does",
                       s->cp, t->model.context);
    if (s->ep > 1 && t->model.experts % s->ep != 0)
        return err_set(err, "ep %" PRId64 " does not divide the %" PRId64 " experts: use an ep that does",
                       s->ep, t->model.experts);
    if (t->batch_global % (t->batch_micro * s->dp) != 0)
        return err_set(err,
                       "the batch of %" PRId64 " sequences is not a multiple of micro x dp = %" PRId64
                       " x %" PRId64,
                       t->batch_global, t->batch_micro, s->dp);
    return 0;
}

static int check(const struct job_spec *s, struct err *err)
{
    if (!s->is_train)
        return err_set(
            err, "job %s runs a program of its own, whose model is not known: only train: jobs have a plan",
            s->name);
    if (check_tensor(s, err) != 0 || check_pipeline(s, err) != 0)
        return -1;
    return check_rest(s, err);
}

bool plan_unconfirmed(const struct job_spec *spec, const double devices[DOMAIN_COUNT])
{
    double members = fabric_members(spec, AXIS_DP, devices[DOMAIN_NODE]);
    return spec->zero == 3 && (double)(spec->dp * spec->cp) / members > CONFIRMED_NODES;
}

/* ---- the parts ---- */

static void plan_memory(const struct plan_request *r, struct plan *p)
{
    const struct job_spec *s = r->spec;
    memory_of(s, r->device->gpu, &p->memory);
    for (int zero = 0; zero < PLAN_ZERO_STAGES; zero++)
        for (enum job_recompute how = RECOMPUTE_NONE; how <= RECOMPUTE_FULL; how++) {
            struct memory m;
            memory_with(s, r->device->gpu, zero, how, &m);
            p->memory_total[zero][how] = m.total;
            p->memory_activations[how] = m.activations;
        }
    p->memory_device = r->device->memory;
    p->fits = p->memory_device == 0 || p->memory.total <= p->memory_device;
}

/* At inference one replica serves: weights over its TP x PP devices, what the reserve leaves for keys and values. A head of these is on
 * one rank of TP at least, so more ranks than heads have copies. */
static void plan_inference(const struct plan_request *r, struct plan *p)
{
    const struct job_model *m = &r->spec->train.model;
    double width = r->spec->train.precision != PRECISION_FP32 ? 2 : 4;
    double each = r->device->memory - p->memory.reserve;
    double room = each * (double)(r->spec->tp * r->spec->pp) - width * (double)p->params.total;
    p->kv_cache = memory_kv_cache(m, m->context, width);
    double copies = r->spec->tp > m->kv_heads ? (double)r->spec->tp / (double)m->kv_heads : 1;
    p->kv_sequences = room > 0 ? (double)(int64_t)(room / (copies * p->kv_cache)) : 0;
}

static double axis_seconds(const struct plan_request *r, const struct fabric *f, enum axis axis,
                           const struct axis_traffic *t)
{
    bool pairs = axis == AXIS_PP || axis == AXIS_EP;
    struct cluster_link link =
        pairs ? fabric_pairs(f, r->level[axis]) : fabric_ring(f, r->spec, axis, r->level[axis]);
    link.latency_s = 0; /* collectives overlap their messages; steptime counts what does not */
    return traffic_seconds(t, &link);
}

static void plan_traffic(const struct plan_request *r, struct plan *p)
{
    struct fabric f = fabric_of(r);
    traffic_of(r->spec, &p->traffic);
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
        p->level[axis] = r->level[axis];
        p->axis_seconds[axis] = axis_seconds(r, &f, axis, &p->traffic.axis[axis]);
        p->level_bytes[r->level[axis]] += p->traffic.axis[axis].bytes;
    }
}

static void plan_step(const struct plan_request *r, struct plan *p)
{
    const struct job_train *t = &r->spec->train;
    struct fabric f = fabric_of(r);
    double peak =
        (t->precision != PRECISION_FP32 ? r->device->bf16 : r->device->fp32) * (double)r->spec->ranks;
    steptime_of(r->spec, &f, r->level, &p->step);
    p->micro_batches = (double)t->batch_global / (double)(t->batch_micro * r->spec->dp);
    p->step_tokens = (double)(t->batch_global * t->model.context);
    p->tokens_per_s = p->step_tokens / p->step.total;
    p->mfu = p->flops.model * p->tokens_per_s / peak;
    p->mfu_full = p->flops.model_full * p->tokens_per_s / peak;
    p->hfu = p->flops.hardware * p->tokens_per_s / peak;
}

static void plan_cost(const struct plan_request *r, struct plan *p)
{
    double seconds;
    p->tokens = r->tokens > 0 ? r->tokens : p->step_tokens * (double)r->spec->train.steps;
    p->steps = p->tokens / p->step_tokens;
    p->total_flops = p->tokens * p->flops.model;
    p->watts = r->watts > 0 ? r->watts : r->device->watts;
    seconds = p->tokens / p->tokens_per_s;
    p->days = seconds / SECONDS_PER_DAY;
    if (r->mfu > 0)
        p->days_at_mfu =
            plan_days_at((double)p->params.active, p->tokens, (double)r->spec->ranks, r->device, r->mfu);
    p->kwh = seconds * p->watts * (double)r->spec->ranks / JOULES_PER_KWH;
}

/* What a checkpoint holds of a parameter: the weight and AdamW's two moments in fp32 (docs/checkpoint-format.md). */
#define STATE_BYTES 12.0
/* Of the copy from a GPU to its host: PCIe 5 x16, as links.pcie of a cluster file that does not say otherwise. */
#define HOST_LINK 64e9

/* Training waits for the copy of a rank's share; a CPU reads and writes its memory for it. How fast the storage is is not known here. */
static void plan_saves(const struct plan_request *r, struct plan *p)
{
    const struct plan_device *d = r->device;
    double bytes = STATE_BYTES * (double)p->params.total / (double)r->spec->ranks;
    double node = r->devices[DOMAIN_NODE] > 0 ? r->devices[DOMAIN_NODE] : 1;
    p->saves = (struct saves_facts){
        .cost_s = bytes / (d->gpu ? HOST_LINK : d->bandwidth * d->stream / 2),
        .step_s = p->step.total,
        .mttf_s = saves_mttf(ceil((double)r->spec->ranks / node), SAVES_FAILURES_PER_NODE_DAY, 0, 0),
    };
}

int plan_make(const struct plan_request *request, struct plan *out, struct err *err)
{
    *out = (struct plan){.fits = false};
    if (check(request->spec, err) != 0)
        return -1;
    params_count(&request->spec->train.model, &out->params);
    out->share = params_largest_share(request->spec);
    flops_count(&request->spec->train.model, request->spec->train.recompute, &out->flops);
    out->unconfirmed = plan_unconfirmed(request->spec, request->devices);
    plan_memory(request, out);
    plan_inference(request, out);
    plan_traffic(request, out);
    plan_step(request, out);
    plan_cost(request, out);
    plan_saves(request, out);
    return 0;
}

bool plan_remedy(const struct plan_request *request, const struct plan *plan, int64_t *zero,
                 enum job_recompute *recompute)
{
    const struct job_spec *s = request->spec;
    for (*recompute = s->train.recompute; *recompute <= RECOMPUTE_FULL; ++*recompute)
        for (*zero = s->zero; *zero < PLAN_ZERO_STAGES; ++*zero)
            if (plan->memory_total[*zero][*recompute] <= plan->memory_device)
                return true;
    return false;
}

double plan_days_at(double parameters, double tokens, double devices, const struct plan_device *device,
                    double mfu)
{
    return 6 * parameters * tokens / (devices * device->bf16 * mfu) / SECONDS_PER_DAY;
}

double plan_largest_model(double devices, const struct plan_device *device, enum job_precision precision)
{
    return devices * device->memory / memory_per_parameter(precision);
}
