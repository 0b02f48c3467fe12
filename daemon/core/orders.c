/* orders: what a node is to carry out, built from the records when asked for; only the map of an attempt is kept while it runs.
 *
 * A node keeps its order until the whole attempt has ended, also when its own ranks are done: its shim still serves the tree. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "daemon/core/core_private.h"
#include "planner/saves.h"

static enum order_phase phase_of(const struct attempt *a)
{
    switch (a->r.state) {
    case ATTEMPT_PREPARING:
        return ORDER_PREPARE;
    case ATTEMPT_LAUNCHING:
    case ATTEMPT_RUNNING:
        return ORDER_GO;
    default:
        return ORDER_STOP;
    }
}

static void fill_words(struct link_order *o, const char *const *from)
{
    while (from && from[o->argc])
        o->argc++;
    o->argv = mem_zero(o->argc + 1, sizeof(char *));
    for (size_t i = 0; i < o->argc; i++)
        o->argv[i] = str_dup(from[i]);
}

/* The file of an elastic job has its range; which size this attempt has stands beside it. */
static void fill_argv(struct link_order *o, const struct job_spec *spec)
{
    char *dp = str_printf("parallel.dp=%lld", (long long)spec->dp);
    const char *const train[] = {"belay-train", "--job", "@JOB@", job_elastic(spec) ? "--set" : NULL, dp,
                                 NULL};
    fill_words(o, spec->is_train ? train : (const char *const *)spec->argv);
    free(dp);
}

/* Mean time between interruptions of the job, from what the attempts before this one came to: the same as long as it lives. */
static double mttf_s(const struct core *core, const struct attempt *a)
{
    double count = 0, run_ms = 0;
    for (size_t i = 0; i < a->job->n_attempts; i++) {
        const struct attempt_record *r = &a->job->attempts[i]->r;
        if (r->number >= a->r.number || r->running_ms == 0)
            continue;
        run_ms += (double)(r->ended_ms > r->running_ms ? r->ended_ms - r->running_ms : 0);
        count += r->outcome == OUTCOME_FAILED || r->outcome == OUTCOME_NODE;
    }
    return saves_mttf((double)a->r.n_nodes, core->config.failures_per_node_day, count, run_ms / 1000);
}

static void set_env(struct link_order *o, const char *key, char *value)
{
    o->env_keys[o->n_env] = str_dup(key);
    o->env_values[o->n_env++] = value;
}

static bool has_env(const struct job_spec *spec, const char *key)
{
    for (size_t i = 0; i < spec->n_env; i++)
        if (strcmp(spec->env[i].key, key) == 0)
            return true;
    return false;
}

static void fill_env(const struct core *core, struct link_order *o, const struct attempt *a)
{
    const struct job_spec *spec = a->job->r.spec;
    double mttf = mttf_s(core, a);
    o->env_keys = mem_zero(spec->n_env + 2, sizeof(char *));
    o->env_values = mem_zero(spec->n_env + 2, sizeof(char *));
    for (size_t i = 0; i < spec->n_env; i++)
        set_env(o, spec->env[i].key, str_dup(spec->env[i].value));
    if (isfinite(mttf) && !has_env(spec, "BELAY_MTTF_S"))
        set_env(o, "BELAY_MTTF_S", str_printf("%.0f", fmax(mttf, 1)));
}

static void fill_resume(struct link_order *o, const struct attempt *a)
{
    const char *paths[ANNOUNCED_PATHS_MAX];
    o->n_resume = announced_paths(a, paths);
    o->resume = mem_zero(o->n_resume + 1, sizeof(char *));
    for (size_t i = 0; i < o->n_resume; i++)
        o->resume[i] = str_dup(paths[i]);
}

static void fill_ranks(struct link_order *o, const struct attempt *a, size_t seat)
{
    const struct seat *s = &a->seats[seat];
    o->n_ranks = s->n_ranks;
    o->ranks = mem_zero(s->n_ranks + 1, sizeof(*o->ranks));
    for (size_t i = 0; i < s->n_ranks; i++) {
        o->ranks[i].rank = a->by_seat[s->first + i];
        o->ranks[i].slot = a->r.placement[o->ranks[i].rank].slot;
    }
}

/* Racks of different pods may have the same name. */
static char *domain_of(const struct link_inventory *at)
{
    if (!at->rack[0])
        return str_dup("");
    return at->pod[0] ? str_printf("%s/%s", at->pod, at->rack) : str_dup(at->rack);
}

