/* elastic: jobs whose dp is a range. They start with the largest size that fits, go on with a smaller one when nodes are lost and nothing is
 * free to take their place, and grow again.
 *
 * Growing is an interruption, so it is worth its price: only when the job has run for parallel.regrow and ten times as
 * long as it needs to save, there has been room for a while, and nobody waits for slots. First the job is asked for a checkpoint; when that is durable and there is
 * still room, the additional slots become its own and it stops, to start again on all of them. So what follows a stop is the larger size.
 *
 * A job's spec has the size of its newest placement, its records have the range and the placements: nothing more is stored. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "daemon/core/core_private.h"

enum {
    SIZES_MAX = 32,  /* that are tried before the smallest: each costs a placement */
    LOOKS_MAX = 8,   /* running jobs in a round; the others' turn is the next one */
    SAVES_WORTH = 10 /* a job runs so many times as long as its longest save before it is stopped to grow */
};

static int64_t largest(const struct job_spec *spec)
{
    return job_dp_at_most(spec, INT64_MAX);
}

static int64_t replica(const struct job_spec *spec)
{
    return spec->tp * spec->pp * spec->cp;
}

/* ---- seats ---- */

/* The old placement, cut or continued to the ranks of the spec. DP is the outermost dimension, so ranks keep their coordinates; those that
 * are new have been nowhere. */
static struct placed_rank *stretch(const struct job_spec *spec, const struct attempt_record *old)
{
    size_t n = (size_t)spec->ranks, kept = old->world < n ? old->world : n;
    struct placed_rank *ranks = mem_zero(n, sizeof(*ranks));
    memcpy(ranks, old->placement, kept * sizeof(*ranks));
    for (size_t i = kept; i < n; i++) {
        placement_coordinates(spec, (int64_t)i, &ranks[i]);
        ranks[i].slot = -1;
    }
    return ranks;
}

static enum placement_result seat(const struct placement_view *view, const struct job_spec *spec,
                                  const struct attempt_record *old, struct placed_rank *ranks,
                                  struct err *why)
{
    if (old && old->world > 0) {
        struct placed_rank *from = stretch(spec, old);
        enum placement_result result =
            placement_repair(view, spec, from, old->spares, old->n_spares, ranks, why);
        free(from);
        if (result == PLACEMENT_OK)
            return result;
    }
    return placement_find(view, spec, ranks, why);
}

/* Sizes for which there are not even slots need no placement to be refused. */
static int64_t first_size(const struct placement_view *view, const struct job_spec *spec, int64_t most)
{
    struct placement_room room;
    if (!job_elastic(spec))
        return job_dp_at_most(spec, most);
    placement_room(view, spec, EXTENT_FREE, &room);
    int64_t slots = room.slots / replica(spec);
    return job_dp_at_most(spec, slots < most ? slots : most);
}

static void say_smallest(const struct job_spec *spec, struct err *why)
{
    char range[JOB_RANGE_SIZE];
    struct err text = *why;
    if (job_elastic(spec))
        err_set(why, "%s (with dp %lld, the least of %s)", text.text, (long long)spec->dp,
                job_range_print(range, spec));
}

struct placed_rank *elastic_seat(const struct placement_view *view, struct job_spec *spec,
                                 const struct attempt_record *old, int64_t least, int64_t most,
                                 enum placement_result *result, struct err *why)
{
    int64_t smallest = job_dp_at_least(spec, least), dp = first_size(view, spec, most);
    job_resize(spec, largest(spec));
    struct placed_rank *ranks = mem_zero((size_t)spec->ranks, sizeof(*ranks));
    for (int tries = 0; dp > smallest && tries < SIZES_MAX; tries++, dp = job_dp_at_most(spec, dp - 1)) {
        job_resize(spec, dp);
        *result = seat(view, spec, old, ranks, why);
        if (*result == PLACEMENT_OK)
            return ranks;
    }
    job_resize(spec, smallest);
    *result = seat(view, spec, old, ranks, why);
    if (*result == PLACEMENT_OK)
        return ranks;
    say_smallest(spec, why);
    job_resize(spec, largest(spec));
    free(ranks);
    return NULL;
}

