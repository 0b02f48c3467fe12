/* schedule: who waits for slots, in which order, and who gets them.
 *
 * Order: priority, then time of submit, then id. A job that does not fit lets smaller ones behind it go first as far as they do not
 * delay it (backfill.h). Jobs are tried only when slots may have become free since they last did not fit,
 * and a shape that did not fit is not tried twice in one round. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "daemon/core/backfill.h"
#include "daemon/core/core_private.h"
#include "daemon/core/holders.h"

static int by_urgency(const struct job *a, const struct job *b)
{
    if (a->r.spec->priority != b->r.spec->priority)
        return a->r.spec->priority > b->r.spec->priority ? -1 : 1;
    if (a->r.submitted_ms != b->r.submitted_ms)
        return a->r.submitted_ms < b->r.submitted_ms ? -1 : 1;
    return a->r.id < b->r.id ? -1 : a->r.id > b->r.id;
}

static void insert(struct list *queue, struct job *job)
{
    size_t low = 0, high = queue->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (by_urgency(queue->items[mid], job) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    list_add(queue, job);
    memmove(&queue->items[low + 1], &queue->items[low], (queue->count - 1 - low) * sizeof(void *));
    queue->items[low] = job;
}

void queue_add(struct core *core, struct job *job)
{
    job->waiting = true;
    job->kept_out = false;
    core->schedule_dirty = true;
    if (job->queued)
        return;
    job->queued = true;
    insert(&core->queue, job);
}

/* Its entry goes with the next round. */
void queue_remove(struct core *core, struct job *job)
{
    job->waiting = false;
    if (core->head_job == job->r.id)
        capacity_grew(core); /* nobody has to let it go first any more */
}

void capacity_grew(struct core *core)
{
    core->fit_version++;
    core->schedule_dirty = true;
}

void capacity_shrank(struct core *core)
{
    core->hold_version++;
    core->fit_version++; /* why they wait may have changed, too */
    core->schedule_dirty = true;
}

static void sweep_queue(struct core *core)
{
    size_t kept = 0;
    for (size_t i = 0; i < core->queue.count; i++) {
        struct job *job = core->queue.items[i];
        job->queued = job->waiting;
        if (job->waiting)
            core->queue.items[kept++] = job;
    }
    core->queue.count = kept;
}

/* ---- the view of the cluster that placement gets ---- */

struct shape {
    int64_t ranks, tp, pp, cp, dp, ep, memory;
    enum job_device device;
    enum job_domain within[AXIS_COUNT]; /* of required borders; DOMAIN_CLUSTER where there is none */
};

enum {
    SHAPES_MAX = 64,
    ROUNDS_MAX = 4,
    TRIES_MAX = 256
}; /* TRIES_MAX: placements a turn; each takes up to 0.3 ms at full size */

struct round {
    struct placement_view *view;
    struct shape shapes[SHAPES_MAX]; /* that did not fit in this round */
    enum placement_result result[SHAPES_MAX];
    char *why[SHAPES_MAX];
    size_t n_shapes;
    int tries;
    struct backfill backfill;
};

static size_t list_free_slots(const struct node *node, int64_t *slots)
{
    size_t n = 0;
    for (int64_t s = 0; s < node->r.inventory.slots; s++)
        if ((size_t)s >= node->n_owners || !node->owners[s])
            slots[n++] = s;
    return n;
}

static void view_node(struct placement_node *to, const struct node *node, int64_t *slots)
{
    const struct link_inventory *i = &node->r.inventory;
    *to = (struct placement_node){
        .name = node->r.name, .rack = i->rack, .pod = i->pod, .nvlink = i->nvlink, .gpu = i->gpu};
    to->free_slots = slots;
    to->n_free = list_free_slots(node, slots);
    to->slots = i->slots;
    to->memory = i->memory;
    to->free_memory = i->memory - node->held_memory; /* below 0 when it came back with less */
    to->usable = node_usable(node);
}

