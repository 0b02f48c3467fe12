/* attempts: one try of a job on certain slots, from the order to prepare until nothing of it is left anywhere.
 *
 * Gang start: `go` is ordered only when every seat is ready. Whatever ends an attempt early goes through attempt_stop; the job hears
 * of the end only once every seat is over, so that never two attempts of a job run. Its slots stay taken until then. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"
#include "daemon/core/core_private.h"
#include "daemon/core/recovery.h"

enum { LAUNCH_PATIENCE = 4 }; /* times prepare_timeout_ms from `go` until all ranks run */

static struct event_of of_attempt(const struct attempt *a, const char *kind)
{
    return (struct event_of){.kind = kind, .job = a->r.job, .attempt = a->r.number, .rank = -1};
}

static struct attempt *make(struct job *job)
{
    struct attempt *a = mem_zero(1, sizeof(*a));
    a->job = job;
    a->due_mono_ms = INT64_MAX;
    a->speaker = a->last_durable = a->staged_step = a->staged_ms = a->memory_step = -1;
    job->attempts = mem_grow(job->attempts, job->n_attempts + 1, sizeof(struct attempt *));
    job->attempts[job->n_attempts++] = a;
    return a;
}

static void make_token(struct core *core, char token[33])
{
    (void)snprintf(token, 33, "%016llx%016llx", (unsigned long long)core_random(core),
                   (unsigned long long)core_random(core));
}

static void take_slots(struct core *core, struct attempt *a)
{
    a->job->current = a;
    attempt_hold(core, a);
    for (size_t i = 0; i < a->r.n_nodes; i++)
        node_host(core, a->seats[i].node, a, i);
}

static void announce(struct core *core, struct attempt *a)
{
    const char *first = a->r.nodes[0].node, *last = a->r.nodes[a->r.n_nodes - 1].node;
    bool one = a->r.n_nodes == 1;
    event_note(core, of_attempt(a, "placed"), "attempt %lld: %zu rank%s on %s%s%s", (long long)a->r.number,
               a->r.world, a->r.world == 1 ? "" : "s", first,
               one                 ? ""
               : a->r.n_nodes == 2 ? " and "
                                   : " to ",
               one ? "" : last);
}

static void drop_map(struct attempt *a)
{
    link_map_free(a->map, a->r.n_nodes);
    a->map = NULL;
}

/* Placement and reports: megabytes in a large job. */
static void drop_details(struct attempt *a)
{
    drop_map(a);
    for (size_t i = 0; i < a->r.n_nodes; i++)
        link_report_clear(&a->r.nodes[i].report);
    free(a->r.nodes);
    free(a->r.placement);
    free(a->r.spares);
    free(a->seats);
    free(a->by_seat);
    a->r.nodes = NULL;
    a->r.placement = a->r.spares = NULL;
    a->seats = NULL;
    a->by_seat = NULL;
    a->r.n_nodes = a->r.world = a->r.n_spares = 0;
}

/* A job that restarts for weeks would fill the memory with attempts nobody asks about. */
static void trim_attempts(struct job *job)
{
    for (size_t i = 0; i + ATTEMPTS_DETAILED < job->n_attempts; i++) {
        struct attempt *a = job->attempts[i];
        if (a->r.state == ATTEMPT_ENDED && !a->dirty && !a->examine && a != job->kept)
            drop_details(a);
    }
}

struct attempt *attempt_new(struct core *core, struct job *job, struct placed_rank *placement,
                            struct placed_rank *spares, size_t n_spares)
{
    keep_end(core, job);
    struct attempt *a = make(job);
    a->r.job = job->r.id;
    a->r.number = ++job->r.attempt;
    a->r.reason = str_dup("");
    a->r.placement = placement;
    a->r.world = (size_t)job->r.spec->ranks;
    a->r.spares = spares;
    a->r.n_spares = n_spares;
    a->r.created_ms = core->t.now_ms;
    a->r.from_step = job->r.progress.checkpoint_step;
    a->memory_step = job->r.progress.memory_step;
    a->r.to_step = a->r.save.step = -1;
    a->due_mono_ms = core->t.mono_ms + core->config.prepare_timeout_ms;
    make_token(core, a->r.token);
    attempt_seats(core, a);
    lost_carry(core, a);
    take_slots(core, a);
    mark_attempt(core, a);
    mark_all_orders(core, a);
    announce(core, a);
    trim_attempts(job);
    return a;
}