int64_t elastic_most(const struct core *core, const struct job *job)
{
    bool others = core->head_job != 0 && core->head_job != job->r.id;
    if (!others || !job->kept)
        return INT64_MAX;
    return (int64_t)(job->kept->r.world + job->kept->r.n_spares) / replica(job->r.spec);
}

/* ---- words ---- */

/* What has become of the nodes that the attempt before was on. */
static void say_lost(const struct attempt *before, struct err *out)
{
    const struct node *first = NULL;
    size_t n = 0;
    for (size_t i = 0; i < before->r.n_nodes; i++) {
        const struct node *node = before->seats[i].node;
        if (node_usable(node))
            continue;
        first = first ? first : node;
        n++;
    }
    bool drains = first && (first->r.drain_requested || first->leaving);
    if (n == 0)
        err_set(out, "there is no room for more now");
    else if (n == 1)
        err_set(out, "%s %s, no spare is free", first->r.name, drains ? "drains" : "is down");
    else
        err_set(out, "%s and %zu more are out of service, no spare is free", first->r.name, n - 1);
}

static void note(struct core *core, const struct attempt *a, const char *kind, const char *text)
{
    struct event_of of = {.kind = kind, .job = a->r.job, .attempt = a->r.number, .rank = -1};
    event_note(core, of, "%s", text);
}

static void tell_size(struct core *core, const struct job *job, const struct attempt *before,
                      const struct attempt *a)
{
    const struct job_spec *spec = job->r.spec;
    char range[JOB_RANGE_SIZE];
    bool went_before = before && before->r.world > 0 && job->r.started_ms > 0;
    int64_t was = went_before ? (int64_t)before->r.world / replica(spec) : largest(spec);
    struct err text, why;
    if (spec->dp == was || !job_elastic(spec))
        return;
    if (spec->dp > was)
        err_set(&text, "continues with dp %lld instead of %lld", (long long)spec->dp, (long long)was);
    else if (went_before) {
        say_lost(before, &why);
        err_set(&text, "continues with dp %lld instead of %lld: %s", (long long)spec->dp, (long long)was,
                why.text);
    } else
        err_set(&text, "starts with dp %lld of %s, the largest that fits now", (long long)spec->dp,
                job_range_print(range, spec));
    note(core, a, spec->dp > was ? "grown" : "shrunk", text.text);
}

void elastic_begin(struct core *core, struct job *job, const struct attempt *before, const struct attempt *a)
{
    job->grow.request = 0;
    job->grow.since_mono_ms = INT64_MAX;
    job->grow.version = ELASTIC_LOOK;
    tell_size(core, job, before, a);
}

void elastic_describe(const struct job *job, struct err *out)
{
    const struct job_spec *spec = job->r.spec;
    int64_t most = largest(spec);
    out->text[0] = '\0';
    if (spec->dp < most)
        err_set(out, ", with dp %lld of up to %lld: it grows when there is room", (long long)spec->dp,
                (long long)most);
}

/* ---- growing ---- */

static bool owns(const struct core *core, const struct attempt *a, const struct placed_rank *slot)
{
    const struct node *node = node_find(core, slot->node);
    return node && (size_t)slot->slot < node->n_owners && node->owners[slot->slot] == a;
}

static int by_place(const void *x, const void *y)
{
    const struct placed_rank *a = x, *b = y;
    int c = strcmp(a->node, b->node);
    return c != 0 ? c : (a->slot > b->slot) - (a->slot < b->slot);
}

