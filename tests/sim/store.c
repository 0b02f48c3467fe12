/* store: what was committed, as deep copies: the core that is loaded from it after a kill has nothing else. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/sim/cell.h"

struct agent *cell_agent(struct cell *c, const char *name)
{
    for (size_t i = 0; i < c->n_agents; i++)
        if (strcmp(c->agents[i].name, name) == 0)
            return &c->agents[i];
    cell_fail(c, "the core speaks of a node %s, which there is not", name);
}

struct stored_attempt *store_attempt(struct cell *c, int64_t job, int64_t number)
{
    for (size_t i = c->n_attempts; i > 0; i--)
        if (c->attempts[i - 1].r.job == job && c->attempts[i - 1].r.number == number)
            return &c->attempts[i - 1];
    return NULL;
}

/* ---- copies ---- */

static void drop_job(struct job_record *r)
{
    free(r->key);
    free(r->user);
    free(r->cwd);
    free(r->yaml);
    free(r->reason);
    *r = (struct job_record){.reason = NULL};
}

static void copy_job(struct job_record *to, const struct job_record *from)
{
    drop_job(to);
    *to = *from;
    to->key = str_dup(from->key);
    to->user = str_dup(from->user);
    to->cwd = str_dup(from->cwd);
    to->yaml = str_dup(from->yaml);
    to->reason = str_dup(from->reason);
    to->spec = NULL;
}

static void drop_attempt(struct attempt_record *r)
{
    for (size_t i = 0; i < r->n_nodes; i++)
        link_report_clear(&r->nodes[i].report);
    free(r->nodes);
    free(r->placement);
    free(r->spares);
    free(r->reason);
    *r = (struct attempt_record){.reason = NULL};
}

static struct placed_rank *copy_ranks(const struct placed_rank *from, size_t n)
{
    struct placed_rank *to = mem_zero(n + 1, sizeof(*to));
    if (n > 0)
        memcpy(to, from, n * sizeof(*to));
    return to;
}

static void copy_attempt(struct attempt_record *to, const struct attempt_record *from)
{
    drop_attempt(to);
    *to = *from;
    to->reason = str_dup(from->reason);
    to->placement = copy_ranks(from->placement, from->world);
    to->spares = copy_ranks(from->spares, from->n_spares);
    to->nodes = mem_zero(from->n_nodes + 1, sizeof(*to->nodes));
    for (size_t i = 0; i < from->n_nodes; i++) {
        to->nodes[i] = from->nodes[i];
        to->nodes[i].report.ranks = NULL;
        link_report_copy(&to->nodes[i].report, &from->nodes[i].report);
    }
}

static void drop_node(struct node_record *r)
{
    free(r->reason);
    link_inventory_clear(&r->inventory);
    *r = (struct node_record){.reason = NULL};
}

static void copy_node(struct node_record *to, const struct node_record *from)
{
    drop_node(to);
    *to = *from;
    to->reason = str_dup(from->reason);
    to->inventory.gpus = NULL;
    to->inventory.n_gpus = 0;
}

/* ---- commit ---- */

/* Progress may be written later, and is lost when the controller is killed before. */
static void commit_job(struct cell *c, const struct job_record *r, bool only_progress)
{
    if (r->id < 1 || r->id > JOBS_MAX)
        cell_fail(c, "the core invented job %lld", (long long)r->id);
    struct job_record *stored = &c->jobs[r->id];
    if (only_progress && stored->id && cell_chance(c, 500))
        return;
    copy_job(stored, r);
}

static void commit_attempt(struct cell *c, const struct attempt_record *r)
{
    struct stored_attempt *stored = store_attempt(c, r->job, r->number);
    bool first = stored == NULL, was_ended = stored && stored->r.state == ATTEMPT_ENDED;
    if (first) {
        c->attempts = mem_one_more(c->attempts, c->n_attempts, &c->attempts_room, sizeof(*c->attempts));
        stored = &c->attempts[c->n_attempts++];
        *stored = (struct stored_attempt){.r = {.reason = NULL}};
    }
    if (was_ended && r->state != ATTEMPT_ENDED)
        cell_fail(c, "attempt %lld.%lld had ended and is %s again", (long long)r->job, (long long)r->number,
                  attempt_state_name(r->state));
    if (r->world == 0)
        cell_fail(c, "attempt %lld.%lld is committed without its details", (long long)r->job,
                  (long long)r->number);
    copy_attempt(&stored->r, r);
    if (first)
        check_new_attempt(c, &stored->r);
    if (!was_ended && r->state == ATTEMPT_ENDED)
        check_ended_attempt(c, &stored->r);
}