struct placement_view *core_view(const struct core *core)
{
    size_t n_slots = 0, n_nodes = core->nodes.count;
    for (size_t i = 0; i < n_nodes; i++)
        n_slots += (size_t)((struct node *)core->nodes.items[i])->r.inventory.slots;
    struct placement_node *nodes = mem_zero(n_nodes + 1, sizeof(*nodes));
    int64_t *slots = mem_zero(n_slots + 1, sizeof(*slots)), *next = slots;
    for (size_t i = 0; i < n_nodes; i++) {
        const struct node *node = core->nodes.items[i];
        view_node(&nodes[i], node, next);
        next += node->r.inventory.slots;
    }
    struct cluster_link links[DOMAIN_COUNT];
    if (core->config.cluster)
        memcpy(links, core->config.cluster->links, sizeof(links));
    else
        cluster_links_default(links);
    struct placement_view *view = placement_view_new(nodes, n_nodes, links);
    free(nodes);
    free(slots);
    return view;
}

static void end_round(struct round *r)
{
    for (size_t i = 0; i < r->n_shapes; i++)
        free(r->why[i]);
    placement_view_free(r->view);
    backfill_clear(&r->backfill);
}

/* ---- placing ---- */

static enum job_domain required(const struct job_border *border, int64_t size)
{
    return border->required && size > 1 ? border->within : DOMAIN_CLUSTER;
}

/* Where the smallest size of a job does not fit, no other does. */
static struct shape shape_of(const struct job *job)
{
    const struct job_spec smallest = job_spec_resized(job->r.spec, job_dp_at_least(job->r.spec, 1)),
                          *spec = &smallest;
    struct shape s;
    memset(&s, 0, sizeof(s));
    s.ranks = spec->ranks;
    s.tp = spec->tp;
    s.pp = spec->pp;
    s.cp = spec->cp;
    s.dp = spec->dp;
    s.ep = spec->ep;
    s.memory = spec->memory;
    s.device = spec->device;
    s.within[AXIS_TP] = required(&spec->placement.tp, spec->tp);
    s.within[AXIS_PP] = required(&spec->placement.pp, spec->pp);
    s.within[AXIS_CP] = required(&spec->placement.cp, spec->cp);
    s.within[AXIS_EP] = required(&spec->placement.ep, spec->ep);
    s.within[AXIS_DP] = required(&spec->placement.dp, spec->dp);
    return s;
}

/* Index of the shape, or n_shapes. */
static size_t known_misfit(const struct round *r, const struct job *job)
{
    struct shape s = shape_of(job);
    for (size_t i = 0; i < r->n_shapes && job->n_avoided == 0; i++)
        if (memcmp(&r->shapes[i], &s, sizeof(s)) == 0)
            return i;
    return r->n_shapes;
}

static void remember_misfit(struct round *r, const struct job *job, enum placement_result result,
                            const char *why)
{
    if (r->n_shapes == SHAPES_MAX || job->n_avoided > 0)
        return;
    r->shapes[r->n_shapes] = shape_of(job);
    r->result[r->n_shapes] = result;
    r->why[r->n_shapes++] = str_dup(why);
}

static void shut_out_avoided(struct round *r, const struct job *job, bool shut)
{
    for (size_t k = 0; k < job->n_avoided; k++)
        placement_view_usable(r->view, job->avoided[k].node->r.name,
                              !shut && node_usable(job->avoided[k].node));
}

/* What the node said when it refused the job's last attempt; "" when it did not. */
static const char *refusal_of(const struct job *job, const struct node *node)
{
    const struct attempt *a = job->n_attempts > 0 ? job->attempts[job->n_attempts - 1] : NULL;
    for (size_t i = 0; a && i < a->r.n_nodes; i++)
        if (a->r.nodes[i].reported && a->r.nodes[i].report.phase == REPORT_REFUSED &&
            strcmp(a->r.nodes[i].node, node->r.name) == 0)
            return a->r.nodes[i].report.reason;
    return "";
}

