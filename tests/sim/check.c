/* check: what always holds, whatever happens. Each check names the rule that was broken; the rules are listed in docs/simulation.md. */
#include <stdlib.h>
#include <string.h>

#include "daemon/core/explain.h"
#include "tests/sim/cell.h"

static bool is_live(const struct attempt_record *a)
{
    return a->state != ATTEMPT_ENDED;
}

#define ID(a) (long long)(a)->job, (long long)(a)->number

/* ---- no device is given twice ---- */

static void take_slot(struct cell *c, const struct attempt_record *a, const struct placed_rank *p,
                      const struct attempt_record *taken[AGENTS_MAX][SLOTS_MAX])
{
    const struct agent *g = cell_agent(c, p->node);
    if (p->slot < 0 || p->slot >= g->slots)
        cell_fail(c, "attempt %lld.%lld is on slot %lld of %s, which has %lld", ID(a), (long long)p->slot,
                  p->node, (long long)g->slots);
    const struct attempt_record **owner = &taken[g->index][p->slot];
    if (*owner)
        cell_fail(c, "slot %lld of %s is given twice: to attempt %lld.%lld and to %lld.%lld",
                  (long long)p->slot, p->node, ID(*owner), ID(a));
    *owner = a;
}

static void check_slots(struct cell *c)
{
    const struct attempt_record *taken[AGENTS_MAX][SLOTS_MAX] = {{NULL}};
    for (size_t i = 0; i < c->n_attempts; i++) {
        const struct attempt_record *a = &c->attempts[i].r;
        for (size_t r = 0; is_live(a) && r < a->world; r++)
            take_slot(c, a, &a->placement[r], taken);
        for (size_t r = 0; is_live(a) && r < a->n_spares; r++)
            take_slot(c, a, &a->spares[r], taken);
    }
}

/* ---- jobs and their attempts ---- */

static void check_job_state(struct cell *c, const struct job_record *j, int live)
{
    bool final = job_state_final(j->state), runs = j->state == JOB_STARTING || j->state == JOB_RUNNING;
    if (live > 1)
        cell_fail(c, "job %lld has %d attempts at a time", (long long)j->id, live);
    if (live == 1 && (final || j->state == JOB_HELD))
        cell_fail(c, "job %lld is %s and has an attempt", (long long)j->id, job_state_name(j->state));
    if (live == 0 && runs)
        cell_fail(c, "job %lld is %s without an attempt", (long long)j->id, job_state_name(j->state));
    if (!j->reason || j->reason[0] == '\0')
        cell_fail(c, "job %lld is %s without a reason", (long long)j->id, job_state_name(j->state));
    if (final != (j->ended_ms > 0))
        cell_fail(c, "job %lld is %s, and its end is %lld", (long long)j->id, job_state_name(j->state),
                  (long long)j->ended_ms);
}

static void check_attempt_state(struct cell *c, const struct job_record *j, const struct attempt_record *a)
{
    bool wanted = a->state == ATTEMPT_RUNNING ? j->state == JOB_RUNNING
                                              : a->state == ATTEMPT_STOPPING || j->state == JOB_STARTING;
    if (!wanted)
        cell_fail(c, "job %lld is %s, its attempt %lld is %s", (long long)j->id, job_state_name(j->state),
                  (long long)a->number, attempt_state_name(a->state));
    if (a->number != j->attempt)
        cell_fail(c, "job %lld counts %lld attempts and has a living one of number %lld", (long long)j->id,
                  (long long)j->attempt, (long long)a->number);
}

/* The accounts of time: nothing is negative, and together they are not more than the time there was. Detection is left out: a node's last
 * sign of life and the last step of another node overlap. */
static void check_accounts(struct cell *c, const struct job_record *j)
{
    const struct lost_time *l = &j->lost;
    int64_t until = j->ended_ms > 0 ? j->ended_ms : c->now_ms,
            sum = j->productive_ms + l->stop + l->place + l->load + l->replay;
    if (j->productive_ms < 0 || l->detect < 0 || l->stop < 0 || l->place < 0 || l->load < 0 ||
        l->replay < 0 || (j->started_ms > 0 && sum > until - j->started_ms) ||
        (j->started_ms == 0 && sum > 0))
        cell_fail(c,
                  "job %lld accounts for %lld ms (productive %lld, stop %lld, place %lld, load %lld, replay "
                  "%lld) of %lld",
                  (long long)j->id, (long long)sum, (long long)j->productive_ms, (long long)l->stop,
                  (long long)l->place, (long long)l->load, (long long)l->replay,
                  (long long)(until - j->started_ms));
}

