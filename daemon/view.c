/* view: see view.h. Built from records alone, after the commit; nothing is cached. */
#include "daemon/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/jsonx.h"
#include "common/mem.h"

/* ---- small pieces ---- */

static void set_int(json_t *obj, const char *key, int64_t value)
{
    jsonx_set(obj, key, json_integer(value));
}

/* null when value equals `absent` */
static void set_int_or_null(json_t *obj, const char *key, int64_t value, int64_t absent)
{
    jsonx_set(obj, key, value == absent ? json_null() : json_integer(value));
}

json_t *view_time(int64_t utc_ms)
{
    char text[CLOCK_UTC_SIZE];
    return utc_ms ? json_string(clock_format_utc(utc_ms, text)) : json_null();
}

static json_t *view_lost(const struct lost_time *lost)
{
    json_t *obj = json_object();
    set_int(obj, "detect_ms", lost->detect);
    set_int(obj, "stop_ms", lost->stop);
    set_int(obj, "place_ms", lost->place);
    set_int(obj, "load_ms", lost->load);
    set_int(obj, "replay_ms", lost->replay);
    return obj;
}

static json_t *view_placement(const struct attempt_record *attempt)
{
    json_t *list = json_array();
    for (size_t i = 0; attempt && i < attempt->world; i++) {
        const struct placed_rank *p = &attempt->placement[i];
        json_t *obj = json_object();
        set_int(obj, "rank", p->rank);
        jsonx_set_str(obj, "node", p->node);
        set_int(obj, "slot", p->slot);
        set_int(obj, "tp", p->tp);
        set_int(obj, "pp", p->pp);
        set_int(obj, "cp", p->cp);
        set_int(obj, "dp", p->dp);
        json_array_append_new(list, obj);
    }
    return list;
}

/* The nodes that are held for a repair, each once. */
static json_t *view_spares(const struct attempt_record *attempt)
{
    json_t *list = json_array();
    for (size_t i = 0; attempt && i < attempt->n_spares; i++)
        if (i == 0 || strcmp(attempt->spares[i - 1].node, attempt->spares[i].node) != 0)
            json_array_append_new(list, json_string(attempt->spares[i].node));
    return list;
}

/* ---- jobs ---- */

char *view_checkpoint_directory(const struct job_record *job)
{
    const char *dir = job->spec->checkpoint.directory;
    if (!dir)
        return NULL;
    return dir[0] == '/' ? str_dup(dir) : str_printf("%s/%s", job->cwd, dir);
}

static json_t *view_newest_checkpoint(const struct job_progress *p, int64_t now_ms)
{
    if (p->checkpoint_step < 0)
        return json_null();
    json_t *obj = json_object();
    set_int(obj, "step", p->checkpoint_step);
    jsonx_set_real(obj, "age_s", p->checkpoint_ms ? (double)(now_ms - p->checkpoint_ms) / 1000.0 : NAN);
    set_int(obj, "bytes", p->checkpoint_bytes);
    return obj;
}

/* The newest of a tier other than storage, or null. */
static json_t *view_tier(int64_t step, int64_t at_ms, int64_t now_ms)
{
    if (step < 0)
        return json_null();
    json_t *obj = json_object();
    set_int(obj, "step", step);
    jsonx_set_real(obj, "age_s", at_ms ? (double)(now_ms - at_ms) / 1000.0 : NAN);
    return obj;
}

static json_t *view_trouble(const struct job_progress *p)
{
    static const char *const names[CHECKPOINT_TIERS] = {
        [TIER_STORAGE] = "storage", [TIER_UPLOAD] = "upload", [TIER_MEMORY] = "memory"};
    json_t *list = json_array();
    for (int tier = 0; tier < CHECKPOINT_TIERS; tier++) {
        const struct checkpoint_trouble *t = &p->trouble[tier];
        if (t->count > 0)
            json_array_append_new(list, json_pack("{s:s,s:I,s:I,s:s}", "tier", names[tier], "failed",
                                                  (json_int_t)t->count, "step", (json_int_t)t->step, "why",
                                                  t->why));
    }
    return list;
}

