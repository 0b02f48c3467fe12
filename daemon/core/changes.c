/* changes: which records changed, and the events of this turn.
 *
 * A record is listed once however often it changes (its dirty flag says so); clearing costs what was listed, not what there is. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "daemon/core/core_private.h"

void list_add(struct list *list, void *item)
{
    list->items = mem_one_more(list->items, list->count, &list->room, sizeof(void *));
    list->items[list->count++] = item;
}

void mark_job_progress(struct core *core, struct job *job)
{
    if (job->dirty)
        return;
    job->dirty = true;
    job->progress_only = true;
    job->r.rev++;
    list_add(&core->changed_jobs, job);
}

void mark_job(struct core *core, struct job *job)
{
    mark_job_progress(core, job);
    job->progress_only = false;
}

void mark_attempt(struct core *core, struct attempt *attempt)
{
    if (attempt->dirty)
        return;
    attempt->dirty = true;
    list_add(&core->changed_attempts, attempt);
}

void mark_node(struct core *core, struct node *node)
{
    if (node->dirty)
        return;
    node->dirty = true;
    list_add(&core->changed_nodes, node);
}

void mark_orders(struct core *core, struct node *node)
{
    if (node->orders_dirty)
        return;
    node->orders_dirty = true;
    list_add(&core->order_nodes, node);
}

void mark_all_orders(struct core *core, struct attempt *attempt)
{
    for (size_t i = 0; i < attempt->r.n_nodes; i++)
        mark_orders(core, attempt->seats[i].node);
}

static void copy_name(char *to, size_t size, const char *from)
{
    size_t n = strnlen(from, size - 1);
    memcpy(to, from, n);
    to[n] = '\0';
}

void event_note(struct core *core, struct event_of of, const char *fmt, ...)
{
    core->events = mem_one_more(core->events, core->n_events, &core->events_room, sizeof(*core->events));
    struct event_record *e = &core->events[core->n_events++];
    *e = (struct event_record){.id = core->next_event++, .time_ms = core->t.now_ms};
    e->job = of.job;
    e->attempt = of.attempt;
    e->rank = of.rank;
    copy_name(e->kind, sizeof(e->kind), of.kind);
    copy_name(e->node, sizeof(e->node), of.node ? of.node : "");
    va_list args;
    va_start(args, fmt);
    e->text = str_vprintf(fmt, args);
    va_end(args);
}

void checkpoint_add(struct core *core, const struct checkpoint_record *checkpoint)
{
    core->checkpoints = mem_one_more(core->checkpoints, core->n_checkpoints, &core->checkpoints_room,
                                     sizeof(*core->checkpoints));
    struct checkpoint_record *c = &core->checkpoints[core->n_checkpoints++];
    *c = *checkpoint;
    c->path = str_dup(checkpoint->path);
}

void job_set_reason(struct core *core, struct job *job, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *text = str_vprintf(fmt, args);
    va_end(args);
    if (strcmp(text, job->r.reason) == 0) {
        free(text);
        return;
    }
    free(job->r.reason);
    job->r.reason = text;
    mark_job(core, job);
}

static void fill_arrays(struct core *core)
{
    core->order_names = mem_grow(core->order_names, core->order_nodes.count + 1, sizeof(char *));
    for (size_t i = 0; i < core->order_nodes.count; i++)
        core->order_names[i] = ((struct node *)core->order_nodes.items[i])->r.name;
    core->progress_only = mem_grow(core->progress_only, core->changed_jobs.count + 1, sizeof(bool));
    for (size_t i = 0; i < core->changed_jobs.count; i++)
        core->progress_only[i] = ((struct job *)core->changed_jobs.items[i])->progress_only;
}

/* The record is the first member of its object, so the lists of objects serve as lists of records. */
const struct core_changes *core_changes(struct core *core)
{
    fill_arrays(core);
    core->changes = (struct core_changes){
        .jobs = (const struct job_record *const *)core->changed_jobs.items,
        .n_jobs = core->changed_jobs.count,
        .attempts = (const struct attempt_record *const *)core->changed_attempts.items,
        .n_attempts = core->changed_attempts.count,
        .nodes = (const struct node_record *const *)core->changed_nodes.items,
        .n_nodes = core->changed_nodes.count,
        .events = core->events,
        .n_events = core->n_events,
        .checkpoints = core->checkpoints,
        .n_checkpoints = core->n_checkpoints,
        .order_nodes = core->order_names,
        .n_order_nodes = core->order_nodes.count,
        .next_job = core->next_job,
        .next_event = core->next_event,
        .jobs_progress_only = core->progress_only,
    };
    return &core->changes;
}

void core_changes_clear(struct core *core)
{
    for (size_t i = 0; i < core->changed_jobs.count; i++)
        ((struct job *)core->changed_jobs.items[i])->dirty = false;
    for (size_t i = 0; i < core->changed_attempts.count; i++)
        ((struct attempt *)core->changed_attempts.items[i])->dirty = false;
    for (size_t i = 0; i < core->changed_nodes.count; i++)
        ((struct node *)core->changed_nodes.items[i])->dirty = false;
    for (size_t i = 0; i < core->order_nodes.count; i++)
        ((struct node *)core->order_nodes.items[i])->orders_dirty = false;
    for (size_t i = 0; i < core->n_events; i++)
        free(core->events[i].text);
    for (size_t i = 0; i < core->n_checkpoints; i++)
        free(core->checkpoints[i].path);
    core->changed_jobs.count = core->changed_attempts.count = core->changed_nodes.count =
        core->order_nodes.count = 0;
    core->n_events = core->n_checkpoints = 0;
}

void changes_free(struct core *core)
{
    core_changes_clear(core);
    free(core->changed_jobs.items);
    free(core->changed_attempts.items);
    free(core->changed_nodes.items);
    free(core->order_nodes.items);
    free(core->events);
    free(core->checkpoints);
    free(core->order_names);
    free(core->progress_only);
}