/* Steps are stored with the job, not with each attempt each time. */
static void load_live(struct core *core, struct attempt *a)
{
    if (a->r.to_step >= 0 && a->job->r.progress.step > a->r.to_step)
        a->r.to_step = a->job->r.progress.step;
    take_slots(core, a);
    if (a->r.state == ATTEMPT_PREPARING)
        a->due_mono_ms = core->t.mono_ms + core->config.settle_ms + core->config.prepare_timeout_ms;
    if (a->r.state == ATTEMPT_LAUNCHING)
        a->go_ms = core->t.now_ms;
    if (a->r.state == ATTEMPT_LAUNCHING)
        a->due_mono_ms =
            core->t.mono_ms + core->config.settle_ms + LAUNCH_PATIENCE * core->config.prepare_timeout_ms;
    a->asked_mono_ms = core->t.mono_ms;
    mark_all_orders(core, a);
    attempt_examine_later(core, a);
}

/* A node that could not prepare a job is left alone by it for a while, longer each time in a row. */
static void avoid(struct core *core, struct job *job, struct node *node, int64_t from_ms)
{
    int64_t pause = RECOVERY_AVOID_MS;
    for (size_t i = 0; i < job->failed_prepares && pause < RECOVERY_BACKOFF_MAX_MS; i++)
        pause *= 2;
    int64_t until = core_mono_of(core, from_ms + pause);
    if (until <= core->t.mono_ms)
        return;
    job->avoided = mem_grow(job->avoided, job->n_avoided + 1, sizeof(*job->avoided));
    job->avoided[job->n_avoided++] = (struct avoided){.node = node, .until_mono_ms = until};
}

/* Refusals are in the stored reports, so a restart of the controller does not send the job to the same node again. */
static void remember_refusals(struct core *core, struct attempt *a)
{
    if (a->r.running_ms > 0)
        a->job->failed_prepares = 0;
    for (size_t i = 0; i < a->r.n_nodes; i++)
        if (a->r.outcome == OUTCOME_NODE && a->r.nodes[i].report.phase == REPORT_REFUSED &&
            a->r.nodes[i].reported)
            avoid(core, a->job, a->seats[i].node, a->r.failed_ms);
}

/* What is stored of an elastic job is its range: its size is that of its newest attempt. */
static void load_size(struct job *job, const struct attempt_record *a)
{
    struct job_spec *spec = job->r.spec;
    if (job_elastic(spec) && a->world > 0)
        job_resize(spec, (int64_t)a->world / (spec->tp * spec->pp * spec->cp));
}

void attempt_load(struct core *core, struct job *job, struct attempt_record *record)
{
    struct attempt *a = make(job);
    a->r = *record;
    load_size(job, &a->r);
    a->speaker = a->r.to_step >= 0 ? (int64_t)a->r.world : -1;
    attempt_seats(core, a);
    remember_refusals(core, a);
    if (a->r.state != ATTEMPT_ENDED)
        load_live(core, a);
    bool this_life = job->r.started_ms > 0 && (a->r.ended_ms == 0 || a->r.ended_ms >= job->r.started_ms);
    if (this_life && a->r.to_step > job->high_step)
        job->high_step = a->r.to_step;
    trim_attempts(job);
    job_rearm(core, job);
}

void attempt_free(struct attempt *a)
{
    drop_details(a);
    free(a->r.reason);
    free(a);
}