static void check_jobs(struct cell *c)
{
    int live[JOBS_MAX + 1] = {0};
    for (size_t i = 0; i < c->n_attempts; i++) {
        const struct attempt_record *a = &c->attempts[i].r;
        if (!is_live(a))
            continue;
        live[a->job]++;
        check_attempt_state(c, &c->jobs[a->job], a);
    }
    for (int64_t id = 1; id < c->next_job; id++) {
        if (c->jobs[id].id != id)
            cell_fail(c, "job %lld was counted and is not there", (long long)id);
        check_job_state(c, &c->jobs[id], live[id]);
        check_accounts(c, &c->jobs[id]);
    }
}

/* ---- what was acknowledged ---- */

static void check_promise(struct cell *c, int64_t id)
{
    const struct promise *p = &c->promises[id];
    const struct job_record *j = &c->jobs[id];
    if (j->id != id)
        cell_fail(c, "job %lld was acknowledged and is not there", (long long)id);
    bool final = job_state_final(j->state);
    if (p->cancelled_at >= 0 && (j->attempt > p->cancelled_at || !(final || j->cancel_requested)))
        cell_fail(c, "job %lld was cancelled during attempt %lld and is %s in attempt %lld", (long long)id,
                  (long long)p->cancelled_at, job_state_name(j->state), (long long)j->attempt);
    if (p->held_at >= 0 && !final && (j->attempt > p->held_at || !j->hold_requested))
        cell_fail(c, "job %lld was held during attempt %lld and is %s in attempt %lld", (long long)id,
                  (long long)p->held_at, job_state_name(j->state), (long long)j->attempt);
}

static void check_node(struct cell *c, const struct agent *g)
{
    const struct node_record *n = &c->nodes[g->index];
    if (n->name[0] && c->drain_promised[g->index] != n->drain_requested)
        cell_fail(c, "a drain of %s was %sasked for, and it is %s", g->name,
                  c->drain_promised[g->index] ? "" : "not ", node_state_name(n->state));
    for (size_t i = 0; i < SHIMS_MAX && n->name[0] && n->state == NODE_DRAINED; i++)
        if (g->shims[i].used && shim_running(&g->shims[i]) > 0)
            cell_fail(c, "%s is drained and runs attempt %lld.%lld", g->name, (long long)g->shims[i].job,
                      (long long)g->shims[i].attempt);
}

/* Between a commit and the answer nothing else can be seen, so promises are compared only when no request is open. */
void check_all(struct cell *c)
{
    check_slots(c);
    check_jobs(c);
    for (int64_t id = 1; id <= JOBS_MAX; id++)
        if (c->promises[id].yaml)
            check_promise(c, id);
    for (size_t i = 0; i < c->n_agents; i++)
        check_node(c, &c->agents[i]);
}

/* ---- an attempt begins ---- */

static struct job_spec *spec_of(struct cell *c, int64_t job)
{
    struct job_diagnostics d;
    struct job_spec *spec = NULL;
    const char *yaml = c->jobs[job].yaml;
    if (!yaml || job_spec_parse_plan(yaml, strlen(yaml), "job", NULL, 0, &spec, &d) != 0)
        cell_fail(c, "job %lld does not read back", (long long)job);
    return spec;
}

static const char *domain_of(const struct agent *g, enum job_domain domain)
{
    return domain == DOMAIN_NODE   ? g->name
           : domain == DOMAIN_RACK ? g->rack
           : domain == DOMAIN_POD  ? g->pod
                                   : "";
}

/* Ranks that differ only in this coordinate share the domain. */
static void check_border(struct cell *c, const struct attempt_record *a, const struct job_border *border,
                         int64_t stride, int64_t size, const char *axis)
{
    for (int64_t r = 0; border->required && r < (int64_t)a->world; r++) {
        int64_t first = r - r / stride % size * stride;
        const struct agent *g = cell_agent(c, a->placement[r].node),
                           *h = cell_agent(c, a->placement[first].node);
        if (strcmp(domain_of(g, border->within), domain_of(h, border->within)) != 0)
            cell_fail(c, "attempt %lld.%lld: ranks %lld and %lld of one %s group are on %s and %s", ID(a),
                      (long long)first, (long long)r, axis, h->name, g->name);
    }
}