/* The newest request for a checkpoint of an attempt, or null. */
static json_t *view_request(const struct attempt_record *a)
{
    const struct save_request *s = a ? &a->save : NULL;
    if (!s || a->checkpoint_request == 0)
        return json_null();
    json_t *obj = json_object();
    set_int(obj, "attempt", a->number);
    set_int(obj, "number", a->checkpoint_request);
    jsonx_set(obj, "asked", view_time(s->asked_ms));
    jsonx_set_str(obj, "why", s->why);
    jsonx_set(obj, "waiting", json_boolean(s->waiting));
    set_int_or_null(obj, "step", s->step, -1);
    jsonx_set_str(obj, "answer", s->answer[0] ? s->answer : NULL);
    return obj;
}

/* Shims keep copies for a job that runs or is about to run again. */
static int64_t held_step(const struct job_record *job)
{
    bool kept = job->state == JOB_STARTING || job->state == JOB_RUNNING || job->state == JOB_RESTARTING;
    return kept ? job->progress.memory_step : -1;
}

static void set_checkpoints(json_t *obj, const struct job_record *job, const struct attempt_record *attempt,
                            int64_t now_ms)
{
    const struct job_progress *p = &job->progress;
    jsonx_set(obj, "checkpoint", view_newest_checkpoint(p, now_ms));
    jsonx_set(obj, "checkpoint_memory", view_tier(held_step(job), p->memory_ms, now_ms));
    jsonx_set(obj, "checkpoint_upload", view_tier(p->upload_step, p->upload_ms, now_ms));
    jsonx_set(obj, "checkpoint_failing", view_trouble(p));
    jsonx_set(obj, "checkpoint_request", view_request(attempt));
    jsonx_set_str(obj, "checkpoint_interval", p->interval[0] ? p->interval : NULL);
    set_int_or_null(obj, "checkpoint_staged", p->staged_step, -1);
}

/* Seconds the newest attempt has been running; of a finished job: from its first start to its end. */
static double up_seconds(const struct job_record *job, const struct attempt_record *attempt, int64_t now_ms)
{
    if (job_state_final(job->state))
        return job->started_ms ? (double)(job->ended_ms - job->started_ms) / 1000.0 : NAN;
    if (!attempt || attempt->state == ATTEMPT_ENDED || !attempt->running_ms)
        return NAN;
    return (double)(now_ms - attempt->running_ms) / 1000.0;
}

static void set_progress(json_t *obj, const struct job_record *job)
{
    const struct job_progress *p = &job->progress;
    int64_t steps = p->steps >= 0 || !job->spec->is_train ? p->steps : job->spec->train.steps;
    set_int_or_null(obj, "step", p->step, -1);
    set_int_or_null(obj, "steps", steps, -1);
    jsonx_set_real(obj, "loss", p->loss);
    jsonx_set_real(obj, "tokens_per_second", p->tokens_per_second);
    jsonx_set_real(obj, "mfu", p->mfu);
}

static void set_details(json_t *obj, const struct job_record *job, const struct attempt_record *attempt)
{
    char *directory = view_checkpoint_directory(job);
    set_int(obj, "ranks", job->spec->ranks);
    set_int(obj, "nodes", attempt ? (int64_t)attempt->n_nodes : 0);
    jsonx_set_str(obj, "phase", job->progress.phase[0] ? job->progress.phase : NULL);
    jsonx_set_str(obj, "status", job->progress.status[0] ? job->progress.status : NULL);
    set_int(obj, "rev", job->rev);
    set_int_or_null(obj, "first_failure", job->first_failure_rank, -1);
    set_int_or_null(obj, "exit_code", job->exit_code, -1);
    jsonx_set(obj, "lost", view_lost(&job->lost));
    set_int(obj, "restart_max", job->spec->restart.max);
    jsonx_set_str(obj, "cwd", job->cwd);
    jsonx_set_str(obj, "queue", job->spec->queue);
    set_int(obj, "priority", job->spec->priority);
    jsonx_set_str(obj, "kind", job->spec->is_train ? "train" : "run");
    jsonx_set_str(obj, "checkpoint_directory", directory);
    free(directory);
}

