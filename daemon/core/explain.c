/* explain: see explain.h. The verdict is computed anew each time; nothing of it is kept. */
#include "daemon/core/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "daemon/core/backfill.h"
#include "daemon/core/core_private.h"
#include "daemon/core/explain_private.h"

enum { BLOCKERS_MAX = 20 };

/* ---- who blocks ---- */

enum placement_result inquiry_ask(const struct inquiry *q, const struct job_spec *spec, struct err *why)
{
    struct err ignored;
    return placement_find(q->view, spec, q->ranks, why ? why : &ignored);
}

static void add_blocker(struct verdict *v, const struct holder *h)
{
    v->blockers = mem_grow(v->blockers, v->n_blockers + 1, sizeof(*v->blockers));
    v->blockers[v->n_blockers++] =
        (struct verdict_blocker){.job = h->job,
                                 .name = str_dup(h->name),
                                 .user = str_dup(h->user),
                                 .slots = (int64_t)h->n,
                                 .until_ms = h->until_ms == INT64_MAX ? 0 : h->until_ms};
}

/* Of the first n, are the slots of holder i needed? When others suffice it stays taken, and the rest must do without it. */
static bool needed(const struct inquiry *q, size_t i)
{
    holders_take(&q->holders, q->view, i, i + 1);
    if (inquiry_ask(q, q->spec, NULL) == PLACEMENT_OK)
        return false;
    holders_give(&q->holders, q->view, i, i + 1);
    return true;
}

static void find_blockers(const struct inquiry *q)
{
    size_t n = holders_needed(&q->holders, q->view, q->spec, q->ranks);
    if (n == 0 || n > q->holders.n)
        return;
    bool *keep = mem_zero(n + 1, sizeof(*keep)), thorough = n <= BLOCKERS_MAX;
    holders_give(&q->holders, q->view, 0, n);
    for (size_t i = 0; i < n; i++)
        keep[i] = !thorough || needed(q, i);
    for (size_t i = 0; i < n; i++) {
        if (!keep[i])
            continue;
        holders_take(&q->holders, q->view, i, i + 1);
        if (q->out->n_blockers < BLOCKERS_MAX)
            add_blocker(q->out, &q->holders.list[i]);
    }
    free(keep);
    int64_t last = q->holders.list[n - 1].until_ms;
    bool told = last != INT64_MAX && q->out->ahead == 0; /* who goes before it may take what gets free */
    q->out->starts_ms = told ? last : 0;
}

/* ---- the verdict ---- */

static void need_borders(const struct job_spec *spec, struct verdict *v)
{
    const struct {
        const struct job_border *border;
        int64_t size;
        const char *what;
    } all[] = {{&spec->placement.tp, spec->tp, "TP"},
               {&spec->placement.cp, spec->cp, "CP"},
               {&spec->placement.pp, spec->pp, "PP"},
               {&spec->placement.ep, spec->ep, "EP"},
               {&spec->placement.dp, spec->dp, "DP"}};
    v->need_borders = str_dup("");
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i].size <= 1 || !all[i].border->required || all[i].border->within == DOMAIN_CLUSTER)
            continue;
        char *longer =
            str_printf("%s%seach %s group within %s", v->need_borders, v->need_borders[0] ? ", " : "",
                       all[i].what, job_domain_words(all[i].border->within));
        free(v->need_borders);
        v->need_borders = longer;
    }
    bool together = spec->placement.tp.required && spec->placement.tp.within == DOMAIN_NODE;
    v->need_group = together ? spec->tp : 1;
}

static void append_places(json_t *list, const struct placed_rank *ranks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct placed_rank *p = &ranks[i];
        json_array_append_new(list,
                              json_pack("{s:I,s:s,s:I,s:I,s:I,s:I,s:I}", "rank", (json_int_t)p->rank, "node",
                                        p->node, "slot", (json_int_t)p->slot, "tp", (json_int_t)p->tp, "pp",
                                        (json_int_t)p->pp, "cp", (json_int_t)p->cp, "dp", (json_int_t)p->dp));
    }
}