static void check_mesh(struct cell *c, const struct attempt_record *a, const struct job_spec *s)
{
    int64_t replica = s->tp * s->pp * s->cp, dp = (int64_t)a->world / replica;
    if (dp * replica != (int64_t)a->world || !job_dp_allowed(s, dp))
        cell_fail(c, "attempt %lld.%lld has %zu ranks, which is no size of its job", ID(a), a->world);
    for (int64_t r = 0; r < (int64_t)a->world; r++) {
        const struct placed_rank *p = &a->placement[r];
        if (p->rank != r || ((p->dp * s->pp + p->pp) * s->cp + p->cp) * s->tp + p->tp != r)
            cell_fail(c, "attempt %lld.%lld: rank %lld stands as (%lld,%lld,%lld,%lld)", ID(a), (long long)r,
                      (long long)p->tp, (long long)p->pp, (long long)p->cp, (long long)p->dp);
    }
    check_border(c, a, &s->placement.tp, 1, s->tp, "TP");
    check_border(c, a, &s->placement.cp, s->tp, s->cp, "CP");
    check_border(c, a, &s->placement.pp, s->tp * s->cp, s->pp, "PP");
    check_border(c, a, &s->placement.dp, s->tp * s->cp * s->pp, dp, "DP");
}

/* Failures of its own within the window are at most restart.max; a hold during a failure may save a job from its end once. */
static void check_budget(struct cell *c, const struct attempt_record *a, const struct job_spec *s)
{
    const struct job_record *j = &c->jobs[a->job];
    int64_t charged = 0;
    for (size_t i = 0; i < c->n_attempts; i++) {
        const struct attempt_record *o = &c->attempts[i].r;
        charged += o->job == a->job && o->number < a->number && o->outcome == OUTCOME_FAILED &&
                   o->ended_ms > j->started_ms && o->ended_ms > a->created_ms - s->restart.window_ms;
    }
    if (j->started_ms > 0 && charged > s->restart.max && !c->promises[a->job].ever_held)
        cell_fail(c, "attempt %lld.%lld begins after %lld failures, restart.max is %lld", ID(a),
                  (long long)charged, (long long)s->restart.max);
}

static size_t ranks_on(const struct attempt_record *a, const char *node);

static size_t spares_on(const struct attempt_record *a, const char *node)
{
    size_t n = 0;
    for (size_t r = 0; r < a->n_spares; r++)
        n += strcmp(a->spares[r].node, node) == 0;
    return n;
}

/* Can this node stand in for any node of the attempt, and is it in a pod of it? */
static void check_spare(struct cell *c, const struct attempt_record *a, const struct agent *g)
{
    bool near = false;
    for (size_t i = 0; i < a->n_nodes; i++) {
        const struct agent *other = cell_agent(c, a->nodes[i].node);
        near = near || strcmp(other->pod, g->pod) == 0;
        if (ranks_on(a, other->name) > spares_on(a, g->name))
            cell_fail(c, "attempt %lld.%lld: %zu spare slots on %s cannot take over %zu ranks of %s", ID(a),
                      spares_on(a, g->name), g->name, ranks_on(a, other->name), other->name);
    }
    if (!near || c->nodes[g->index].state != NODE_UP)
        cell_fail(c, "attempt %lld.%lld has a spare on %s, which is %s in %s", ID(a), g->name,
                  node_state_name(c->nodes[g->index].state), g->pod);
}

static void check_spares(struct cell *c, const struct attempt_record *a, const struct job_spec *s)
{
    int64_t nodes = 0;
    for (size_t i = 0; i < c->n_agents; i++) {
        if (spares_on(a, c->agents[i].name) == 0)
            continue;
        nodes++;
        check_spare(c, a, &c->agents[i]);
    }
    if (s->placement.spares != JOB_SPARES_AUTO && nodes > s->placement.spares)
        cell_fail(c, "attempt %lld.%lld has %lld spare nodes, the job asks for %lld", ID(a), (long long)nodes,
                  (long long)s->placement.spares);
}

/* What is left of an ended attempt holds devices too, until it is gone. */
static void check_empty(struct cell *c, const struct attempt_record *a, const struct agent *g)
{
    for (size_t i = 0; i < SHIMS_MAX; i++) {
        const struct shim *s = &g->shims[i];
        const struct stored_attempt *old = s->used ? store_attempt(c, s->job, s->attempt) : NULL;
        if (old && !is_live(&old->r) && shim_running(s) > 0)
            cell_fail(c, "attempt %lld.%lld begins on %s, where %lld.%lld still runs after its end", ID(a),
                      g->name, (long long)s->job, (long long)s->attempt);
    }
}