json_t *view_job(const struct core *core, const struct job_record *job, int64_t now_ms)
{
    const struct attempt_record *attempt = job->attempt ? core_attempt(core, job->id, 0) : NULL;
    json_t *obj = json_object();
    set_int(obj, "id", job->id);
    jsonx_set_str(obj, "name", job->spec->name);
    jsonx_set_str(obj, "user", job->user);
    jsonx_set_str(obj, "state", job_state_name(job->state));
    jsonx_set_str(obj, "reason", job->reason);
    set_int(obj, "attempt", job->attempt);
    set_int(obj, "restarts", job->restarts);
    set_progress(obj, job);
    set_checkpoints(obj, job, attempt, now_ms);
    jsonx_set_real(obj, "ettr", core_job_ettr(core, job->id, now_ms));
    jsonx_set(obj, "submitted", view_time(job->submitted_ms));
    jsonx_set(obj, "started", view_time(job->started_ms));
    jsonx_set(obj, "ended", view_time(job->ended_ms));
    jsonx_set(obj, "placement", view_placement(attempt));
    jsonx_set(obj, "spares", view_spares(attempt));
    jsonx_set_real(obj, "up_s", up_seconds(job, attempt, now_ms));
    set_details(obj, job, attempt);
    return obj;
}

/* ---- attempts ---- */

static bool rank_is_above(const json_t *a, const json_t *b)
{
    return json_integer_value(json_object_get(a, "rank")) > json_integer_value(json_object_get(b, "rank"));
}

static int by_rank(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    return rank_is_above(x, y) - rank_is_above(y, x);
}

/* Appends the ranks of one node's report, each with the node's name, to list[*n]. */
static void add_ranks(const struct attempt_node *node, json_t **list, size_t *n)
{
    json_t *report = link_report_encode(&node->report, NULL), *item;
    size_t i;
    json_array_foreach(json_object_get(report, "ranks"), i, item)
    {
        jsonx_set_str(item, "node", node->node);
        list[(*n)++] = json_incref(item);
    }
    json_decref(report);
}

/* All reported ranks in rank order. */
static json_t *view_ranks(const struct attempt_record *attempt)
{
    size_t room = 0, n = 0;
    json_t *sorted = json_array();
    for (size_t i = 0; i < attempt->n_nodes; i++)
        room += attempt->nodes[i].reported ? attempt->nodes[i].report.n_ranks : 0;
    json_t **list = mem_zero(room + 1, sizeof(void *));
    for (size_t i = 0; i < attempt->n_nodes; i++) {
        if (attempt->nodes[i].reported)
            add_ranks(&attempt->nodes[i], list, &n);
    }
    qsort(list, n, sizeof(void *), by_rank);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(sorted, list[i]);
    free(list);
    return sorted;
}

json_t *view_attempt(const struct attempt_record *a)
{
    json_t *obj = json_object();
    set_int(obj, "attempt", a->number);
    jsonx_set_str(obj, "state", attempt_state_name(a->state));
    jsonx_set_str(obj, "outcome", a->outcome == OUTCOME_NONE ? NULL : attempt_outcome_name(a->outcome));
    jsonx_set_str(obj, "reason", a->reason);
    jsonx_set(obj, "started", view_time(a->created_ms));
    jsonx_set(obj, "running", view_time(a->running_ms));
    jsonx_set(obj, "ended", view_time(a->ended_ms));
    set_int_or_null(obj, "from_step", a->from_step, -1);
    set_int_or_null(obj, "to_step", a->to_step, -1);
    jsonx_set(obj, "lost", view_lost(&a->lost));
    jsonx_set(obj, "checkpoint_request", view_request(a));
    jsonx_set(obj, "placement", view_placement(a));
    jsonx_set(obj, "spares", view_spares(a));
    jsonx_set(obj, "ranks", view_ranks(a));
    return obj;
}