static json_t *cost_json(const struct placement_cost *cost, const struct job_spec *spec)
{
    struct traffic traffic;
    json_t *axes = json_array();
    traffic_of(spec, &traffic);
    for (int a = 0; a < AXIS_COUNT; a++) {
        if (traffic.axis[a].size <= 1)
            continue;
        json_array_append_new(axes,
                              json_pack("{s:s,s:s,s:f}", "axis", axis_name((enum axis)a), "level",
                                        job_domain_name(cost->level[a]), "seconds", cost->axis_seconds[a]));
    }
    return json_pack("{s:f,s:f,s:o}", "seconds", cost->seconds, "top_bytes", cost->top_bytes, "axes", axes);
}

/* Spare nodes that it would get, each named once. */
static size_t tell_spares(const struct inquiry *q, size_t nodes)
{
    const struct job_spec *spec = q->spec;
    size_t n = 0, names = 0;
    int64_t wanted = core_spares(q->config, spec, nodes);
    placement_view_take(q->view, q->ranks, (size_t)spec->ranks, spec->memory);
    struct placed_rank *spares = wanted > 0 ? placement_spares(q->view, spec, q->ranks, wanted, &n) : NULL;
    placement_view_give(q->view, q->ranks, (size_t)spec->ranks, spec->memory);
    q->out->spares = json_array();
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && strcmp(spares[i - 1].node, spares[i].node) == 0)
            continue;
        json_array_append_new(q->out->spares, json_string(spares[i].node));
        names++;
    }
    q->out->spares_wanted = wanted;
    if (q->places)
        append_places(q->out->placement, spares, n);
    free(spares);
    return names;
}

static void tell_start(const struct inquiry *q)
{
    struct placement_cost cost;
    struct verdict *v = q->out;
    size_t nodes = placement_nodes(q->ranks, (size_t)q->spec->ranks);
    v->placement = q->places ? json_array() : NULL;
    if (q->places)
        append_places(v->placement, q->ranks, (size_t)q->spec->ranks);
    size_t spares = tell_spares(q, nodes);
    char and_spares[64] = "";
    if (v->spares_wanted > 0)
        (void)snprintf(and_spares, sizeof(and_spares), ", and %zu of %lld spare nodes", spares,
                       (long long)v->spares_wanted);
    placement_cost(q->view, q->spec, q->ranks, &cost);
    v->kind = VERDICT_NOW;
    v->sentence = str_printf("could start now: %lld rank%s on %zu node%s%s", (long long)q->spec->ranks,
                             q->spec->ranks == 1 ? "" : "s", nodes, nodes == 1 ? "" : "s", and_spares);
    v->cost = cost_json(&cost, q->spec);
}

bool inquiry_waits(const struct inquiry *q, const struct job_spec *spec, struct err *why)
{
    if (!q->core || !q->head)
        return false;
    struct backfill b = {.head = q->head};
    struct seating seats = {.ranks = q->ranks};
    size_t n = (size_t)spec->ranks;
    int64_t wanted = core_spares(q->config, spec, placement_nodes(q->ranks, n));
    if (wanted > 0) {
        placement_view_take(q->view, q->ranks, n, spec->memory);
        seats.spares = placement_spares(q->view, spec, q->ranks, wanted, &seats.n_spares);
        placement_view_give(q->view, q->ranks, n, spec->memory);
    }
    bool waits = !backfill_allows(&b, q->core, spec, q->ends_ms, &seats, why);
    free(seats.spares);
    backfill_clear(&b);
    return waits;
}

static bool must_wait(const struct inquiry *q)
{
    struct err why;
    if (!inquiry_waits(q, q->spec, &why))
        return false;
    q->out->kind = VERDICT_OTHER;
    q->out->sentence = str_dup(why.text);
    return true;
}

/* Chooses the size that an elastic job would start with; where none fits, its smallest, which it waits for. It is placed in q->ranks. */
static enum placement_result choose_size(struct inquiry *q, struct job_spec *sized, struct err *why)
{
    enum placement_result result;
    struct err ignored;
    int64_t least = job_dp_at_least(sized, 1);
    q->ranks = elastic_seat(q->view, sized, NULL, 1, INT64_MAX, &result, why);
    if (q->ranks && sized->dp > least && inquiry_waits(q, sized, &ignored)) {
        free(q->ranks);
        q->ranks = elastic_seat(q->view, sized, NULL, 1, least, &result, why);
    }
    if (!q->ranks) {
        job_resize(sized, least);
        q->ranks = mem_zero((size_t)sized->ranks, sizeof(*q->ranks));
    }
    return result;
}

