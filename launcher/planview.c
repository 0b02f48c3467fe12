/* planview: see planview.h. Bytes of devices are in GB of 10^9, as makers print them and as the 80 of an "80 GB" GPU are. */
#include "launcher/planview.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "launcher/format.h"
#include "launcher/planparts.h"
#include "launcher/table.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define GB       1e9

static const char *const recomputes[PLAN_RECOMPUTES] = {"none", "selective", "full"};
static const char *const schedules[] = {"1f1b", "interleaved", "zero-bubble"};

static void section(const char *name)
{
    printf("\n%s\n", name);
}

/* "120 GB", "3.2 MB" */
static const char *bytes(double n, char out[FORMAT_SIZE])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    size_t u = 0;
    for (; n >= 999.5 && u + 1 < COUNT(units); u++)
        n /= 1000;
    snprintf(out, FORMAT_SIZE, "%.*f %s", n < 10 && u > 0 ? 2 : n < 100 && u > 0 ? 1 : 0, n, units[u]);
    return out;
}

/* "11.2 s", "3.4 ms"; an hour and more as "116h50m" */
static const char *seconds(double s, char out[FORMAT_SIZE])
{
    if (s >= 3600)
        format_seconds(s, out);
    else if (s >= 1 || s <= 0)
        snprintf(out, FORMAT_SIZE, "%.2f s", s);
    else
        snprintf(out, FORMAT_SIZE, "%.3g ms", s * 1000);
    return out;
}

static const char *days(double d, char out[FORMAT_SIZE])
{
    if (d >= 2)
        snprintf(out, FORMAT_SIZE, "%.*f days", d < 100 ? 1 : 0, d);
    else if (d * 86400 < 60)
        seconds(d * 86400, out);
    else
        format_seconds(d * 86400, out);
    return out;
}

static const char *tokens(double n, char out[FORMAT_SIZE + 8])
{
    char a[FORMAT_SIZE];
    snprintf(out, FORMAT_SIZE + 8, "%s token%s", format_count(n, a), n == 1 ? "" : "s");
    return out;
}

/* ---- the sentence ---- */

static void lacking(const struct plan_request *r, const struct plan *p)
{
    int64_t zero;
    enum job_recompute how;
    printf("does not fit: a device needs %.1f GB and has %.0f; ", p->memory.total / GB,
           p->memory_device / GB);
    if (plan_remedy(r, p, &zero, &how))
        printf("with zero %lld, recompute %s it would need %.1f, and --search tries other meshes.\n",
               (long long)zero, recomputes[how], p->memory_total[zero][how] / GB);
    else
        printf("no ZeRO stage and no recomputation change that, but --search tries other meshes.\n");
}

static void sentence(const struct plan_request *r, const struct plan *p)
{
    char a[FORMAT_SIZE], b[FORMAT_SIZE + 8], c[FORMAT_SIZE], d[FORMAT_SIZE], e[FORMAT_SIZE];
    const struct job_model *m = &r->spec->train.model;
    printf("%s with %s parameters on %lld %s: ", m->preset[0] ? m->preset : job_arch_name(m->arch),
           format_count((double)p->params.total, a), (long long)r->spec->ranks, r->device->name);
    if (!p->fits) {
        lacking(r, p);
        return;
    }
    printf("%s in %s at %s tokens/s, %s MFU, %s a step", tokens(p->tokens, b), days(p->days, c),
           format_count(p->tokens_per_s, d), format_percent(p->mfu, e), seconds(p->step.total, a));
    if (p->memory_device > 0)
        printf(", %.1f of %.0f GB a device", p->memory.total / GB, p->memory_device / GB);
    printf(".\n");
}

static void show_notes(const struct plannotes *notes)
{
    for (size_t i = 0; i < notes->count; i++)
        printf("note: %s\n", notes->text[i]);
}

/* ---- model and mesh ---- */

static void parameter(const char *name, int64_t all, int64_t block)
{
    char a[FORMAT_SIZE], b[FORMAT_SIZE];
    if (all == 0)
        return;
    printf("    %-12s %7s", name, format_count((double)all, a));
    if (block > 0)
        printf("  (%s a block)", format_count((double)block, b));
    printf("\n");
}