/* The slots of the larger placement that the attempt does not have yet, by node (fresh array of *n). */
static struct placed_rank *additional(const struct core *core, const struct attempt *a,
                                      const struct job_spec *wish, const struct placed_rank *ranks, size_t *n)
{
    struct placed_rank *more = mem_zero((size_t)wish->ranks, sizeof(*more));
    *n = 0;
    for (int64_t i = 0; i < wish->ranks; i++) {
        if (owns(core, a, &ranks[i]))
            continue;
        more[*n] = (struct placed_rank){.rank = -1, .slot = ranks[i].slot};
        memcpy(more[(*n)++].node, ranks[i].node, sizeof(ranks[i].node));
    }
    qsort(more, *n, sizeof(*more), by_place);
    return more;
}

/* Was an attempt of the job before on that node? */
static bool was_there(const struct attempt *a, const char *node)
{
    const struct job *job = a->job;
    for (size_t i = 0; i < job->n_attempts; i++)
        for (size_t k = 0; job->attempts[i] != a && k < job->attempts[i]->r.n_nodes; k++)
            if (strcmp(job->attempts[i]->r.nodes[k].node, node) == 0)
                return true;
    return false;
}

static void say_growth(const struct attempt *a, const struct job_spec *wish, const struct placed_rank *more,
                       size_t n, struct err *out)
{
    size_t nodes = placement_nodes(more, n);
    char others[32] = "", where[LINK_NODE_NAME_MAX + 64] = "its spares are used";
    if (nodes > 1)
        (void)snprintf(others, sizeof(others), " and %zu more", nodes - 1);
    if (n > 0)
        (void)snprintf(where, sizeof(where), "%s%s %s %s", more[0].node, others, nodes > 1 ? "are" : "is",
                       was_there(a, more[0].node) ? "back" : "free");
    err_set(out, "grows from dp %lld to %lld: %s", (long long)a->job->r.spec->dp, (long long)wish->dp, where);
}

/* All spares of a node stand together. */
static void hold_more(struct core *core, struct placement_view *view, struct attempt *a,
                      const struct placed_rank *more, size_t n)
{
    placement_view_take(view, more, n, a->job->r.spec->memory);
    spares_add(core, a, more, n);
    if (a->r.n_spares > 0)
        qsort(a->r.spares, a->r.n_spares, sizeof(*a->r.spares), by_place);
}

static void grow(struct core *core, struct placement_view *view, struct attempt *a,
                 const struct job_spec *wish, const struct placed_rank *ranks)
{
    size_t n;
    struct placed_rank *more = additional(core, a, wish, ranks, &n);
    struct err why;
    say_growth(a, wish, more, n, &why);
    hold_more(core, view, a, more, n);
    attempt_stop(core, a, OUTCOME_RESIZED, why.text);
    free(more);
}

static void ask(struct core *core, struct attempt *a, const struct job_spec *wish)
{
    struct err cause;
    err_set(&cause, "there is room for dp %lld", (long long)wish->dp);
    saving_ask(core, a, cause.text);
    a->job->grow.request = a->r.checkpoint_request;
}

static void give_up(struct core *core, struct attempt *a, const char *why)
{
    struct job *job = a->job;
    struct err text;
    if (job->grow.request == 0)
        return;
    job->grow.request = 0;
    job->grow.again_mono_ms = core->t.mono_ms + job->r.spec->regrow_ms;
    err_set(&text, "stays at dp %lld for now: %s", (long long)job->r.spec->dp, why);
    note(core, a, "not_grown", text.text);
}

/* Room for more ranks than it has: where they would be (fresh array), with the size in wish; or NULL. */
static struct placed_rank *find_room(struct placement_view *view, const struct attempt *a,
                                     struct job_spec *wish)
{
    struct err ignored;
    enum placement_result result;
    int64_t memory = wish->memory, least = job_dp_at_least(wish, wish->dp + 1);
    placement_view_give(view, a->r.placement, a->r.world, memory);
    placement_view_give(view, a->r.spares, a->r.n_spares, memory);
    struct placed_rank *ranks = elastic_seat(view, wish, &a->r, least, INT64_MAX, &result, &ignored);
    placement_view_take(view, a->r.placement, a->r.world, memory);
    placement_view_take(view, a->r.spares, a->r.n_spares, memory);
    return ranks;
}