/* ---- events and checkpoints ---- */

json_t *view_event(const struct event_record *e)
{
    json_t *obj = json_object();
    set_int(obj, "id", e->id);
    jsonx_set(obj, "time", view_time(e->time_ms));
    jsonx_set_str(obj, "kind", e->kind);
    set_int_or_null(obj, "job", e->job, 0);
    set_int_or_null(obj, "attempt", e->attempt, 0);
    set_int_or_null(obj, "rank", e->rank, -1);
    jsonx_set_str(obj, "node", e->node[0] ? e->node : NULL);
    jsonx_set_str(obj, "text", e->text);
    return obj;
}

json_t *view_checkpoint(const struct job_record *job, const struct checkpoint_record *c)
{
    json_t *obj = json_object();
    char *directory = view_checkpoint_directory(job);
    char *path = c->path     ? str_dup(c->path)
                 : directory ? str_printf("%s/step-%08lld", directory, (long long)c->step)
                             : NULL;
    set_int(obj, "step", c->step);
    jsonx_set(obj, "time", view_time(c->time_ms));
    set_int(obj, "bytes", c->bytes);
    set_int(obj, "attempt", c->attempt);
    set_int_or_null(obj, "staged_ms", c->staged_ms, -1);
    set_int_or_null(obj, "durable_ms", c->durable_ms, -1);
    jsonx_set_real(obj, "held_loss", c->held_loss);
    jsonx_set_str(obj, "path", path);
    free(path);
    free(directory);
    return obj;
}

/* ---- nodes ---- */

struct resident {
    const char *node;
    int64_t job;
};

struct view_residents {
    const struct core *core;
    struct resident *list; /* by node, then job */
    size_t n, room;
};

static void add_resident(struct view_residents *r, const char *node, int64_t job)
{
    r->list = mem_one_more(r->list, r->n, &r->room, sizeof(*r->list));
    r->list[r->n++] = (struct resident){node, job};
}

static bool collect_job(void *ctx, const struct job_record *job)
{
    struct view_residents *r = ctx;
    const struct attempt_record *a =
        job->attempt && !job_state_final(job->state) ? core_attempt(r->core, job->id, 0) : NULL;
    if (!a || (a->state == ATTEMPT_ENDED && !core_job_keeps(r->core, job->id)))
        return true;
    for (size_t i = 0; i < a->n_nodes; i++)
        add_resident(r, a->nodes[i].node, job->id);
    for (size_t i = 0; i < a->n_spares; i++)
        if (i == 0 || strcmp(a->spares[i - 1].node, a->spares[i].node) != 0)
            add_resident(r, a->spares[i].node, job->id);
    return true;
}

static int by_node(const void *a, const void *b)
{
    const struct resident *x = a, *y = b;
    int order = strcmp(x->node, y->node);
    return order ? order : (x->job > y->job) - (x->job < y->job);
}

struct view_residents *view_residents_collect(const struct core *core)
{
    struct view_residents *r = mem_zero(1, sizeof(*r));
    r->core = core;
    core_each_job(core, collect_job, r);
    if (r->n > 0)
        qsort(r->list, r->n, sizeof(*r->list), by_node);
    return r;
}

void view_residents_free(struct view_residents *residents)
{
    if (!residents)
        return;
    free(residents->list);
    free(residents);
}