static void fill_map_node(struct link_map_node *m, const struct attempt *a, size_t seat)
{
    const struct seat *s = &a->seats[seat];
    m->node = str_dup(s->node->r.name);
    m->addr = str_dup(s->node->r.inventory.address);
    m->domain = domain_of(&s->node->r.inventory);
    m->port = a->r.nodes[seat].report.port;
    m->master_port = a->r.nodes[seat].report.master_port;
    m->n_ranks = s->n_ranks;
    m->ranks = mem_zero(s->n_ranks + 1, sizeof(int64_t));
    for (size_t i = 0; i < s->n_ranks; i++)
        m->ranks[i] = a->by_seat[s->first + i];
}

/* One map serves the orders of all nodes: what it says is settled before the first of them may go. */
static void lend_map(struct link_order *o, struct attempt *a)
{
    o->n_map = a->r.n_nodes;
    o->map_borrowed = true;
    if (!a->map) {
        a->map = mem_zero(o->n_map + 1, sizeof(*o->map));
        for (size_t i = 0; i < o->n_map; i++)
            fill_map_node(&a->map[i], a, i);
    }
    o->map = a->map;
}

static void fill_texts(struct link_order *o, const struct attempt *a, const struct node *node)
{
    const struct job_record *job = &a->job->r;
    bool gpu = node->r.inventory.gpu && job->spec->device != DEVICE_CPU;
    o->token = str_dup(a->r.token);
    o->name = str_dup(job->spec->name);
    o->user = str_dup(job->user);
    o->cwd = str_dup(job->cwd);
    o->spec = str_dup(job->yaml);
    o->device = str_dup(gpu ? "gpu" : "cpu");
    o->reason = str_dup(a->r.reason);
    o->uid = job->uid;
    o->gid = job->gid;
}

static void fill_order(const struct core *core, struct link_order *o, struct attempt *a, size_t seat)
{
    const struct job_spec *spec = a->job->r.spec;
    *o = (struct link_order){.job = a->r.job, .attempt = a->r.number, .phase = phase_of(a)};
    o->cpus = spec->cpus;
    o->memory = spec->memory;
    o->world = (int64_t)a->r.world;
    o->node_rank = (int64_t)seat;
    o->nodes = (int64_t)a->r.n_nodes;
    o->grace_ms = spec->limits.grace_ms;
    o->checkpoint = a->r.checkpoint_request;
    o->memory_tier = spec->checkpoint.memory_every > 0;
    o->buddy = spec->checkpoint.buddy;
    o->kill = o->phase == ORDER_STOP && attempt_kills(a);
    fill_texts(o, a, a->seats[seat].node);
    fill_argv(o, spec);
    fill_env(core, o, a);
    fill_resume(o, a);
    fill_ranks(o, a, seat);
    if (o->phase == ORDER_GO)
        lend_map(o, a);
}

/* ---- whose images stay in memory between two attempts ---- */

/* The job whose slots here are held for its next attempt by one that has ended, or NULL. */
static const struct job *keeps_slot(const struct node *node, size_t slot)
{
    const struct attempt *a = node->owners[slot];
    return a && a->job->kept == a ? a->job : NULL;
}

static bool has_memory_tier(const struct job *job)
{
    return job->r.spec->checkpoint.memory_every > 0;
}

static int by_number(const void *x, const void *y)
{
    const int64_t *a = x, *b = y;
    return (*a > *b) - (*a < *b);
}

size_t core_node_keep(const struct core *core, const char *name, int64_t **jobs)
{
    const struct node *node = node_find(core, name);
    size_t n = 0, most = node ? node->n_hosted + node->n_owners : 0, different = 0;
    *jobs = mem_zero(most + 1, sizeof(**jobs));
    if (!node || node->r.drain_requested || node->leaving)
        return 0;
    for (size_t i = 0; i < node->n_hosted; i++)
        if (has_memory_tier(node->hosted[i].attempt->job))
            (*jobs)[n++] = node->hosted[i].attempt->r.job;
    for (size_t i = 0; i < node->n_owners; i++)
        if (keeps_slot(node, i) && has_memory_tier(keeps_slot(node, i)))
            (*jobs)[n++] = keeps_slot(node, i)->r.id;
    qsort(*jobs, n, sizeof(**jobs), by_number);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || (*jobs)[i] != (*jobs)[different - 1])
            (*jobs)[different++] = (*jobs)[i];
    return different;
}

/* ---- all orders of a node ---- */

static int by_job(const void *x, const void *y)
{
    const struct link_order *a = x, *b = y;
    return a->job < b->job ? -1 : a->job > b->job;
}

size_t core_node_orders(const struct core *core, const char *name, struct link_order **orders)
{
    const struct node *node = node_find(core, name);
    size_t n = node ? node->n_hosted : 0;
    *orders = mem_zero(n + 1, sizeof(**orders));
    for (size_t i = 0; i < n; i++)
        fill_order(core, &(*orders)[i], node->hosted[i].attempt, node->hosted[i].seat);
    qsort(*orders, n, sizeof(**orders), by_job);
    return n;
}