static void inquire(struct inquiry *q)
{
    struct placement_room now, usable, all;
    struct verdict *v = q->out;
    struct err why = {""};
    const struct job_spec *asked = q->spec;
    struct job_spec sized = *asked;
    enum placement_result result = choose_size(q, &sized, &why);
    q->spec = &sized;
    placement_room(q->view, q->spec, EXTENT_FREE, &now);
    placement_room(q->view, q->spec, EXTENT_USABLE, &usable);
    placement_room(q->view, q->spec, EXTENT_ALL, &all);
    v->need_ranks = q->spec->ranks;
    v->free_slots = now.slots;
    v->usable_slots = usable.slots;
    v->all_slots = all.slots;
    v->fits_ranks = now.fits;
    need_borders(q->spec, v);
    if (result == PLACEMENT_OK) {
        if (!must_wait(q))
            tell_start(q);
    } else {
        v->kind = result == PLACEMENT_NEVER      ? VERDICT_NEVER
                  : result == PLACEMENT_CAPACITY ? VERDICT_CAPACITY
                                                 : VERDICT_FRAGMENTED;
        v->sentence = str_dup(why.text);
        if (result != PLACEMENT_NEVER)
            find_blockers(q);
        explain_changes(q, &now, &all);
    }
    q->spec = asked;
    free(q->ranks);
}

/* ---- in a running cluster ---- */

/* What the asking job keeps itself blocks nobody. */
static void open_inquiry(struct inquiry *q, const struct core *core, const struct job *asking)
{
    q->view = core_view(core);
    q->holders = holders_collect(core, asking);
    q->idle = mem_zero(core->nodes.count + 1, sizeof(*q->idle));
    for (size_t i = 0; i < core->nodes.count; i++) {
        const struct node *node = core->nodes.items[i];
        if (!node_usable(node))
            q->idle[q->n_idle++] = node->r.name;
    }
}

static void close_inquiry(struct inquiry *q)
{
    holders_clear(&q->holders);
    free(q->idle);
    placement_view_free(q->view);
}

static bool more_urgent(const struct job *a, const struct job *b)
{
    if (a->r.spec->priority != b->r.spec->priority)
        return a->r.spec->priority > b->r.spec->priority;
    return a->r.submitted_ms != b->r.submitted_ms ? a->r.submitted_ms < b->r.submitted_ms : a->r.id < b->r.id;
}

static void note_ahead(struct inquiry *q, const struct core *core, struct job *job)
{
    struct verdict *v = q->out;
    v->ahead++;
    if (job_waits_for_slots(core, job) && (!q->head || more_urgent(job, q->head)))
        q->head = job;
    if (q->first && !more_urgent(job, q->first))
        return;
    q->first = job;
    v->ahead_job = job->r.id;
    free(v->ahead_name);
    v->ahead_name = str_dup(job->r.spec->name);
}

/* Jobs that wait for slots and go before it: of a higher priority, or of the same and submitted earlier. job NULL: it comes last. */
static void count_ahead(struct inquiry *q, const struct core *core, const struct job *job, int64_t priority)
{
    for (size_t i = 0; i < core->jobs.count; i++) {
        struct job *other = core->jobs.items[i];
        int64_t theirs = other->r.spec->priority;
        bool waits = other != job && other->waiting && !other->current && other->misfit != PLACEMENT_NEVER;
        bool earlier = !job || other->r.submitted_ms < job->r.submitted_ms ||
                       (other->r.submitted_ms == job->r.submitted_ms && other->r.id < job->r.id);
        if (waits && (theirs > priority || (theirs == priority && earlier)))
            note_ahead(q, core, other);
    }
}

void explain_spec(struct core *core, struct core_time t, const struct job_spec *spec, bool places,
                  struct verdict *out)
{
    *out = (struct verdict){.sentence = NULL};
    struct inquiry q = {.spec = spec, .out = out, .places = places, .config = &core->config, .core = core};
    core->t = t;
    open_inquiry(&q, core, NULL);
    count_ahead(&q, core, NULL, spec->priority);
    q.ends_ms = spec->limits.time_ms > 0 ? t.now_ms + spec->limits.time_ms : INT64_MAX;
    inquire(&q);
    close_inquiry(&q);
}

/* It would fit, but delay a job that goes before it. */
static bool held_back(const struct core *core, const struct job *job)
{
    return job->behind != 0 && job->kept_out && job->fit_version == core->fit_version;
}