static void show_model(const struct plan_request *r, const struct plan *p)
{
    const struct job_model *m = &r->spec->train.model;
    const struct params *n = &p->params;
    char a[FORMAT_SIZE], b[FORMAT_SIZE + 8];
    section("Model");
    printf("  %s, %lld layers, %lld wide, %lld heads (%lld of keys and values), %lld in the feed-forward, "
           "vocabulary %lld, context "
           "%lld\n",
           job_arch_name(m->arch), (long long)m->layers, (long long)m->hidden, (long long)m->heads,
           (long long)m->kv_heads, (long long)m->ffn, (long long)m->vocab, (long long)m->context);
    printf("  parameters   %9s  %lld", format_count((double)n->total, a), (long long)n->total);
    printf(n->active != n->total ? ", %s of them active\n" : "\n", format_count((double)n->active, b));
    parameter("embedding", n->embedding, 0);
    parameter("positions", n->positions, 0);
    parameter("attention", n->attention, n->attention_block);
    parameter("feed-forward", n->ffn, n->ffn_block);
    parameter("router", n->router, n->router_block);
    parameter("norms", n->norms, n->norms_block);
    parameter("head", n->head, 0);
    printf("  FLOPs/token  %9s  (6 x parameters: %s)\n", format_count(p->flops.model, a),
           format_count(p->flops.six_n, b));
    printf("  FLOPs in all  %8.3g  for %s\n", p->total_flops, tokens(p->tokens, b));
}

static void show_mesh(const struct plan_request *r, const struct plan *p)
{
    const struct job_spec *s = r->spec;
    const struct job_train *t = &s->train;
    char a[FORMAT_SIZE];
    section("Mesh");
    printf("  %lld rank%s: tp %lld, pp %lld, cp %lld, dp %lld", (long long)s->ranks, s->ranks == 1 ? "" : "s",
           (long long)s->tp, (long long)s->pp, (long long)s->cp, (long long)s->dp);
    if (s->ep > 1)
        printf(", ep %lld", (long long)s->ep);
    printf("; zero %lld, recompute %s", (long long)s->zero, recomputes[t->recompute]);
    if (s->pp > 1)
        printf(", %s", schedules[s->pipeline]);
    if (s->virtual_stages > 1)
        printf(" with %lld virtual stages", (long long)s->virtual_stages);
    printf(
        "\n  batch %lld sequence%s (%s tokens) a step; micro-batch %lld, so %.0f micro-batch%s a replica\n",
        (long long)t->batch_global, t->batch_global == 1 ? "" : "s", format_count(p->step_tokens, a),
        (long long)t->batch_micro, p->micro_batches, p->micro_batches == 1 ? "" : "es");
}

/* ---- memory ---- */

static void show_zero(const struct plan_request *r, const struct plan *p)
{
    bool small = p->memory_total[0][RECOMPUTE_NONE] < GB;
    const struct table_column columns[] = {
        {.title = small ? "    MB by ZeRO stage, recompute" : "    GB by ZeRO stage, recompute"},
        {.title = "NONE", .right = true},
        {.title = "SELECTIVE", .right = true},
        {.title = "FULL", .right = true}};
    static const char *const cut[PLAN_ZERO_STAGES] = {"nothing cut", "optimizer cut", "and gradients",
                                                      "and weights"};
    struct table *t = table_new(columns, COUNT(columns), false);
    for (int zero = 0; zero < PLAN_ZERO_STAGES; zero++) {
        table_cell(t, COLOUR_NONE, "    %d  %s", zero, cut[zero]);
        for (int how = 0; how < PLAN_RECOMPUTES; how++) {
            bool here = zero == r->spec->zero && how == (int)r->spec->train.recompute;
            bool fits = p->memory_device == 0 || p->memory_total[zero][how] <= p->memory_device;
            table_cell(t, fits ? COLOUR_NONE : COLOUR_RED, "%s%s%.1f", here ? ">" : "", fits ? "" : "!",
                       p->memory_total[zero][how] / (small ? GB / 1000 : GB));
        }
    }
    table_print(t, stdout, 0, terminal_colours(stdout));
    table_free(t);
}