void check_new_attempt(struct cell *c, const struct attempt_record *a)
{
    struct job_spec *s = spec_of(c, a->job);
    check_mesh(c, a, s);
    check_budget(c, a, s);
    check_spares(c, a, s);
    job_spec_free(s);
    for (size_t r = 0; r < a->world; r++) {
        const struct node_record *n = &c->nodes[cell_agent(c, a->placement[r].node)->index];
        if (n->state != NODE_UP)
            cell_fail(c, "attempt %lld.%lld begins on %s, which is %s", ID(a), n->name,
                      node_state_name(n->state));
        check_empty(c, a, cell_agent(c, a->placement[r].node));
    }
}

/* ---- what an agent may forget is kept ---- */

static bool is_final(const struct attempt_node *n)
{
    enum report_phase p = n->report.phase;
    return n->reported && (p == REPORT_GONE || p == REPORT_REFUSED || p == REPORT_LOST);
}

static bool is_kept(const struct attempt_node *n, const struct shim *s)
{
    return is_final(n) || (n->reported && n->report.rev >= s->report.rev);
}

void check_acknowledged(struct cell *c, const struct agent *g, const struct shim *s)
{
    const struct stored_attempt *a = store_attempt(c, s->job, s->attempt);
    for (size_t i = 0; a && is_live(&a->r) && i < a->r.n_nodes; i++)
        if (strcmp(a->r.nodes[i].node, g->name) == 0 && !is_kept(&a->r.nodes[i], s))
            cell_fail(c, "a report of %s of %lld.%lld (%s) was acknowledged and is not stored", g->name,
                      (long long)s->job, (long long)s->attempt, report_phase_name(s->report.phase));
}

/* ---- an attempt ends: only when nothing of it is left, or where its node is down (fenced off) ---- */

void check_ended_attempt(struct cell *c, const struct attempt_record *a)
{
    struct stored_attempt *stored = store_attempt(c, a->job, a->number);
    for (size_t i = 0; i < c->n_agents; i++) {
        const struct shim *s = agent_shim(&c->agents[i], a->job, a->number);
        if (!s || shim_final(s))
            continue;
        stored->fenced[i] = true;
        if (c->nodes[i].state != NODE_DOWN && shim_running(s) > 0)
            cell_fail(c, "attempt %lld.%lld has ended, and %zu ranks of it run on %s, which is %s", ID(a),
                      shim_running(s), c->agents[i].name, node_state_name(c->nodes[i].state));
        if (c->nodes[i].state != NODE_DOWN && s->todo == TODO_START)
            cell_fail(c, "attempt %lld.%lld has ended, and starts on %s", ID(a), c->agents[i].name);
    }
}

/* ---- orders are what was committed ---- */

static enum order_phase phase_of(enum attempt_state state)
{
    return state == ATTEMPT_PREPARING ? ORDER_PREPARE : state == ATTEMPT_STOPPING ? ORDER_STOP : ORDER_GO;
}

static size_t ranks_on(const struct attempt_record *a, const char *node)
{
    size_t n = 0;
    for (size_t r = 0; r < a->world; r++)
        n += strcmp(a->placement[r].node, node) == 0;
    return n;
}

static void check_map(struct cell *c, const struct attempt_record *a, const struct link_order *o)
{
    size_t ranks = 0;
    if (o->n_map != a->n_nodes)
        cell_fail(c, "attempt %lld.%lld goes with a map of %zu nodes of %zu", ID(a), o->n_map, a->n_nodes);
    for (size_t i = 0; i < o->n_map; i++) {
        const struct link_map_node *m = &o->map[i];
        if (m->port == 0 || m->n_ranks != ranks_on(a, m->node))
            cell_fail(c, "attempt %lld.%lld: the map is wrong about %s", ID(a), m->node);
        for (size_t k = 0; k < m->n_ranks; k++)
            if (strcmp(a->placement[m->ranks[k]].node, m->node) != 0)
                cell_fail(c, "attempt %lld.%lld: the map has rank %lld on %s", ID(a), (long long)m->ranks[k],
                          m->node);
        ranks += m->n_ranks;
    }
    if (ranks != a->world)
        cell_fail(c, "attempt %lld.%lld: the map has %zu ranks of %zu", ID(a), ranks, a->world);
}

