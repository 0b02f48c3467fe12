/* measure: what the simulation comes to. Levels (devices held, doing useful steps, out) are integrated from event to event; an event
 * at the end of each point of the series closes it, so that no interval crosses one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "daemon/core/explain.h"
#include "sim/sim_private.h"

static void advance(struct level *level, double ms)
{
    level->total += level->value * ms;
}

void measure_advance(struct sim *sim, int64_t to_ms)
{
    double ms = (double)(to_ms - sim->now_ms);
    if (ms <= 0)
        return;
    advance(&sim->held, ms);
    advance(&sim->useful, ms);
    advance(&sim->down, ms);
    advance(&sim->spare, ms);
    if (sim->n_points == sim->options->points)
        return;
    struct sim_point *p = &sim->points[sim->n_points];
    p->held += sim->held.value * ms;
    p->useful += sim->useful.value * ms;
    p->down += sim->down.value * ms;
}

void measure_hold(struct sim *sim, struct vnode *node, int64_t slots)
{
    node->held += slots;
    sim->racks[node->rack].held += slots;
    sim->held.value += (double)slots;
}

static int64_t free_slots(const struct sim *sim, const struct vnode *node)
{
    bool out = node->crashed || node->cut > 0 || node->broken;
    return out ? 0 : core_node_free_slots(sim->core, node->spec->name);
}

static void mark_racks(const struct sim *sim)
{
    for (size_t i = 0; i < sim->n_racks; i++)
        sim->racks[i].used = false;
    for (size_t i = 0; i < sim->n_nodes; i++)
        if (core_node_free_slots(sim->core, sim->nodes[i].spec->name) < sim->nodes[i].spec->slots)
            sim->racks[sim->nodes[i].rack].used = true;
}

/* Free devices that no whole node, no whole rack offers. */
static void measure_torn(const struct sim *sim, struct sim_point *p)
{
    double all = 0, nodes = 0, racks = 0;
    mark_racks(sim);
    for (size_t i = 0; i < sim->n_nodes; i++) {
        const struct vnode *node = &sim->nodes[i];
        int64_t n = free_slots(sim, node);
        all += (double)n;
        nodes += n < node->spec->slots ? (double)n : 0;
        racks += sim->racks[node->rack].used ? (double)n : 0;
    }
    p->torn_nodes = all > 0 ? nodes / all : 0;
    p->torn_racks = all > 0 ? racks / all : 0;
}

void measure_point(struct sim *sim)
{
    struct sim_point *p = &sim->points[sim->n_points];
    double all = (double)sim->devices * (double)sim->end_ms / (double)sim->options->points;
    measure_torn(sim, p);
    p->held /= all;
    p->useful /= all;
    p->down /= all;
    sim->n_points++;
    int64_t next =
        (int64_t)((double)sim->end_ms * (double)(sim->n_points + 1) / (double)sim->options->points);
    if (sim->n_points < sim->options->points)
        sim_later(sim, next - sim->now_ms, EVENT_POINT, 0, 0);
}

/* ---- results ---- */

static int64_t since_begin(int64_t utc_ms)
{
    return utc_ms > 0 ? utc_ms - SIM_UTC_MS : -1;
}

static void account(struct sim_time *t, const struct vjob *job, const struct job_record *r, int64_t wall_ms,
                    int64_t end_ms)
{
    t->useful = (int64_t)job->useful;
    t->stalled = (int64_t)job->stalled;
    t->slowed = (int64_t)job->slowed;
    t->lost = r->lost;
    if (r->state == JOB_RESTARTING && job->idle_ms >= 0)
        t->lost.place += end_ms - job->idle_ms; /* it waits: the core books that when it is over */
    const struct lost_time *l = &t->lost;
    t->other =
        wall_ms - t->useful - t->stalled - t->slowed - l->detect - l->stop - l->place - l->load - l->replay;
}

/* Can it start at all? Jobs of one entry ask for the same, so the first that waits is asked for. */
static bool can_never_start(struct sim *sim, const struct vjob *job)
{
    struct verdict v;
    bool never = explain_job(sim->core, sim_time_now(sim), job->id, &v) == 0 && v.kind == VERDICT_NEVER;
    verdict_clear(&v);
    return never;
}

static void find_never(struct sim *sim, struct sim_result *out)
{
    enum { NOT_ASKED, NEVER, SOME_DAY } *known = mem_zero(sim->sc->n_jobs + 1, sizeof(*known));
    for (size_t i = 0; i < out->n_jobs; i++) {
        struct sim_job *j = &out->jobs[i];
        if (j->started_ms >= 0 || j->state != JOB_PENDING)
            continue;
        if (known[j->entry] == NOT_ASKED)
            known[j->entry] = can_never_start(sim, sim->jobs[i]) ? NEVER : SOME_DAY;
        j->never_fits = known[j->entry] == NEVER;
        out->never_fit += j->never_fits;
    }
    free(known);
}