/* The refusal goes first: it is most likely what somebody has to mend. */
static void misfit(struct core *core, struct job *job, enum placement_result result, const char *why)
{
    job->kept_out = true;
    job->fit_version = core->fit_version;
    job->misfit = result;
    job->behind = 0;
    if (job->n_avoided == 0) {
        job_set_reason(core, job, "%s", why);
        return;
    }
    const struct node *node = job->avoided[job->n_avoided - 1].node;
    const char *said = refusal_of(job, node);
    job_set_reason(core, job, "%s could not prepare it and is avoided for a while%s%s; the job %s",
                   node->r.name, said[0] ? ": " : "", said, why);
}

static void seating_free(struct seating *s)
{
    free(s->ranks);
    free(s->spares);
}

static void start(struct core *core, struct job *job, const struct seating *s)
{
    job->waiting = false;
    job_pause(core, job, 0);
    job->r.progress.phase[0] = '\0';
    const struct attempt *before = job_newest(job);
    struct attempt *a = attempt_new(core, job, s->ranks, s->spares, s->n_spares);
    struct err why;
    elastic_begin(core, job, before, a);
    int64_t wanted = core_spares(&core->config, job->r.spec, a->r.n_nodes);
    if (wanted > 0)
        spares_tell(core, a, wanted);
    err_set(&why, "waits for %zu node%s to get ready", a->r.n_nodes, a->r.n_nodes == 1 ? "" : "s");
    job_event(core, job, JOB_PLACED, why.text);
}

static bool may_try(const struct core *core, const struct job *job)
{
    return job->waiting && !job->current && !job_pauses(core, job) &&
           !(job->kept_out && job->fit_version == core->fit_version &&
             (job->behind == 0 || job->hold_version == core->hold_version)) &&
           !keep_unheard(core, job);
}

/* Takes its ranks from the view, and spare nodes for them. A job that cannot have those starts without; one that keeps some from before
 * gets no more than those at first, since nobody has asked who waits. */
static void take_seats(const struct core *core, struct round *r, const struct job *job, struct seating *s)
{
    const struct job_spec *spec = job->r.spec;
    size_t n = (size_t)spec->ranks;
    placement_view_take(r->view, s->ranks, n, spec->memory);
    if (spec->placement.spares == 0)
        return;
    int64_t wanted = core_spares(&core->config, spec, placement_nodes(s->ranks, n));
    int64_t left = job->kept ? spares_left(core, job->kept, s->ranks, n) : wanted;
    s->spares = placement_spares(r->view, spec, s->ranks, left < wanted ? left : wanted, &s->n_spares);
    placement_view_take(r->view, s->spares, s->n_spares, spec->memory);
}

static void give_seats(struct round *r, const struct job *job, const struct seating *s)
{
    placement_view_give(r->view, s->ranks, (size_t)job->r.spec->ranks, job->r.spec->memory);
    placement_view_give(r->view, s->spares, s->n_spares, job->r.spec->memory);
}

/* It must let another go first. */
static void hold_back(struct core *core, struct job *job, int64_t head, const char *why)
{
    job->kept_out = true;
    job->fit_version = core->fit_version;
    job->misfit = PLACEMENT_OK;
    job->behind = head;
    job->hold_version = core->hold_version;
    job_set_reason(core, job, "%s", why);
}

/* It has seats, which are taken: it starts, unless another must go first. */
static bool start_or_hold(struct core *core, struct round *r, struct job *job, struct seating *s)
{
    struct err why;
    if (job->kept || backfill_allows(&r->backfill, core, job->r.spec, holders_end_of(core, job), s, &why)) {
        if (!r->backfill.head)
            core->hold_version++; /* the head comes after it and may have to wait longer */
        start(core, job, s);
        return true;
    }
    give_seats(r, job, s);
    hold_back(core, job, r->backfill.head->r.id, why.text);
    return false;
}

/* With the largest dp up to `most` that fits. True: it starts. */
static bool try_sizes(struct core *core, struct round *r, struct job *job, int64_t most,
                      enum placement_result *result)
{
    struct err why = {""};
    struct seating s = {.spares = NULL};
    s.ranks = elastic_seat(r->view, job->r.spec, job->kept ? &job->kept->r : NULL, 1, most, result, &why);
    if (*result == PLACEMENT_OK) {
        take_seats(core, r, job, &s);
        if (start_or_hold(core, r, job, &s))
            return true;
    } else {
        if (!job->kept)
            remember_misfit(r, job, *result, why.text);
        misfit(core, job, *result, why.text);
    }
    seating_free(&s);
    return false;
}

