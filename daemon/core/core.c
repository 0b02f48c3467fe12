/* core: the turn, loading and reading. The decisions are in the other modules (core_private.h says which). */
#include "daemon/core/core.h"

#include <math.h>
#include <stdlib.h>

#include "common/mem.h"
#include "common/mix.h"
#include "daemon/core/core_private.h"
#include "daemon/core/recovery.h"
#include "planner/saves.h"

void core_config_defaults(struct core_config *config)
{
    *config = (struct core_config){
        .seed = 1,
        .suspect_after_ms = 2500,
        .down_after_ms = 5000,
        .settle_ms = 10000,
        .prepare_timeout_ms = 15000,
        .checkpoint_wait_ms = 30000,
        .keep_ms = 600000,
        .grow_after_ms = 30000,
        .failures_per_node_day = SAVES_FAILURES_PER_NODE_DAY,
        .repair_days = 0.5,
    };
}

struct core *core_new(const struct core_config *config, struct core_time t)
{
    struct core *core = mem_zero(1, sizeof(*core));
    core->config = *config;
    core->t = t;
    core->random = config->seed;
    core->node_by_name = idmap_new();
    core->job_by_key = idmap_new();
    core->job_by_directory = idmap_new();
    core->timers = timers_new();
    core->next_job = core->next_event = 1;
    core->settle_timer.fire = nodes_settle;
    timers_set(core->timers, &core->settle_timer, t.mono_ms + config->settle_ms);
    return core;
}

void core_free(struct core *core)
{
    if (!core)
        return;
    changes_free(core);
    for (size_t i = 0; i < core->jobs.count; i++)
        job_free(core->jobs.items[i]);
    for (size_t i = 0; i < core->nodes.count; i++)
        node_free(core->nodes.items[i]);
    struct list *lists[] = {&core->jobs, &core->nodes, &core->queue, &core->examine_nodes,
                            &core->examine_attempts};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        free(lists[i]->items);
    idmap_free(core->node_by_name);
    idmap_free(core->job_by_key);
    idmap_free(core->job_by_directory);
    timers_free(core->timers);
    free(core);
}

/* splitmix64 */
uint64_t core_random(struct core *core)
{
    return mix64(core->random += MIX_GOLDEN);
}

int64_t core_mono_of(const struct core *core, int64_t utc_ms)
{
    return core->t.mono_ms + (utc_ms - core->t.now_ms);
}

/* ---- loading ---- */

void core_load_node(struct core *core, struct node_record *record)
{
    node_load(core, record);
}

void core_load_job(struct core *core, struct job_record *record)
{
    struct job *job = job_add(core, record);
    job->high_checkpoint = -1;
    job->r.progress.staged_step = job->r.progress.memory_step = -1;
    int64_t left = job->r.not_before_ms - core->t.now_ms, most = 2 * RECOVERY_BACKOFF_MAX_MS;
    if (left > 0) /* no more than a pause can be: the clock may have been set back */
        job->pause_until_mono_ms = core->t.mono_ms + (left < most ? left : most);
    if (job->r.state == JOB_PENDING || job->r.state == JOB_RESTARTING || job->r.state == JOB_PREEMPTED)
        queue_add(core, job);
    job_rearm(core, job);
}

void core_load_attempt(struct core *core, struct attempt_record *record)
{
    struct job *job = job_find(core, record->job);
    if (job)
        attempt_load(core, job, record);
}

void core_load_next_ids(struct core *core, int64_t next_job, int64_t next_event)
{
    if (next_job > core->next_job)
        core->next_job = next_job;
    if (next_event > core->next_event)
        core->next_event = next_event;
}

/* ---- time ---- */

static void examine(struct core *core)
{
    while (core->examine_attempts.count + core->examine_nodes.count > 0) {
        if (core->examine_attempts.count > 0) {
            struct attempt *a = core->examine_attempts.items[--core->examine_attempts.count];
            a->examine = false;
            attempt_examine(core, a);
            job_rearm(core, a->job);
        } else {
            struct node *node = core->examine_nodes.items[--core->examine_nodes.count];
            node->examine = false;
            node_examine(core, node);
        }
    }
}