/* Not a matter of slots: it is under way or over, or waits for something else. False: it is. */
static bool other_reason(const struct core *core, const struct job *job, struct verdict *v)
{
    bool waits = job->waiting && !job->current;
    const struct node *unheard = waits ? keep_unheard(core, job) : NULL;
    if (waits && !job_pauses(core, job) && !held_back(core, job) && !unheard)
        return false;
    bool held = job->r.state == JOB_HELD;
    v->kind = held || waits ? VERDICT_OTHER : VERDICT_RUNS;
    v->need_borders = str_dup("");
    v->need_ranks = job->r.spec->ranks;
    v->need_group = 1;
    v->sentence =
        unheard ? str_printf("waits for %s to report after the start of the controller", unheard->r.name)
                : str_printf("is %s: %s", job_state_name(job->r.state), job->r.reason);
    if (held)
        explain_add_change(v, str_printf("belay release %lld", (long long)job->r.id));
    if (waits && job_pauses(core, job))
        v->starts_ms = job->r.not_before_ms;
    return true;
}

int explain_job(struct core *core, struct core_time t, int64_t id, struct verdict *out)
{
    *out = (struct verdict){.sentence = NULL};
    core->t = t;
    const struct job *job = job_find(core, id);
    if (!job)
        return -1;
    if (other_reason(core, job, out))
        return 0;
    struct inquiry q = {.spec = job->r.spec, .out = out, .config = &core->config, .core = core};
    size_t n_kept = 0;
    open_inquiry(&q, core, job);
    count_ahead(&q, core, job, job->r.spec->priority);
    q.ends_ms = holders_end_of(core, job);
    if (job->kept) {
        q.head = NULL; /* it goes first */
        struct placed_rank *kept = keep_list(core, job, &n_kept);
        placement_view_give(q.view, kept, n_kept, job->r.spec->memory);
        free(kept);
    }
    for (size_t i = 0; i < job->n_avoided; i++)
        placement_view_usable(q.view, job->avoided[i].node->r.name, false);
    inquire(&q);
    if (job->n_avoided > 0 && out->kind != VERDICT_NOW) {
        free(out->sentence);
        out->sentence = str_dup(job->r.reason); /* names the node that refused it */
    }
    close_inquiry(&q);
    return 0;
}

/* ---- in a cluster on paper ---- */

static void list_free(struct placement_node *to, const struct cluster_node *from, int64_t *slots)
{
    *to = (struct placement_node){.name = from->name, .rack = from->rack, .pod = from->pod};
    to->nvlink = from->nvlink;
    to->gpu = from->gpu;
    to->slots = from->slots;
    to->memory = to->free_memory = from->memory;
    to->usable = !from->drained;
    to->free_slots = slots;
    for (int64_t s = from->taken; s < from->slots; s++)
        slots[to->n_free++] = s;
}

static struct placement_view *paper_view(const struct cluster_spec *cluster)
{
    size_t n_slots = 0;
    for (size_t i = 0; i < cluster->n_nodes; i++)
        n_slots += (size_t)cluster->nodes[i].slots;
    struct placement_node *nodes = mem_zero(cluster->n_nodes + 1, sizeof(*nodes));
    int64_t *slots = mem_zero(n_slots + 1, sizeof(*slots)), *next = slots;
    for (size_t i = 0; i < cluster->n_nodes; i++) {
        list_free(&nodes[i], &cluster->nodes[i], next);
        next += cluster->nodes[i].slots;
    }
    struct placement_view *view = placement_view_new(nodes, cluster->n_nodes, cluster->links);
    free(nodes);
    free(slots);
    return view;
}

void explain_cluster(const struct cluster_spec *cluster, const struct job_spec *spec, bool places,
                     struct verdict *out)
{
    *out = (struct verdict){.sentence = NULL};
    struct core_config config;
    core_config_defaults(&config);
    struct inquiry q = {
        .spec = spec, .out = out, .view = paper_view(cluster), .places = places, .config = &config};
    q.idle = mem_zero(cluster->n_nodes + 1, sizeof(*q.idle));
    for (size_t i = 0; i < cluster->n_nodes; i++)
        if (cluster->nodes[i].drained)
            q.idle[q.n_idle++] = cluster->nodes[i].name;
    inquire(&q);
    close_inquiry(&q);
}