static void show_memory(const struct plan_request *r, const struct plan *p)
{
    char a[FORMAT_SIZE];
    section("Memory of the fullest device");
    for (size_t i = 0; i < planparts_memory_count; i++) {
        double n = planparts_memory(p, i);
        if (n > 0)
            printf("    %-12s %9s\n", planparts_memory_name(i), bytes(n, a));
    }
    printf("    %-12s %9s", "in all", bytes(p->memory.total, a));
    if (p->memory_device > 0)
        printf("  of %s%s", bytes(p->memory_device, a), p->fits ? "" : ": too much");
    printf("\n  %.3g micro-batch%s in flight\n", p->memory.in_flight, p->memory.in_flight == 1 ? "" : "es");
    if (r->spec->checkpoint.memory_every > 0)
        printf("  Host memory: %s for checkpoint.memory, three copies of a rank's state%s\n",
               bytes(p->memory.images, a), r->spec->checkpoint.buddy ? " and two of the buddy's" : "");
    show_zero(r, p);
    printf("  Inference: %s of keys and values a sequence", bytes(p->kv_cache, a));
    int64_t replica = r->spec->tp * r->spec->pp;
    if (p->memory_device > 0)
        printf("; %.0f fit beside the weights on %lld", p->kv_sequences, (long long)replica);
    printf("\n");
}

/* ---- traffic, step, cost ---- */

static void show_traffic(const struct plan *p)
{
    static const struct table_column columns[] = {{.title = "    AXIS"},
                                                  {.title = "RANKS", .right = true},
                                                  {.title = "OVER"},
                                                  {.title = "BYTES", .right = true},
                                                  {.title = "ON THE LINK", .right = true},
                                                  {.title = "MESSAGES", .right = true, .wide = true}};
    char a[FORMAT_SIZE];
    bool any = false;
    struct table *t = table_new(columns, COUNT(columns), true);
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
        const struct axis_traffic *x = &p->traffic.axis[axis];
        if (x->size <= 1)
            continue;
        any = true;
        table_cell(t, COLOUR_NONE, "    %s", axis_name(axis));
        table_cell(t, COLOUR_NONE, "%lld", (long long)x->size);
        table_cell(t, COLOUR_NONE, "%s", job_domain_name(p->level[axis]));
        table_cell(t, COLOUR_NONE, "%s", bytes(x->bytes, a));
        table_cell(t, COLOUR_NONE, "%s", seconds(p->axis_seconds[axis], a));
        table_cell(t, COLOUR_NONE, "%.0f", x->messages);
    }
    section("Traffic of a rank and step");
    if (any)
        table_print(t, stdout, 0, terminal_colours(stdout));
    else
        printf("    none: one device\n");
    table_free(t);
    for (enum job_domain level = 0; any && level < DOMAIN_COUNT; level++)
        if (p->level_bytes[level] > 0)
            printf("    over %s: %s\n", job_domain_name(level), bytes(p->level_bytes[level], a));
}

static void show_step(const struct plan *p)
{
    char a[FORMAT_SIZE], b[FORMAT_SIZE];
    section("Step");
    for (size_t i = 0; i < planparts_step_count; i++) {
        double s = planparts_step(p, i);
        if (s > 0)
            printf("    %-34s %9s %6s\n", planparts_step_words(i), seconds(s, a),
                   format_percent(s / p->step.total, b));
    }
    printf("    %-34s %9s\n", "in all", seconds(p->step.total, a));
}

/* "52.3 MWh" */
static const char *energy(double kwh, char out[FORMAT_SIZE])
{
    static const char *const units[] = {"kWh", "MWh", "GWh", "TWh"};
    size_t u = 0;
    for (; kwh >= 999.5 && u + 1 < COUNT(units); u++)
        kwh /= 1000;
    snprintf(out, FORMAT_SIZE, "%.3g %s", kwh, units[u]);
    return out;
}

/* checkpoint.every: auto, as far as can be said before a save was measured. */
static void show_saves(const struct plan_request *r, const struct plan *p)
{
    char words[SAVES_WORDS];
    if (r->spec->checkpoint.every != JOB_EVERY_AUTO)
        return;
    saves_explain(&p->saves, words);
    printf("    saves        %s\n", words);
}

static void show_cost(const struct plan_request *r, const struct plan *p)
{
    char a[FORMAT_SIZE], b[FORMAT_SIZE + 8], c[FORMAT_SIZE];
    section("Cost");
    printf("    tokens/s     %s (%s a device)\n", format_count(p->tokens_per_s, a),
           format_count(p->tokens_per_s / (double)r->spec->ranks, b));
    printf("    MFU          %s (attention in full: %s), HFU %s of %s FLOP/s\n", format_percent(p->mfu, a),
           format_percent(p->mfu_full, b), format_percent(p->hfu, c),
           r->spec->train.precision == PRECISION_FP32 ? "fp32" : "dense bf16");
    printf("    time         %s for %s in %s step%s\n", days(p->days, a), tokens(p->tokens, b),
           format_count(ceil(p->steps), c), p->steps > 1 ? "s" : "");
    if (r->mfu > 0)
        printf("    at MFU %-5s %s, by 6 x parameters x tokens\n", format_percent(r->mfu, b),
               days(p->days_at_mfu, a));
    printf("    energy       %s at %.0f W a device\n", energy(p->kwh, a), p->watts);
    show_saves(r, p);
}