/* Numbers grow by one, but an old store may lack some: so from the back, where the wanted one nearly always is. */
struct attempt *attempt_find(const struct job *job, int64_t number)
{
    for (size_t i = job->n_attempts; i > 0; i--)
        if (job->attempts[i - 1]->r.number == number)
            return job->attempts[i - 1];
    return NULL;
}

void attempt_examine_later(struct core *core, struct attempt *a)
{
    if (a->examine)
        return;
    a->examine = true;
    list_add(&core->examine_attempts, a);
}

bool attempt_kills(const struct attempt *a)
{
    if (a->r.outcome != OUTCOME_FAILED && a->r.outcome != OUTCOME_NODE)
        return false;
    bool connected = a->job->r.spec->is_train;
    for (size_t i = 0; i < a->r.n_nodes && !connected; i++)
        connected = a->seats[i].connected;
    return connected;
}

static void order_go(struct core *core, struct attempt *a)
{
    a->go_ms = core->t.now_ms;
    a->due_mono_ms = core->t.mono_ms + LAUNCH_PATIENCE * core->config.prepare_timeout_ms;
    if (a->job->r.started_ms == 0)
        a->job->r.started_ms = core->t.now_ms;
    a->job->failed_prepares = 0;
    lost_at_go(core, a);
    mark_job(core, a->job);
    job_set_reason(core, a->job, "every node is ready: starting %zu rank%s", a->r.world,
                   a->r.world == 1 ? "" : "s");
    event_note(core, of_attempt(a, "go"), "attempt %lld: every node is ready, ranks start",
               (long long)a->r.number);
}

static void note_running(struct core *core, struct attempt *a)
{
    a->r.running_ms = core->t.now_ms;
    a->due_mono_ms = INT64_MAX;
    event_note(core, of_attempt(a, "running"), "attempt %lld: %s", (long long)a->r.number,
               a->r.world == 1 ? "its rank runs" : "all its ranks run");
    struct err why, size;
    elastic_describe(a->job, &size);
    err_set(&why, "%zu %s on %zu node%s%s", a->r.world, a->r.world == 1 ? "rank runs" : "ranks run",
            a->r.n_nodes, a->r.n_nodes == 1 ? "" : "s", size.text);
    job_event(core, a->job, JOB_RAN, why.text);
}

static void send_stop(struct core *core, struct attempt *a)
{
    a->r.failed_ms = core->t.now_ms;
    a->due_mono_ms = INT64_MAX;
    lost_at_stop(core, a);
    event_note(core, of_attempt(a, "stopping"), "attempt %lld is stopped: %s", (long long)a->r.number,
               a->r.reason);
    if (!job_stop_wanted(a->job))
        job_event(core, a->job, a->job->r.started_ms > 0 ? JOB_FAULT : JOB_UNPLACED, a->r.reason);
}

static void leave_nodes(struct core *core, struct attempt *a)
{
    for (size_t i = 0; i < a->r.n_nodes; i++)
        node_unhost(core, a->seats[i].node, a, i);
    a->job->current = NULL;
}

static void end(struct core *core, struct attempt *a)
{
    a->r.ended_ms = core->t.now_ms;
    leave_nodes(core, a);
    drop_map(a);
    event_note(core, of_attempt(a, "attempt_ended"), "attempt %lld ended (%s) after %lld.%03lld s",
               (long long)a->r.number, attempt_outcome_name(a->r.outcome),
               (long long)((a->r.ended_ms - a->r.created_ms) / 1000),
               (long long)((a->r.ended_ms - a->r.created_ms) % 1000));
    job_attempt_ended(core, a->job, a);
    keep_slots(core, a->job, a);
}

static void complete(struct core *core, struct attempt *a)
{
    a->r.outcome = OUTCOME_COMPLETED;
    free(a->r.reason);
    a->r.reason = a->r.world == 1 ? str_dup("its rank exited with 0")
                                  : str_printf("all %zu ranks exited with 0", a->r.world);
    end(core, a);
}