static void check_order(struct cell *c, const struct agent *g, const struct link_order *o)
{
    const struct stored_attempt *stored = store_attempt(c, o->job, o->attempt);
    if (!stored || !is_live(&stored->r))
        cell_fail(c, "%s has an order for %lld.%lld, which is not stored as living", g->name,
                  (long long)o->job, (long long)o->attempt);
    const struct attempt_record *a = &stored->r;
    if (o->phase != phase_of(a->state) || strcmp(o->token, a->token) != 0 || o->world != (int64_t)a->world ||
        o->n_ranks != ranks_on(a, g->name))
        cell_fail(c, "the order of %s for %lld.%lld is not what was stored", g->name, ID(a));
    for (size_t i = 0; i < o->n_ranks; i++) {
        const struct placed_rank *p = &a->placement[o->ranks[i].rank];
        if (strcmp(p->node, g->name) != 0 || p->slot != o->ranks[i].slot)
            cell_fail(c, "the order of %s for %lld.%lld puts rank %lld on slot %lld", g->name, ID(a),
                      (long long)p->rank, (long long)o->ranks[i].slot);
    }
    if (o->phase == ORDER_GO)
        check_map(c, a, o);
}

void check_orders(struct cell *c, const struct agent *g, const struct link_order *orders, size_t n)
{
    size_t wanted = 0;
    for (size_t i = 0; i < n; i++)
        check_order(c, g, &orders[i]);
    for (size_t i = 0; i < c->n_attempts; i++)
        wanted += is_live(&c->attempts[i].r) && ranks_on(&c->attempts[i].r, g->name) > 0;
    if (wanted != n)
        cell_fail(c, "%s has %zu orders, stored are %zu living attempts there", g->name, n, wanted);
}

/* ---- ranks start: the whole gang is ready, and nobody else is there ---- */

static void check_alone(struct cell *c, const struct agent *g, const struct shim *s)
{
    for (size_t i = 0; i < SHIMS_MAX; i++) {
        const struct shim *o = &g->shims[i];
        if (!o->used || o == s || shim_running(o) == 0)
            continue;
        if (o->job == s->job)
            cell_fail(c, "%s runs attempts %lld and %lld of job %lld", g->name, (long long)o->attempt,
                      (long long)s->attempt, (long long)s->job);
        for (size_t k = 0; k < o->report.n_ranks; k++)
            for (size_t m = 0; m < s->report.n_ranks; m++)
                if (o->report.ranks[k].state == RANK_RUNNING &&
                    o->report.ranks[k].slot == s->report.ranks[m].slot)
                    cell_fail(c, "slot %lld of %s runs a rank of %lld.%lld and one of %lld.%lld",
                              (long long)s->report.ranks[m].slot, g->name, (long long)o->job,
                              (long long)o->attempt, (long long)s->job, (long long)s->attempt);
    }
}

void check_start(struct cell *c, const struct agent *g, const struct shim *s)
{
    struct stored_attempt *stored = store_attempt(c, s->job, s->attempt);
    if (!stored || stored->r.state == ATTEMPT_PREPARING)
        cell_fail(c, "ranks of %lld.%lld start on %s before go was stored", (long long)s->job,
                  (long long)s->attempt, g->name);
    const struct attempt_record *a = &stored->r;
    if (!is_live(a) && !stored->fenced[g->index])
        cell_fail(c, "ranks of %lld.%lld start on %s after its end", ID(a), g->name);
    for (size_t i = 0; i < a->n_nodes; i++)
        if (!stored->ready[cell_agent(c, a->nodes[i].node)->index])
            cell_fail(c, "ranks of %lld.%lld start on %s while %s was never ready", ID(a), g->name,
                      a->nodes[i].node);
    for (size_t i = 0; i < s->report.n_ranks; i++) {
        const struct placed_rank *p = &a->placement[s->report.ranks[i].rank];
        if (strcmp(p->node, g->name) != 0 || p->slot != s->report.ranks[i].slot)
            cell_fail(c, "rank %lld of %lld.%lld starts on slot %lld of %s; stored is slot %lld of %s",
                      (long long)p->rank, ID(a), (long long)s->report.ranks[i].slot, g->name,
                      (long long)p->slot, p->node);
    }
    check_alone(c, g, s);
}

/* ---- long after the last fault ---- */