void planview_report(const struct plan_request *request, const struct plan *plan,
                     const struct plannotes *notes, bool wide)
{
    sentence(request, plan);
    show_notes(notes);
    show_model(request, plan);
    show_mesh(request, plan);
    show_memory(request, plan);
    show_traffic(plan);
    show_step(plan);
    show_cost(request, plan);
    if (wide)
        printf("\nEvery formula with its source, and how far predictions were off: docs/planning.md\n");
}

/* ---- search ---- */

static void search_row(struct table *t, size_t rank, const struct search_result *r)
{
    char a[FORMAT_SIZE], b[FORMAT_SIZE];
    table_cell(t, COLOUR_NONE, "%zu", rank);
    table_cell(t, COLOUR_NONE, "%lld", (long long)r->tp);
    table_cell(t, COLOUR_NONE, "%lld", (long long)r->pp);
    table_cell(t, COLOUR_NONE, "%lld", (long long)r->cp);
    table_cell(t, COLOUR_NONE, "%lld", (long long)r->dp);
    table_cell(t, COLOUR_NONE, "%lld", (long long)r->ep);
    table_cell(t, COLOUR_NONE, "%lld", (long long)r->zero);
    table_cell(t, COLOUR_NONE, "%lld", (long long)r->micro);
    table_cell(t, COLOUR_NONE, "%lld", (long long)r->virtual_stages);
    table_cell(t, COLOUR_NONE, "%s", recomputes[r->recompute]);
    table_cell(t, r->plan.fits ? COLOUR_NONE : COLOUR_RED, "%.*f", r->plan.memory.total < 10 * GB ? 2 : 0,
               r->plan.memory.total / GB);
    table_cell(t, COLOUR_NONE, "%s", r->plan.fits ? seconds(r->plan.step.total, a) : "");
    table_cell(t, COLOUR_NONE, "%s", r->plan.fits ? format_percent(r->plan.mfu, b) : "");
    table_cell(t, COLOUR_NONE, "%s", r->why[0] ? r->why : "the fastest");
}

/* What the cluster says to it. */
static void cluster_cell(struct table *t, const struct verdict *v)
{
    bool now = v->kind == VERDICT_NOW;
    table_cell(t, v->kind == VERDICT_NEVER ? COLOUR_RED : COLOUR_NONE, "%s",
               now ? "could start now" : v->sentence);
}

void planview_search(const struct plan_request *base, const struct search_result *meshes, size_t count,
                     size_t top, const struct verdict *verdicts, bool wide)
{
    static const struct table_column columns[] = {
        {.title = "#", .right = true},       {.title = "TP", .right = true},
        {.title = "PP", .right = true},      {.title = "CP", .right = true},
        {.title = "DP", .right = true},      {.title = "EP", .right = true, .wide = true},
        {.title = "ZERO", .right = true},    {.title = "MICRO", .right = true},
        {.title = "VIRTUAL", .right = true}, {.title = "RECOMPUTE"},
        {.title = "GB", .right = true},      {.title = "STEP", .right = true},
        {.title = "MFU", .right = true},     {.title = "WHY NOT"},
        {.title = "IN THE CLUSTER"}};
    const struct job_spec *s = base->spec;
    struct table *t =
        table_new(columns, COUNT(columns) - (verdicts ? 0 : 1), wide || s->train.model.experts > 0);
    size_t fitting = 0;
    for (size_t i = 0; i < count; i++)
        fitting += meshes[i].plan.fits;
    printf("%zu mesh%s of %lld %s for %s and %lld sequences a step, %zu of them fit%s:\n", count,
           count == 1 ? "" : "es", (long long)s->ranks, base->device->name,
           s->train.model.preset[0] ? s->train.model.preset : s->name, (long long)s->train.batch_global,
           fitting, fitting == 1 ? "s" : "");
    for (size_t i = 0; i < count && i < top; i++) {
        search_row(t, i + 1, &meshes[i]);
        if (verdicts)
            cluster_cell(t, &verdicts[i]);
    }
    table_show_whole(t);
    if (count > top)
        printf("… and %zu more (--top %zu shows all)\n", count - top, count);
}