static void attempt_event(struct core *core, struct attempt *a, enum attempt_event event)
{
    static void (*const actions[])(struct core *, struct attempt *) = {
        [ATTEMPT_GO] = order_go,       [ATTEMPT_RUNS] = note_running, [ATTEMPT_SEND_STOP] = send_stop,
        [ATTEMPT_COMPLETE] = complete, [ATTEMPT_END] = end,
    };
    struct attempt_row row = machine_attempt(a->r.state, event);
    if (row.action <= ATTEMPT_IGNORE)
        return;
    a->r.state = row.next;
    mark_attempt(core, a);
    mark_all_orders(core, a);
    if (row.next == ATTEMPT_STOPPING || row.next == ATTEMPT_ENDED)
        saving_over(core, a);
    actions[row.action](core, a);
    job_rearm(core, a->job);
}

void attempt_stop(struct core *core, struct attempt *a, enum attempt_outcome outcome, const char *why)
{
    if (a->r.state == ATTEMPT_STOPPING || a->r.state == ATTEMPT_ENDED)
        return;
    a->r.outcome = outcome;
    free(a->r.reason);
    a->r.reason = str_dup(why);
    attempt_event(core, a, ATTEMPT_STOP);
    attempt_examine_later(core, a);
}

void attempt_preempt(struct core *core, struct attempt *a, const char *why)
{
    attempt_stop(core, a, OUTCOME_PREEMPTED, why);
    if (a->r.state != ATTEMPT_STOPPING || a->r.outcome == OUTCOME_PREEMPTED)
        return;
    a->r.outcome = OUTCOME_PREEMPTED;
    free(a->r.reason);
    a->r.reason = str_dup(why);
    mark_attempt(core, a);
    mark_all_orders(core, a);
}

static enum attempt_outcome outcome_of(const struct attempt_facts *f)
{
    /* fenced off, or stopped by a signal that was not ours: nobody's error */
    bool nobody = f->fault_rank && (f->fault_rank->code == 95 || f->fault_rank->code == JOB_EXIT_STOPPED);
    return fault_is_nodes(f) || nobody ? OUTCOME_NODE : OUTCOME_FAILED;
}

static void name_culprit(struct core *core, struct attempt *a, const struct attempt_facts *f, const char *why)
{
    struct event_of of = of_attempt(a, f->fault_rank ? "rank_failed" : "node_fault");
    of.node = a->r.nodes[f->fault_seat].node;
    of.rank = f->fault_rank ? f->fault_rank->rank : -1;
    event_note(core, of, "%s", why);
    if (!f->fault_rank)
        return;
    a->job->r.first_failure_rank = f->fault_rank->rank;
    a->job->r.exit_code = f->fault_rank->signal ? 128 + f->fault_rank->signal : f->fault_rank->code;
    mark_job(core, a->job);
}

static void fail(struct core *core, struct attempt *a, const struct attempt_facts *f)
{
    struct err why;
    fault_describe(a, f, &why);
    name_culprit(core, a, f, why.text);
    if (a->r.state == ATTEMPT_PREPARING || f->fault == FAULT_REFUSED) {
        avoid(core, a->job, a->seats[f->fault_seat].node, core->t.now_ms);
        a->job->failed_prepares++;
    }
    attempt_stop(core, a, outcome_of(f), why.text);
}

static const struct link_rank *rank_in(const struct attempt *a, int64_t rank, size_t *seat)
{
    for (size_t i = 0; i < a->r.n_nodes; i++)
        for (size_t k = 0; k < a->r.nodes[i].report.n_ranks; k++)
            if (a->r.nodes[i].report.ranks[k].rank == rank) {
                *seat = i;
                return &a->r.nodes[i].report.ranks[k];
            }
    return NULL;
}

/* While it stops, reports still come in: one may show that another rank failed first, or that a node was lost, which explains the
 * failing ranks elsewhere. Ranks that the stop killed ended later, so they never take the blame. */