static int64_t free_slots(const struct cell *c)
{
    int64_t n = 0;
    for (size_t i = 0; i < c->n_agents; i++)
        n += c->agents[i].lost ? 0 : core_node_free_slots(c->core, c->agents[i].name);
    return n;
}

/* One node could take it whole; then nothing explains that it waits. */
static bool fits_plainly(struct cell *c, const struct job_record *j)
{
    struct job_spec *s = spec_of(c, j->id);
    job_resize(s, job_dp_at_least(s, 1)); /* an elastic job starts with any size */
    bool plain = s->memory * SLOTS_MAX <= INT64_C(64) << 30, fits = false;
    for (size_t i = 0; i < c->n_agents; i++)
        fits = fits || (!c->agents[i].lost && core_node_free_slots(c->core, c->agents[i].name) >= s->ranks);
    fits = fits || (s->tp == 1 && !s->placement.pp.required && !s->placement.dp.required &&
                    !s->placement.cp.required && free_slots(c) >= s->ranks);
    job_spec_free(s);
    return plain && fits;
}

/* `belay why` fits the job's state; right after a turn nothing waits that could start. */
static void check_verdict(struct cell *c, const struct job_record *j, bool calm)
{
    struct verdict v;
    if (explain_job(c->core, cell_time(c), j->id, &v) != 0)
        cell_fail(c, "job %lld has no verdict", (long long)j->id);
    bool waits = j->state == JOB_PENDING || j->state == JOB_RESTARTING || j->state == JOB_PREEMPTED;
    bool runs = v.kind == VERDICT_RUNS, fits = v.kind == VERDICT_NOW || (calm && v.kind == VERDICT_OTHER);
    if (!v.sentence || v.sentence[0] == '\0' || (waits && fits) || (waits && calm && runs) ||
        (job_state_final(j->state) && !runs))
        cell_fail(c, "job %lld is %s (%s); why says %s: %s", (long long)j->id, job_state_name(j->state),
                  j->reason, verdict_kind_name(v.kind), v.sentence ? v.sentence : "nothing");
    verdict_clear(&v);
}

void check_verdicts(struct cell *c, bool calm)
{
    for (int64_t id = 1; id < c->next_job; id++)
        check_verdict(c, &c->jobs[id], calm);
}

static void check_wish(struct cell *c, int64_t id)
{
    const struct promise *p = &c->promises[id];
    const struct job_record *j = &c->jobs[id];
    bool final = job_state_final(j->state);
    if (p->cancelled_at >= 0 && !final)
        cell_fail(c, "job %lld was cancelled and is still %s (%s)", (long long)id, job_state_name(j->state),
                  j->reason);
    if (p->held_at >= 0 && !final && j->state != JOB_HELD)
        cell_fail(c, "job %lld was held and is still %s (%s)", (long long)id, job_state_name(j->state),
                  j->reason);
}

void check_wishes(struct cell *c)
{
    for (int64_t id = 1; id <= JOBS_MAX; id++)
        if (c->promises[id].yaml)
            check_wish(c, id);
    for (size_t i = 0; i < c->n_agents; i++)
        if (c->drain_promised[i] && !c->agents[i].lost && c->nodes[i].state != NODE_DRAINED)
            cell_fail(c, "%s was to be drained and is still %s (%s)", c->agents[i].name,
                      node_state_name(c->nodes[i].state), c->nodes[i].reason);
}

static void check_calm_node(struct cell *c, const struct agent *g)
{
    const struct node_record *n = &c->nodes[g->index];
    bool unheard = g->lost && n->name[0] == '\0'; /* no hello of it was ever committed */
    if (!unheard && n->state != (g->lost ? NODE_DOWN : NODE_UP))
        cell_fail(c, "%s is %s (%s), long after the last fault", g->name, node_state_name(n->state),
                  n->reason);
}

/* What the store calls running is there; a node whose part is over may be gone. */
static void check_runs(struct cell *c, const struct attempt_record *a)
{
    for (size_t i = 0; i < a->n_nodes; i++) {
        struct agent *g = cell_agent(c, a->nodes[i].node);
        const struct shim *s = agent_shim(g, a->job, a->number);
        bool there = !g->lost && s && (shim_final(s) || shim_running(s) > 0);
        if (!there && !is_final(&a->nodes[i]))
            cell_fail(c, "attempt %lld.%lld is running, and nothing of it is on %s", ID(a), g->name);
    }
}