enum { STALL_MS = 1000 }; /* a turn later than this after it was due: the controller itself was away */

/* Time in which the controller did not listen says nothing about the nodes. */
static void excuse_stall(struct core *core)
{
    int64_t due_ms = timers_next(core->timers);
    if (due_ms == INT64_MAX || core->t.mono_ms - due_ms < STALL_MS)
        return;
    for (size_t i = 0; i < core->nodes.count; i++)
        node_excuse(core, core->nodes.items[i], core->t.mono_ms - due_ms);
}

void core_turn(struct core *core, struct core_time t)
{
    core->t = t;
    excuse_stall(core);
    nodes_settle_check(core);
    if (!core->loaded)
        keep_after_load(core);
    timers_run(core->timers, t.mono_ms, core);
    examine(core);
    schedule(core);
    examine(core);
}

int64_t core_next_wakeup(const struct core *core)
{
    return core->more_to_try ? core->t.mono_ms : timers_next(core->timers);
}

/* ---- reading ---- */

const struct job_record *core_job(const struct core *core, int64_t id)
{
    const struct job *job = job_find(core, id);
    return job ? &job->r : NULL;
}

const struct attempt_record *core_attempt(const struct core *core, int64_t id, int64_t number)
{
    const struct job *job = job_find(core, id);
    const struct attempt *a = !job ? NULL : number == 0 ? job_newest(job) : attempt_find(job, number);
    return a ? &a->r : NULL;
}

const struct node_record *core_node(const struct core *core, const char *name)
{
    const struct node *node = node_find(core, name);
    return node ? &node->r : NULL;
}

void core_each_job(const struct core *core, bool (*fn)(void *ctx, const struct job_record *job), void *ctx)
{
    for (size_t i = 0; i < core->jobs.count; i++)
        if (!fn(ctx, &((const struct job *)core->jobs.items[i])->r))
            return;
}

void core_each_node(const struct core *core, bool (*fn)(void *ctx, const struct node_record *node), void *ctx)
{
    for (size_t i = 0; i < core->nodes.count; i++)
        if (!fn(ctx, &((const struct node *)core->nodes.items[i])->r))
            return;
}

bool core_job_keeps(const struct core *core, int64_t id)
{
    const struct job *job = job_find(core, id);
    return job && job->kept;
}

int64_t core_node_free_slots(const struct core *core, const char *name)
{
    const struct node *node = node_find(core, name);
    if (!node)
        return 0;
    int64_t n = 0;
    for (int64_t s = 0; s < node->r.inventory.slots; s++)
        n += (size_t)s >= node->n_owners || !node->owners[s];
    return n;
}

/* A program that speaks of no steps is productive while it runs. */
static int64_t silent_ms(const struct job *job, int64_t now_ms)
{
    int64_t ms = 0;
    for (size_t i = 0; i < job->n_attempts; i++) {
        const struct attempt_record *a = &job->attempts[i]->r;
        bool counts = a->to_step < 0 && a->running_ms >= job->r.started_ms && a->running_ms > 0;
        if (counts && (a->state != ATTEMPT_ENDED || a->outcome == OUTCOME_COMPLETED))
            ms += (a->ended_ms ? a->ended_ms : now_ms) - a->running_ms;
    }
    return ms;
}

double core_job_ettr(const struct core *core, int64_t id, int64_t now_ms)
{
    const struct job *job = job_find(core, id);
    if (!job || job->r.started_ms == 0)
        return (double)NAN;
    int64_t end_ms = job->r.ended_ms ? job->r.ended_ms : now_ms;
    if (end_ms <= job->r.started_ms)
        return (double)NAN;
    int64_t productive = job->r.productive_ms + (job->high_step < 0 ? silent_ms(job, end_ms) : 0);
    return (double)productive / (double)(end_ms - job->r.started_ms);
}