/* First entry of the node, or n. */
static size_t first_resident(const struct view_residents *r, const char *node)
{
    size_t low = 0, high = r->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(r->list[middle].node, node) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static json_t *view_jobs_of_node(const struct view_residents *r, const char *node)
{
    json_t *list = json_array();
    int64_t before = 0; /* a job may have both ranks and spare slots there */
    for (size_t i = first_resident(r, node); i < r->n && strcmp(r->list[i].node, node) == 0; i++) {
        if (r->list[i].job != before)
            json_array_append_new(list, json_integer(r->list[i].job));
        before = r->list[i].job;
    }
    return list;
}

static json_t *view_gpus(const struct link_inventory *inventory)
{
    json_t *encoded = link_inventory_encode(inventory);
    json_t *gpus = json_incref(json_object_get(encoded, "gpus"));
    json_decref(encoded);
    return gpus ? gpus : json_array();
}

/* The clock may have been set back since. */
static json_t *heartbeat_age(const struct node_record *node, int64_t now_ms)
{
    int64_t age = now_ms - node->heartbeat_ms;
    return node->heartbeat_ms ? json_integer(age > 0 ? age : 0) : json_null();
}

json_t *view_node(const struct core *core, const struct node_record *node,
                  const struct view_residents *residents, int64_t now_ms)
{
    const struct link_inventory *inv = &node->inventory;
    json_t *obj = json_object();
    jsonx_set_str(obj, "name", node->name);
    jsonx_set_str(obj, "state", node_state_name(node->state));
    jsonx_set_str(obj, "reason", node->reason);
    jsonx_set(obj, "since", view_time(node->since_ms));
    set_int(obj, "slots", inv->slots);
    set_int(obj, "free", core_node_free_slots(core, node->name));
    jsonx_set_str(obj, "rack", inv->rack);
    jsonx_set_str(obj, "pod", inv->pod);
    jsonx_set_str(obj, "nvlink", inv->nvlink);
    jsonx_set(obj, "jobs", view_jobs_of_node(residents, node->name));
    jsonx_set_str(obj, "device", inv->gpu ? "gpu" : "cpu");
    jsonx_set_str(obj, "address", inv->address);
    set_int(obj, "cores", inv->cores);
    set_int(obj, "memory", inv->memory);
    jsonx_set_str(obj, "version", inv->version);
    jsonx_set(obj, "heartbeat_age_ms", heartbeat_age(node, now_ms));
    jsonx_set(obj, "gpus", view_gpus(inv));
    return obj;
}

/* ---- the cluster file ---- */

static json_t *view_link(const struct cluster_link *link)
{
    json_t *obj = json_object();
    jsonx_set(obj, "bytes_per_s", json_real(link->bytes_per_s));
    jsonx_set(obj, "latency_s", json_real(link->latency_s));
    return obj;
}

static json_t *view_links(const struct cluster_spec *spec)
{
    json_t *obj = json_object();
    jsonx_set(obj, "memory", view_link(&spec->device_memory));
    jsonx_set(obj, "pcie", view_link(&spec->pcie));
    for (int level = 0; level < DOMAIN_COUNT; level++)
        jsonx_set(obj, job_domain_name((enum job_domain)level), view_link(&spec->links[level]));
    return obj;
}

json_t *view_topology(const struct cluster_spec *cluster)
{
    struct cluster_spec *fallback = cluster ? NULL : cluster_spec_new("");
    const struct cluster_spec *spec = cluster ? cluster : fallback;
    int64_t slots = 0;
    for (size_t i = 0; i < spec->n_nodes; i++)
        slots += spec->nodes[i].slots;
    json_t *obj = json_object();
    jsonx_set(obj, "name", cluster ? json_string(cluster->name) : json_null());
    set_int(obj, "nodes", (int64_t)spec->n_nodes);
    set_int(obj, "slots", slots);
    jsonx_set(obj, "links", view_links(spec));
    cluster_spec_free(fallback);
    return obj;
}