static void refine(struct core *core, struct attempt *a, const struct attempt_facts *f)
{
    if (a->r.outcome != OUTCOME_FAILED || f->fault == FAULT_NONE || f->fault == FAULT_VANISHED)
        return;
    size_t seat = 0;
    const struct link_rank *named = rank_in(a, a->job->r.first_failure_rank, &seat);
    if (!named || (f->fault_rank ? f->fault_rank->ended_ms >= named->ended_ms : f->fault_seat == seat))
        return;
    struct err why;
    fault_describe(a, f, &why);
    name_culprit(core, a, f, why.text);
    a->r.outcome = outcome_of(f);
    free(a->r.reason);
    a->r.reason = str_dup(why.text);
    mark_attempt(core, a);
    mark_all_orders(core, a);
    if (!job_stop_wanted(a->job))
        job_set_reason(core, a->job, "%s", why.text);
}

/* What to tell the table, given the facts; false = nothing. */
static bool next_event(const struct attempt *a, const struct attempt_facts *f, enum attempt_event *event)
{
    *event = a->r.state == ATTEMPT_STOPPING    ? ATTEMPT_ALL_GONE
             : f->finished == f->n             ? ATTEMPT_FINISHED
             : a->r.state == ATTEMPT_PREPARING ? ATTEMPT_ALL_READY
                                               : ATTEMPT_ALL_RUNNING;
    return (*event == ATTEMPT_ALL_GONE && f->over == f->n) || *event == ATTEMPT_FINISHED ||
           (*event == ATTEMPT_ALL_READY && f->ready == f->n) ||
           (*event == ATTEMPT_ALL_RUNNING && f->running == f->n);
}

void attempt_examine(struct core *core, struct attempt *a)
{
    struct attempt_facts f = attempt_gather(a);
    enum attempt_event event;
    if (a->r.state == ATTEMPT_STOPPING)
        refine(core, a, &f);
    else if (a->r.state != ATTEMPT_ENDED && f.fault != FAULT_NONE && !drain_leaves(core, a))
        fail(core, a, &f);
    if (a->r.state != ATTEMPT_ENDED && next_event(a, &f, &event))
        attempt_event(core, a, event);
    drain_examine(core, a);
    saving_examine(core, a);
    elastic_examine(core, a);
}

static bool seat_late(const struct attempt *a, size_t i)
{
    enum report_phase due = a->r.state == ATTEMPT_PREPARING ? REPORT_READY : REPORT_RUNNING;
    return !a->r.nodes[i].reported || a->r.nodes[i].report.phase < due;
}

static size_t count_late(const struct attempt *a, size_t *first)
{
    size_t n = 0;
    *first = 0;
    for (size_t i = a->r.n_nodes; i > 0; i--)
        if (seat_late(a, i - 1)) {
            *first = i - 1;
            n++;
        }
    return n;
}

static void avoid_late(struct core *core, struct attempt *a)
{
    for (size_t i = 0; i < a->r.n_nodes; i++)
        if (seat_late(a, i))
            avoid(core, a->job, a->seats[i].node, core->t.now_ms);
    a->job->failed_prepares++;
}

void attempt_check_deadline(struct core *core, struct attempt *a)
{
    if (core->t.mono_ms < a->due_mono_ms)
        return;
    bool preparing = a->r.state == ATTEMPT_PREPARING;
    size_t first, late = count_late(a, &first);
    char others[32] = "";
    if (late > 1)
        (void)snprintf(others, sizeof(others), " and %zu more", late - 1);
    struct err why;
    err_set(&why, "%s%s %s in time", a->r.nodes[first].node, others,
            preparing ? "did not get ready" : "did not report that its ranks run");
    struct event_of of = of_attempt(a, "node_fault");
    of.node = a->r.nodes[first].node;
    event_note(core, of, "%s", why.text);
    if (preparing)
        avoid_late(core, a);
    attempt_stop(core, a, OUTCOME_NODE, why.text);
}