static void fill_job(const struct sim *sim, const struct vjob *job, struct sim_job *out)
{
    const struct job_record *r = core_job(sim->core, job->id);
    *out = (struct sim_job){.id = job->id, .entry = job->entry, .state = r->state};
    out->ranks = sim->sc->jobs[job->entry].spec->ranks;
    memcpy(out->name, r->spec->name, sizeof(out->name));
    out->reason = str_dup(r->reason);
    out->attempts = r->attempt;
    out->interrupted = job->interrupted;
    out->spares = job->n_spares;
    out->submitted_ms = since_begin(r->submitted_ms);
    out->started_ms = since_begin(r->started_ms);
    out->ended_ms = since_begin(r->ended_ms);
    out->step = job->high;
    out->steps = job->steps;
    out->ettr = (double)NAN;
    if (out->started_ms < 0)
        return;
    out->wall_ms = (out->ended_ms >= 0 ? out->ended_ms : sim->end_ms) - out->started_ms;
    account(&out->time, job, r, out->wall_ms, sim->end_ms);
    if (out->wall_ms > 0)
        out->ettr = job->useful / (double)out->wall_ms;
}

static void add_time(struct sim_time *to, const struct sim_time *t, int64_t ranks)
{
    to->useful += t->useful * ranks;
    to->stalled += t->stalled * ranks;
    to->slowed += t->slowed * ranks;
    to->other += t->other * ranks;
    to->lost.detect += t->lost.detect * ranks;
    to->lost.stop += t->lost.stop * ranks;
    to->lost.place += t->lost.place * ranks;
    to->lost.load += t->lost.load * ranks;
    to->lost.replay += t->lost.replay * ranks;
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static void measure_waits(struct sim_result *out)
{
    double *waits = mem_zero(out->n_jobs + 1, sizeof(*waits)), sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < out->n_jobs; i++) {
        const struct sim_job *j = &out->jobs[i];
        if (j->started_ms < 0)
            out->wait.still += j->state != JOB_CANCELLED;
        else
            sum += waits[n++] = (double)(j->started_ms - j->submitted_ms);
    }
    qsort(waits, n, sizeof(*waits), by_value);
    out->wait.n = n;
    if (n > 0) {
        out->wait.mean_ms = sum / (double)n;
        out->wait.p50_ms = waits[(n - 1) / 2];
        out->wait.p95_ms = waits[(size_t)ceil(0.95 * (double)n) - 1];
        out->wait.max_ms = waits[n - 1];
    }
    free(waits);
}

static void measure_largest(struct sim_result *out)
{
    const struct sim_job *largest = NULL;
    for (size_t i = 0; i < out->n_jobs; i++)
        if (out->jobs[i].wall_ms > 0 && (!largest || out->jobs[i].ranks > largest->ranks))
            largest = &out->jobs[i];
    if (!largest || largest->interrupted == 0)
        return;
    const struct lost_time *l = &largest->time.lost;
    out->mttf_ms = largest->wall_ms / largest->interrupted;
    out->recovery_ms = (l->detect + l->stop + l->place + l->load) / largest->interrupted;
}

static void measure_jobs(struct sim *sim, struct sim_result *out)
{
    out->n_jobs = sim->n_jobs;
    out->jobs = mem_zero(sim->n_jobs + 1, sizeof(*out->jobs));
    for (size_t i = 0; i < sim->n_jobs; i++) {
        struct sim_job *j = &out->jobs[i];
        runs_settle(sim, sim->jobs[i]);
        fill_job(sim, sim->jobs[i], j);
        add_time(&out->device_ms, &j->time, j->ranks);
        out->wall_device_ms += j->wall_ms * j->ranks;
    }
    out->ettr =
        out->wall_device_ms > 0 ? (double)out->device_ms.useful / (double)out->wall_device_ms : (double)NAN;
}

void measure_results(struct sim *sim, struct sim_result *out)
{
    double all = (double)sim->devices * (double)sim->end_ms;
    out->span_ms = sim->end_ms;
    out->devices = sim->devices;
    out->nodes = (int64_t)sim->n_nodes;
    out->events = sim->events;
    memcpy(out->faults, sim->faults, sizeof(out->faults));
    measure_jobs(sim, out);
    find_never(sim, out);
    measure_waits(out);
    measure_largest(out);
    out->utilisation = sim->held.total / all;
    out->goodput = (double)out->device_ms.useful / all;
    out->down = sim->down.total / all;
    out->spare = sim->spare.total / all;
    out->yield = out->wall_device_ms > 0
                     ? (double)out->device_ms.useful / ((double)out->wall_device_ms + sim->spare.total)
                     : (double)NAN;
    out->points = sim->points;
    out->n_points = sim->n_points;
    sim->points = NULL;
    for (size_t i = 0; i < out->n_points; i++) {
        out->torn_nodes += out->points[i].torn_nodes / (double)out->n_points;
        out->torn_racks += out->points[i].torn_racks / (double)out->n_points;
    }
}

void sim_result_clear(struct sim_result *result)
{
    for (size_t i = 0; i < result->n_jobs; i++)
        free(result->jobs[i].reason);
    free(result->jobs);
    free(result->points);
    *result = (struct sim_result){.jobs = NULL};
}
