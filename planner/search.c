/* search: see search.h. A mesh is judged by the few numbers that decide (memory, seconds); the full plan is made once for its best
 * variant. */
#include "planner/search.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define TP_MAX     64 /* NVLink domains end at 72 */
#define CP_MAX     64
#define CP_CONTEXT 16384 /* tokens; shorter sequences are not cut while anything else fits */
#define MICRO_MAX  16
#define PIECES_MAX 16

/* How much faster than a mesh that is confirmed one must be that is not, to be preferred. */
#define UNCONFIRMED 1.05

const struct search_limits search_free = {SEARCH_FREE, SEARCH_FREE, SEARCH_FREE, SEARCH_FREE, SEARCH_FREE,
                                          SEARCH_FREE, SEARCH_FREE, SEARCH_FREE, SEARCH_FREE};

struct hunt {
    const struct plan_request *base;
    const struct search_limits *limits;
    struct fabric fabric;
    struct search_result *found;
    size_t count, room;
};

/* The best way to run one mesh that was seen so far. */
struct variant {
    bool any;
    int64_t micro, zero, virtual_stages;
    enum job_recompute recompute;
    double memory, seconds;
};

static bool fits(const struct hunt *h, double memory)
{
    double has = h->base->device->memory;
    return has == 0 || memory <= has;
}

/* What fits wins by time, what does not by memory. A tie keeps what was there: lower ZeRO stage, less recomputation. */
static bool better(const struct hunt *h, const struct variant *a, const struct variant *b)
{
    bool a_fits = fits(h, a->memory), b_fits = fits(h, b->memory);
    if (!b->any || a_fits != b_fits)
        return !b->any || a_fits;
    return a_fits ? a->seconds < b->seconds * (1 - 1e-9) : a->memory < b->memory * (1 - 1e-9);
}

static bool allowed(int64_t limit, int64_t value)
{
    return limit == SEARCH_FREE || limit == value;
}

static double weighed(double seconds, bool unconfirmed)
{
    return unconfirmed ? UNCONFIRMED * seconds : seconds;
}

static void judge(const struct hunt *h, const struct job_spec *s, struct variant *best)
{
    struct memory memory;
    struct steptime time = {.total = 0};
    enum job_domain level[AXIS_COUNT];
    memory_of(s, h->base->device->gpu, &memory);
    if (fits(h, memory.total)) {
        plan_level_default(s, h->base->devices, level);
        steptime_of(s, &h->fabric, level, &time);
    }
    double seconds = weighed(time.total, plan_unconfirmed(s, h->base->devices));
    struct variant v = {
        true, s->train.batch_micro, s->zero, s->virtual_stages, s->train.recompute, memory.total, seconds};
    if (better(h, &v, best))
        *best = v;
}

static void each_memory_saving(const struct hunt *h, struct job_spec *s, struct variant *best)
{
    const struct search_limits *l = h->limits;
    bool alone = s->dp * s->cp == 1;
    int64_t first = alone || l->zero == 0 ? 0 : 1, last = alone ? 0 : 3;
    for (s->zero = first; s->zero <= last; s->zero++)
        for (s->train.recompute = RECOMPUTE_NONE; s->train.recompute <= RECOMPUTE_FULL; s->train.recompute++)
            if (allowed(l->zero, s->zero) && allowed(l->recompute, s->train.recompute))
                judge(h, s, best);
}

static void each_pieces(const struct hunt *h, struct job_spec *s, struct variant *best)
{
    int64_t layers = (s->train.model.layers + s->pp - 1) / s->pp;
    int64_t most = h->limits->virtual_stages > PIECES_MAX ? layers : PIECES_MAX;
    for (int64_t v = 1; v <= (s->pp > 1 ? most : 1); v++) {
        if (layers % v != 0 || !allowed(h->limits->virtual_stages, v))
            continue;
        s->virtual_stages = v;
        s->pipeline = v > 1 ? PIPELINE_INTERLEAVED : PIPELINE_1F1B;
        each_memory_saving(h, s, best);
    }
}