/* Tries with the slots that the job keeps counted as free; they are taken again when it does not start. Where it would delay another, its
 * smallest size may not. True: it starts. */
static bool try_seats(struct core *core, struct round *r, struct job *job)
{
    struct job_spec *spec = job->r.spec;
    enum placement_result result;
    int64_t least = job_dp_at_least(spec, 1);
    bool starts = try_sizes(core, r, job, elastic_most(core, job), &result);
    if (!starts && result == PLACEMENT_OK && spec->dp > least)
        starts = try_sizes(core, r, job, least, &result);
    if (!starts && job_elastic(spec))
        job_resize(spec, job_dp_at_most(spec, INT64_MAX));
    if (!starts && result == PLACEMENT_NEVER)
        keep_end(core, job); /* nothing to keep slots for */
    return starts;
}

static void try_job(struct core *core, struct round *r, struct job *job)
{
    size_t n_kept = 0, known = job->kept ? r->n_shapes : known_misfit(r, job);
    if (known < r->n_shapes) {
        misfit(core, job, r->result[known], r->why[known]);
        return;
    }
    struct err why;
    if (!job->kept && backfill_bars(&r->backfill, core, holders_end_of(core, job), &why)) {
        hold_back(core, job, r->backfill.head->r.id, why.text);
        job->hold_version--; /* it was not looked at: the next round does */
        return;
    }
    r->tries++;
    struct placed_rank *kept = job->kept ? keep_list(core, job, &n_kept) : NULL;
    placement_view_give(r->view, kept, n_kept, job->r.spec->memory);
    shut_out_avoided(r, job, true);
    if (!try_seats(core, r, job))
        placement_view_take(r->view, kept, n_kept, job->r.spec->memory);
    shut_out_avoided(r, job, false);
    free(kept);
}

/* Jobs that keep slots go first: what they lack is little, and what they hold lies idle meanwhile. */
static void try_keeping(struct core *core, struct round *r)
{
    for (size_t i = 0; i < core->queue.count; i++) {
        struct job *job = core->queue.items[i];
        if (job->kept && may_try(core, job))
            try_job(core, r, job);
    }
}

bool job_waits_for_slots(const struct core *core, const struct job *job)
{
    bool tried = job->kept_out && (job->kept || job->fit_version == core->fit_version);
    return job->waiting && !job->current && tried &&
           (job->misfit == PLACEMENT_CAPACITY || job->misfit == PLACEMENT_FRAGMENTED);
}

static void try_others(struct core *core, struct round *r)
{
    for (size_t i = 0; i < core->queue.count; i++) {
        struct job *job = core->queue.items[i];
        bool tries = !job->kept && may_try(core, job);
        if (tries && r->tries >= TRIES_MAX) {
            core->more_to_try = true;
            break;
        }
        if (tries)
            try_job(core, r, job);
        if (job_waits_for_slots(core, job))
            backfill_waits(&r->backfill, core, job);
    }
    if (!r->backfill.head)
        core->head_job = 0;
}

static void one_round(struct core *core)
{
    core->schedule_dirty = core->more_to_try = false;
    struct round r = {.view = core_view(core)};
    try_keeping(core, &r);
    try_others(core, &r);
    elastic_look_after(core, r.view, r.backfill.head);
    spares_look_after(core, r.view, &r.backfill);
    end_round(&r);
    sweep_queue(core);
    core->schedule_dirty = core->schedule_dirty || core->more_to_try;
}

/* A round may itself free slots: a job that moved gives up what it kept. */
void schedule(struct core *core)
{
    for (int rounds = 0; core->schedule_dirty && rounds < ROUNDS_MAX; rounds++) {
        one_round(core);
        if (core->more_to_try)
            break; /* the next turn goes on, with what has happened meanwhile */
    }
}