static bool answered(const struct attempt *a)
{
    return a->job->grow.request != 0 && !a->r.save.waiting;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* When it has run, and there has been room, for long enough. */
static int64_t worth_it(const struct core *core, const struct attempt *a)
{
    const struct job *job = a->job;
    int64_t regrow = job->r.spec->regrow_ms, settled = core->config.grow_after_ms;
    if (job->grow.since_mono_ms == INT64_MAX || !a->r.checkpoint_on)
        return INT64_MAX;
    int64_t room = job->grow.since_mono_ms + (settled < regrow ? settled : regrow);
    int64_t run = a->r.running_ms + later(regrow, SAVES_WORTH * job->longest_save_ms);
    return later(later(room, core_mono_of(core, run)), job->grow.again_mono_ms);
}

static void consider(struct core *core, struct placement_view *view, const struct job *head,
                     struct attempt *a)
{
    struct job *job = a->job;
    struct job_spec wish = *job->r.spec;
    struct placed_rank *ranks = head ? NULL : find_room(view, a, &wish);
    if (!ranks) {
        job->grow.since_mono_ms = INT64_MAX;
        give_up(core, a, head ? "another job waits for slots" : "the room was taken meanwhile");
        return;
    }
    if (job->grow.since_mono_ms == INT64_MAX)
        job->grow.since_mono_ms = core->t.mono_ms;
    if (answered(a) && a->r.save.step >= 0)
        grow(core, view, a, &wish, ranks);
    else if (answered(a))
        give_up(core, a, a->r.save.answer);
    else if (job->grow.request == 0 && worth_it(core, a) <= core->t.mono_ms)
        ask(core, a, &wish);
    free(ranks);
}

static bool below_largest(const struct job *job)
{
    const struct attempt *a = job->current;
    return a && a->r.state == ATTEMPT_RUNNING && job_elastic(job->r.spec) &&
           job->r.spec->dp < largest(job->r.spec);
}

/* Not when it is about to stop or to move. */
static bool at_ease(const struct job *job)
{
    const struct attempt *a = job->current;
    for (size_t i = 0; i < a->r.n_nodes; i++)
        if (!node_usable(a->seats[i].node))
            return false;
    return !job_stop_wanted(job) && a->r.save.then == OUTCOME_NONE;
}

void elastic_look_after(struct core *core, struct placement_view *view, const struct job *head)
{
    int looks = 0;
    for (size_t i = 0; core->any_elastic && core->settled && i < core->jobs.count; i++) {
        struct job *job = core->jobs.items[i];
        uint64_t version = core->fit_version + core->hold_version;
        if (job->grow.version == version || !below_largest(job) || !at_ease(job))
            continue;
        if (looks++ == LOOKS_MAX) {
            core->more_to_try = true;
            break;
        }
        job->grow.version = version;
        consider(core, view, head, job->current);
        job_rearm(core, job);
    }
}

void elastic_examine(struct core *core, struct attempt *a)
{
    struct job *job = a->job;
    if (a != job->current || !answered(a))
        return;
    job->grow.version = ELASTIC_LOOK;
    core->schedule_dirty = true;
}

int64_t elastic_due(const struct core *core, const struct job *job)
{
    if (!below_largest(job) || job->grow.version == ELASTIC_LOOK)
        return INT64_MAX;
    return job->grow.request != 0 ? INT64_MAX : worth_it(core, job->current);
}

void elastic_expire(struct core *core, struct job *job)
{
    if (elastic_due(core, job) > core->t.mono_ms)
        return;
    job->grow.version = ELASTIC_LOOK;
    core->schedule_dirty = true;
}