static struct variant best_variant(const struct hunt *h, struct job_spec *s)
{
    struct variant best = {.any = false};
    int64_t given = h->limits->micro;
    for (int64_t micro = 1; micro <= MICRO_MAX; micro *= 2) {
        s->train.batch_micro = given == SEARCH_FREE ? micro : given;
        if (s->train.batch_global % (s->train.batch_micro * s->dp) == 0)
            each_pieces(h, s, &best);
        if (given != SEARCH_FREE)
            break;
    }
    return best;
}

static void keep(struct hunt *h, struct job_spec *s, const struct variant *v)
{
    struct plan_request request = *h->base;
    s->train.batch_micro = v->micro;
    s->zero = v->zero;
    s->virtual_stages = v->virtual_stages;
    s->pipeline = v->virtual_stages > 1 ? PIPELINE_INTERLEAVED : PIPELINE_1F1B;
    s->train.recompute = v->recompute;
    request.spec = s;
    plan_level_default(s, request.devices, request.level);
    struct search_result r = {.tp = s->tp,
                              .pp = s->pp,
                              .cp = s->cp,
                              .dp = s->dp,
                              .ep = s->ep,
                              .zero = v->zero,
                              .micro = v->micro,
                              .virtual_stages = v->virtual_stages,
                              .pipeline = s->pipeline,
                              .recompute = v->recompute};
    if (plan_make(&request, &r.plan, NULL) != 0)
        return; /* this mesh does not divide the model */
    h->found = mem_one_more(h->found, h->count, &h->room, sizeof *h->found);
    h->found[h->count++] = r;
}

/* Every group within the part of the cluster that a required border names, and TP within NVLink. */
static bool within_borders(const struct hunt *h, const struct job_spec *s)
{
    const struct job_border *borders[AXIS_COUNT] = {[AXIS_TP] = &s->placement.tp,
                                                    [AXIS_CP] = &s->placement.cp,
                                                    [AXIS_EP] = &s->placement.ep,
                                                    [AXIS_PP] = &s->placement.pp,
                                                    [AXIS_DP] = &s->placement.dp};
    enum job_domain level[AXIS_COUNT];
    plan_level_default(s, h->base->devices, level);
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++)
        if (borders[axis]->required && level[axis] > borders[axis]->within)
            return false;
    return level[AXIS_TP] <= DOMAIN_NVLINK || h->limits->tp != SEARCH_FREE;
}

static void try_mesh(struct hunt *h, int64_t tp, int64_t cp, int64_t pp, int64_t ep)
{
    struct job_spec s = *h->base->spec; /* what it points to stays the caller's */
    s.tp = tp;
    s.cp = cp;
    s.pp = pp;
    s.ep = ep;
    s.dp = s.ranks / (tp * cp * pp);
    if (!allowed(h->limits->dp, s.dp) || !within_borders(h, &s))
        return;
    struct variant v = best_variant(h, &s);
    if (v.any)
        keep(h, &s, &v);
}

static void each_expert_group(struct hunt *h, int64_t tp, int64_t cp, int64_t pp)
{
    const struct job_model *m = &h->base->spec->train.model;
    int64_t replicas = h->base->spec->ranks / (tp * pp);
    for (int64_t ep = 1; ep <= (m->experts > 1 ? m->experts : 1); ep++)
        if (allowed(h->limits->ep, ep) && (ep == 1 || (m->experts % ep == 0 && replicas % ep == 0)))
            try_mesh(h, tp, cp, pp, ep);
}

static void each_pipeline(struct hunt *h, int64_t tp, int64_t cp)
{
    int64_t rest = h->base->spec->ranks / (tp * cp);
    for (int64_t pp = 1; pp <= h->base->spec->train.model.layers && pp <= rest; pp++)
        if (rest % pp == 0 && allowed(h->limits->pp, pp))
            each_expert_group(h, tp, cp, pp);
}