static void commit_node(struct cell *c, const struct node_record *r)
{
    size_t i = cell_agent(c, r->name)->index;
    copy_node(&c->nodes[i], r);
    c->down[i] = c->down[i] || r->state == NODE_DOWN;
}

static void commit_events(struct cell *c, const struct core_changes *changes)
{
    for (size_t i = 0; i < changes->n_events; i++) {
        const struct event_record *e = &changes->events[i];
        if (e->id != c->next_event++)
            cell_fail(c, "event %lld comes where %lld is due", (long long)e->id,
                      (long long)c->next_event - 1);
        if (e->text[0] == '\0')
            cell_fail(c, "an event (%s) says nothing", e->kind);
        cell_note(c, "  [%s] %s", e->kind, e->text);
    }
}

static void commit_checkpoints(struct cell *c, const struct core_changes *changes)
{
    for (size_t i = 0; i < changes->n_checkpoints; i++) {
        c->checkpoints =
            mem_one_more(c->checkpoints, c->n_checkpoints, &c->checkpoints_room, sizeof(*c->checkpoints));
        c->checkpoints[c->n_checkpoints] = changes->checkpoints[i];
        c->checkpoints[c->n_checkpoints++].path = NULL; /* virtual jobs name none */
    }
}

void store_commit(struct cell *c)
{
    const struct core_changes *changes = core_changes(c->core);
    commit_events(c, changes);
    for (size_t i = 0; i < changes->n_nodes; i++)
        commit_node(c, changes->nodes[i]);
    for (size_t i = 0; i < changes->n_jobs; i++)
        commit_job(c, changes->jobs[i], changes->jobs_progress_only[i]);
    for (size_t i = 0; i < changes->n_attempts; i++)
        commit_attempt(c, changes->attempts[i]);
    commit_checkpoints(c, changes);
    c->next_job = changes->next_job;
    if (c->next_event != changes->next_event)
        cell_fail(c, "the next event is %lld by the core, %lld by the events", (long long)changes->next_event,
                  (long long)c->next_event);
}

/* ---- loading ---- */

static struct job_spec *read_spec(struct cell *c, const char *yaml)
{
    struct job_diagnostics *d = mem_zero(1, sizeof(*d));
    struct job_spec *spec = NULL;
    if (job_spec_parse_plan(yaml, strlen(yaml), "stored", NULL, 0, &spec, d) != 0)
        cell_fail(c, "a stored job does not read back: %s", d->text[0]);
    free(d);
    return spec;
}

void store_load(struct cell *c)
{
    for (size_t i = 0; i < c->n_agents; i++) {
        struct node_record node = {.reason = NULL};
        if (c->nodes[i].name[0] == '\0')
            continue;
        copy_node(&node, &c->nodes[i]);
        core_load_node(c->core, &node);
    }
    for (int64_t id = 1; id < c->next_job; id++) {
        struct job_record job = {.reason = NULL};
        copy_job(&job, &c->jobs[id]);
        job.spec = read_spec(c, job.yaml);
        core_load_job(c->core, &job);
    }
    for (size_t i = 0; i < c->n_attempts; i++) {
        struct attempt_record a = {.reason = NULL};
        copy_attempt(&a, &c->attempts[i].r);
        core_load_attempt(c->core, &a);
    }
    for (size_t i = 0; i < c->n_checkpoints; i++)
        core_load_checkpoint(c->core, &c->checkpoints[i]);
    core_load_next_ids(c->core, c->next_job, c->next_event);
}

void store_free(struct cell *c)
{
    for (size_t i = 0; i <= JOBS_MAX; i++)
        drop_job(&c->jobs[i]);
    for (size_t i = 0; i < c->n_attempts; i++)
        drop_attempt(&c->attempts[i].r);
    for (size_t i = 0; i < AGENTS_MAX; i++)
        drop_node(&c->nodes[i]);
    free(c->attempts);
    free(c->checkpoints);
}