/* While nothing goes wrong, a job is stopped to grow only when it does grow. */
static void check_growth(struct cell *c, const struct attempt_record *a)
{
    const struct stored_attempt *next = store_attempt(c, a->job, a->number + 1);
    bool over = !next && job_state_final(c->jobs[a->job].state); /* its time limit, in between */
    if (a->outcome != OUTCOME_RESIZED || a->ended_ms == 0 || a->created_ms < c->calm_ms || over)
        return;
    if (!next || next->r.world <= a->world)
        cell_fail(c, "attempt %lld.%lld was stopped to grow from %zu ranks, and the next one has %zu", ID(a),
                  a->world, next ? next->r.world : 0);
}

/* Nobody waits, and a replica of one rank would find a slot anywhere. Those that are asked for a checkpoint have more time for it than jobs
 * here need (act_save), unless their grace is short. */
static void check_grown(struct cell *c, const struct attempt_record *a)
{
    struct job_spec *s = spec_of(c, a->job);
    int64_t more = job_dp_at_least(s, (int64_t)a->world + 1) - (int64_t)a->world;
    bool plain = s->tp * s->pp * s->cp == 1 && !s->placement.dp.required && s->memory == 0 &&
                 s->limits.grace_ms >= 30000;
    if (plain && more > 0 && free_slots(c) >= more)
        cell_fail(c, "attempt %lld.%lld has %zu ranks, although there is room for %lld more", ID(a), a->world,
                  (long long)more);
    job_spec_free(s);
}

static void check_sizes(struct cell *c)
{
    bool waits = false;
    for (int64_t id = 1; id < c->next_job; id++)
        waits = waits || c->jobs[id].state == JOB_PENDING || c->jobs[id].state == JOB_RESTARTING ||
                c->jobs[id].state == JOB_PREEMPTED;
    for (size_t i = 0; i < c->n_attempts; i++) {
        check_growth(c, &c->attempts[i].r);
        if (!waits && c->attempts[i].r.state == ATTEMPT_RUNNING)
            check_grown(c, &c->attempts[i].r);
    }
}

void check_calm(struct cell *c)
{
    check_sizes(c);
    check_verdicts(c, true);
    for (size_t i = 0; i < c->n_agents; i++)
        check_calm_node(c, &c->agents[i]);
    for (size_t i = 0; i < c->n_attempts; i++)
        if (is_live(&c->attempts[i].r) && c->attempts[i].r.state != ATTEMPT_RUNNING)
            cell_fail(c, "attempt %lld.%lld is stuck: it is %s (%s)", ID(&c->attempts[i].r),
                      attempt_state_name(c->attempts[i].r.state), c->attempts[i].r.reason);
    for (size_t i = 0; i < c->n_attempts; i++)
        if (is_live(&c->attempts[i].r))
            check_runs(c, &c->attempts[i].r);
    for (int64_t id = 1; id < c->next_job; id++) {
        const struct job_record *j = &c->jobs[id];
        bool waits = j->state == JOB_PENDING || j->state == JOB_RESTARTING || j->state == JOB_PREEMPTED;
        if (j->state == JOB_HELD)
            cell_fail(c, "job %lld is held although it was released", (long long)id);
        if (waits && fits_plainly(c, j))
            cell_fail(c, "job %lld is stuck: it is %s (%s) although it fits", (long long)id,
                      job_state_name(j->state), j->reason);
    }
}

void check_end(struct cell *c)
{
    for (int64_t id = 1; id < c->next_job; id++)
        if (!job_state_final(c->jobs[id].state))
            cell_fail(c, "job %lld never ends: it is %s (%s)", (long long)id,
                      job_state_name(c->jobs[id].state), c->jobs[id].reason);
    for (size_t i = 0; i < c->n_agents; i++) {
        const struct agent *g = &c->agents[i];
        if (c->nodes[i].name[0] && core_node_free_slots(c->core, g->name) != g->slots)
            cell_fail(c, "%s has %lld free slots of %lld after the end of all jobs", g->name,
                      (long long)core_node_free_slots(c->core, g->name), (long long)g->slots);
        for (size_t k = 0; k < SHIMS_MAX; k++)
            if (g->shims[k].used && !g->lost)
                cell_fail(c, "%s still has attempt %lld.%lld (%s)", g->name, (long long)g->shims[k].job,
                          (long long)g->shims[k].attempt, report_phase_name(g->shims[k].report.phase));
    }
}