static void each_tensor_group(struct hunt *h, int64_t cp)
{
    const struct job_model *m = &h->base->spec->train.model;
    int64_t ranks = h->base->spec->ranks;
    for (int64_t tp = 1; tp <= TP_MAX && tp <= m->heads; tp++)
        if (m->heads % tp == 0 && m->ffn % tp == 0 && ranks % (tp * cp) == 0 && allowed(h->limits->tp, tp))
            each_pipeline(h, tp, cp);
}

static bool any_fits(const struct hunt *h)
{
    for (size_t i = 0; i < h->count; i++)
        if (h->found[i].plan.fits)
            return true;
    return false;
}

/* A sequence is cut last, and a short one only when nothing else helps. */
static void each_mesh(struct hunt *h)
{
    const struct job_model *m = &h->base->spec->train.model;
    for (int64_t cp = 1; cp <= CP_MAX; cp *= 2) {
        if (cp == 2 && h->limits->cp == SEARCH_FREE && m->context < CP_CONTEXT && any_fits(h))
            return;
        if (m->context % (2 * cp) == 0 && allowed(h->limits->cp, cp))
            each_tensor_group(h, cp);
    }
}

/* ---- ranking and reasons ---- */

static int by_rank(const void *pa, const void *pb)
{
    const struct search_result *a = pa, *b = pb;
    if (a->plan.fits != b->plan.fits)
        return a->plan.fits ? -1 : 1;
    double x = a->plan.fits ? weighed(a->plan.step.total, a->plan.unconfirmed) : a->plan.memory.total;
    double y = b->plan.fits ? weighed(b->plan.step.total, b->plan.unconfirmed) : b->plan.memory.total;
    if (x != y)
        return x < y ? -1 : 1;
    int64_t cut_a = a->tp * a->pp * a->cp,
            cut_b = b->tp * b->pp * b->cp; /* of equals the one that cuts a replica less */
    if (cut_a != cut_b)
        return cut_a < cut_b ? -1 : 1;
    return a->tp != b->tp ? (a->tp < b->tp ? -1 : 1) : (a->ep > b->ep) - (a->ep < b->ep);
}

/* What a mesh may lose by; axis: whose level is named. */
static const struct {
    size_t at;
    enum axis axis;
    const char *words;
} losses[] = {
    {offsetof(struct steptime, bubble), AXIS_COUNT, "pipeline bubble"},
    {offsetof(struct steptime, tp), AXIS_TP, "waits for TP"},
    {offsetof(struct steptime, cp), AXIS_CP, "waits for CP"},
    {offsetof(struct steptime, ep), AXIS_EP, "waits for EP"},
    {offsetof(struct steptime, pp), AXIS_PP, "waits for PP"},
    {offsetof(struct steptime, dp), AXIS_DP, "waits for DP"},
    {offsetof(struct steptime, recompute), AXIS_COUNT, "computes activations again"},
    {offsetof(struct steptime, products), AXIS_COUNT, "smaller products and uneven stages"},
    {offsetof(struct steptime, elementwise), AXIS_COUNT, "more elementwise work on each"},
    {offsetof(struct steptime, optimizer), AXIS_COUNT, "optimizer less sharded"},
};

static double part(const struct search_result *r, size_t loss)
{
    double out;
    memcpy(&out, (const char *)&r->plan.step + losses[loss].at, sizeof out);
    return out;
}

static void explain_memory(struct search_result *r)
{
    const double gb = 1e9;
    (void)snprintf(r->why, sizeof r->why, "does not fit: %.0f GB of %.0f, %.0f GB too much",
                   r->plan.memory.total / gb, r->plan.memory_device / gb,
                   (r->plan.memory.total - r->plan.memory_device) / gb);
}

static void explain_unconfirmed(struct search_result *r, const struct search_result *best)
{
    (void)snprintf(r->why, sizeof r->why, "%.1f %% faster, but no published run confirms ZeRO-3 so wide",
                   100 * (1 - r->plan.step.total / best->plan.step.total));
}

static void explain_time(struct search_result *r, const struct search_result *best)
{
    size_t most = 0;
    if (r->plan.step.total < best->plan.step.total) {
        explain_unconfirmed(r, best);
        return;
    }
    for (size_t i = 1; i < sizeof losses / sizeof *losses; i++)
        if (part(r, i) - part(best, i) > part(r, most) - part(best, most))
            most = i;
    if (part(r, most) - part(best, most) < 1e-3 * best->plan.step.total) {
        (void)snprintf(r->why, sizeof r->why, "as fast to a thousandth, with more parts that talk");
        return;
    }
    enum axis axis = losses[most].axis;
    double more = part(r, most) - part(best, most);
    (void)snprintf(r->why, sizeof r->why, "%s%s%s: %.2g s more, %.2g %% of its step", losses[most].words,
                   axis < AXIS_COUNT ? " over " : "",
                   axis < AXIS_COUNT ? job_domain_name(r->plan.level[axis]) : "", more,
                   100 * more / r->plan.step.total);
}

static void explain(struct hunt *h)
{
    for (size_t i = 0; i < h->count; i++)
        if (!h->found[i].plan.fits)
            explain_memory(&h->found[i]);
        else if (i > 0)
            explain_time(&h->found[i], &h->found[0]);
}

/* "tp 8, zero 1": what was asked for, "" = nothing. */
static void name_limits(const struct search_limits *l, char *out, size_t size)
{
    static const char *const recomputes[] = {"none", "selective", "full"};
    const struct {
        const char *name;
        int64_t value;
    } all[] = {{"tp", l->tp}, {"pp", l->pp},     {"cp", l->cp},       {"dp", l->dp},
               {"ep", l->ep}, {"zero", l->zero}, {"micro", l->micro}, {"virtual", l->virtual_stages}};
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].value != SEARCH_FREE && used < size)
            used += (size_t)snprintf(out + used, size - used, "%s%s %" PRId64, used ? ", " : " with ",
                                     all[i].name, all[i].value);
    if (l->recompute != SEARCH_FREE && used < size)
        (void)snprintf(out + used, size - used, "%srecompute %s", used ? ", " : " with ",
                       recomputes[l->recompute]);
}

static void say_none(const struct plan_request *base, const struct search_limits *limits, struct err *err)
{
    char asked[200];
    name_limits(limits, asked, sizeof asked);
    (void)err_set(err,
                  "no mesh of %" PRId64 " devices%s divides the model and a batch of %" PRId64
                  " sequences and keeps its groups within the required borders (TP within a %s): %s",
                  base->spec->ranks, asked, base->spec->train.batch_global,
                  job_domain_name(base->spec->placement.tp.within),
                  asked[0] ? "ask for less" : "use a batch that is a multiple of the devices");
}

size_t plan_search(const struct plan_request *base, const struct search_limits *limits,
                   struct search_result **out, struct err *err)
{
    struct hunt h = {.base = base, .limits = limits, .fabric = {.device = base->device}};
    *out = NULL;
    if (!base->spec->is_train) {
        (void)err_set(
            err, "job %s runs a program of its own, whose model is not known: there is no mesh to search for",
            base->spec->name);
        return 0;
    }
    for (enum job_domain level = 0; level < DOMAIN_COUNT; level++) {
        h.fabric.links[level] = base->links[level];
        h.fabric.devices[level] = base->devices[level];
    }
    each_mesh(&h);
    if (h.count == 0) {
        say_none(base, limits, err);
        return 0;
    }
    qsort(h.found, h.count, sizeof *h.found, by_rank);
    explain(&h);
    *out = h.found;
    return h.count;
}
