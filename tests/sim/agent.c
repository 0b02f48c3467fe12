/* agent: a node's agent and its shims. Orders arrive as mail and are read one after the other; what they ask for is only noted (todo) and
 * done at some later micro-step, so that everything may be overtaken by everything else. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/sim/cell.h"

bool agent_speaks(const struct agent *g)
{
    return g->up && g->linked && !g->mute;
}

/* ---- shims ---- */

struct shim *agent_shim(struct agent *g, int64_t job, int64_t attempt)
{
    for (size_t i = 0; i < SHIMS_MAX; i++)
        if (g->shims[i].used && g->shims[i].job == job && g->shims[i].attempt == attempt)
            return &g->shims[i];
    return NULL;
}

bool shim_final(const struct shim *s)
{
    enum report_phase p = s->report.phase;
    return p == REPORT_GONE || p == REPORT_REFUSED || p == REPORT_LOST;
}

void shim_tell(struct shim *s, enum report_phase phase)
{
    s->report.phase = phase;
    s->report.rev++;
    s->unsent = true;
    s->unacked = false;
}

size_t shim_running(const struct shim *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->report.n_ranks; i++)
        n += s->report.ranks[i].state == RANK_RUNNING;
    return n;
}

void shim_end_ranks(struct cell *c, struct shim *s, int code, int signal)
{
    for (size_t i = 0; i < s->report.n_ranks; i++) {
        struct link_rank *r = &s->report.ranks[i];
        if (r->state != RANK_RUNNING)
            continue;
        r->state = RANK_EXITED;
        r->code = code;
        r->signal = signal;
        r->ended_ms = c->now_ms;
        r->finalized = r->connected && code == 0 && signal == 0;
    }
    s->todo = TODO_NOTHING;
    shim_tell(s, REPORT_GONE);
}

static void drop_shim(struct shim *s)
{
    link_report_clear(&s->report);
    *s = (struct shim){.used = false};
}

static struct shim *new_shim(struct cell *c, struct agent *g, const struct order *o)
{
    size_t i = 0;
    while (i < SHIMS_MAX && g->shims[i].used)
        i++;
    if (i == SHIMS_MAX)
        cell_fail(c, "%s has more than %d attempts", g->name, SHIMS_MAX);
    struct shim *s = &g->shims[i];
    *s = (struct shim){.used = true, .job = o->job, .attempt = o->attempt, .phase = o->phase};
    memcpy(s->token, o->token, sizeof(s->token));
    s->stubborn = cell_chance(c, 200);
    s->lingers_ms = cell_chance(c, 200) ? cell_pick(c, 20000) : 0; /* some hang in the kernel */
    s->report = (struct link_report){.job = o->job, .attempt = o->attempt};
    s->report.n_ranks = o->n_ranks;
    s->report.ranks = mem_zero(o->n_ranks + 1, sizeof(struct link_rank));
    for (size_t k = 0; k < o->n_ranks; k++)
        s->report.ranks[k] = (struct link_rank){.rank = o->ranks[k].rank, .slot = o->ranks[k].slot};
    return s;
}

/* ---- work ---- */

static void prepare(struct cell *c, struct agent *g, struct shim *s)
{
    s->todo = TODO_NOTHING;
    s->report.port = 40000 + s->job;
    s->report.master_port = 20000;
    if (g->refuses || g->leaving)
        (void)snprintf(s->report.reason, sizeof(s->report.reason), "no space left on device");
    shim_tell(s, g->refuses || g->leaving ? REPORT_REFUSED : REPORT_READY);
    struct stored_attempt *a = store_attempt(c, s->job, s->attempt);
    if (a && s->report.phase == REPORT_READY)
        a->ready[g->index] = true;
}

static void start(struct cell *c, struct agent *g, struct shim *s)
{
    s->todo = TODO_NOTHING;
    for (size_t i = 0; i < s->report.n_ranks; i++) {
        struct link_rank *r = &s->report.ranks[i];
        r->state = RANK_RUNNING;
        r->pid = 1000 + r->rank;
        r->connected = c->mpi;
        r->started_ms = c->now_ms;
    }
    check_start(c, g, s);
    shim_tell(s, REPORT_RUNNING);
}

static bool dying(const struct cell *c, const struct shim *s)
{
    if (s->todo != TODO_STOP)
        return false;
    return s->killed ? c->mono_ms < s->dead_by_ms : s->stubborn && c->mono_ms < s->stop_by_ms;
}

static bool due(const struct cell *c, const struct shim *s)
{
    return s->used && s->todo != TODO_NOTHING && !dying(c, s);
}

/* The shims work on while their agent does not. */
bool agent_work(struct cell *c, struct agent *g)
{
    size_t from = (size_t)cell_pick(c, SHIMS_MAX);
    for (size_t i = 0; i < SHIMS_MAX; i++) {
        struct shim *s = &g->shims[(from + i) % SHIMS_MAX];
        if (!due(c, s))
            continue;
        static const char *const words[] = {"", "gets ready", "starts", "stops"};
        cell_note(c, "%s: %lld.%lld %s", g->name, (long long)s->job, (long long)s->attempt, words[s->todo]);
        if (s->todo == TODO_PREPARE)
            prepare(c, g, s);
        else if (s->todo == TODO_START)
            start(c, g, s);
        else
            shim_end_ranks(c, s, 0, s->killed ? 9 : 15);
        return true;
    }
    return false;
}

/* ---- orders ---- */

static void stop(const struct cell *c, struct shim *s, int64_t grace_ms, bool kill)
{
    if (shim_final(s))
        return;
    if (s->todo != TODO_STOP)
        s->stop_by_ms = c->mono_ms + grace_ms;
    if (kill && !s->killed)
        s->dead_by_ms = c->mono_ms + s->lingers_ms;
    s->todo = TODO_STOP;
    s->killed = s->killed || kill;
}

static void first_order(struct cell *c, struct agent *g, const struct order *o)
{
    struct shim *s = new_shim(c, g, o);
    if (o->phase == ORDER_PREPARE)
        s->todo = TODO_PREPARE;
    else
        shim_tell(s, o->phase == ORDER_STOP ? REPORT_GONE : REPORT_LOST);
}

static void obey(struct cell *c, struct agent *g, const struct order *o)
{
    struct shim *s = agent_shim(g, o->job, o->attempt);
    if (!s) {
        first_order(c, g, o);
        return;
    }
    if (strcmp(s->token, o->token) != 0)
        cell_fail(c, "attempt %lld.%lld has another token than before", (long long)o->job,
                  (long long)o->attempt);
    if (o->phase < s->phase)
        cell_fail(c, "attempt %lld.%lld is told to %s after %s", (long long)o->job, (long long)o->attempt,
                  order_phase_name(o->phase), order_phase_name(s->phase));
    bool go = o->phase == ORDER_GO && s->phase == ORDER_PREPARE;
    s->phase = o->phase;
    s->checkpoint = o->checkpoint;
    if (go && s->report.phase == REPORT_READY)
        s->todo = TODO_START;
    if (o->phase == ORDER_STOP)
        stop(c, s, o->grace_ms, o->kill);
}

static bool is_ordered(const struct mail *m, const struct shim *s)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->orders[i].job == s->job && m->orders[i].attempt == s->attempt)
            return true;
    return false;
}

static void sweep(struct cell *c, struct agent *g, const struct mail *m)
{
    for (size_t i = 0; i < SHIMS_MAX; i++) {
        struct shim *s = &g->shims[i];
        if (!s->used || is_ordered(m, s))
            continue;
        if (!shim_final(s))
            stop(c, s, 0, true);
        else if (!s->unsent && !s->unacked)
            drop_shim(s);
    }
}

bool agent_read_mail(struct cell *c, struct agent *g)
{
    if (!agent_speaks(g) || g->n_mails == 0)
        return false;
    struct mail m = g->mails[0];
    g->n_mails--;
    memmove(&g->mails[0], &g->mails[1], g->n_mails * sizeof(m));
    cell_note(c, "%s reads %zu orders", g->name, m.n);
    sweep(c, g, &m);
    for (size_t i = 0; i < m.n; i++)
        obey(c, g, &m.orders[i]);
    free(m.orders);
    return true;
}

static void keep_order(struct cell *c, struct order *to, const struct link_order *from)
{
    *to =
        (struct order){.job = from->job, .attempt = from->attempt, .phase = from->phase, .kill = from->kill};
    to->checkpoint = from->checkpoint;
    to->grace_ms = from->grace_ms;
    (void)snprintf(to->token, sizeof(to->token), "%s", from->token);
    if (from->n_ranks > SLOTS_MAX)
        cell_fail(c, "%zu ranks for one node", from->n_ranks);
    to->n_ranks = from->n_ranks;
    memcpy(to->ranks, from->ranks, from->n_ranks * sizeof(to->ranks[0]));
}

static void put_mail(struct agent *g, const struct mail *m)
{
    if (g->n_mails == MAILS_MAX) { /* a slow reader gets only the newest: they are full sets */
        free(g->mails[0].orders);
        g->n_mails--;
        memmove(&g->mails[0], &g->mails[1], g->n_mails * sizeof(*m));
    }
    struct mail *to = &g->mails[g->n_mails++];
    *to = (struct mail){.orders = mem_zero(m->n + 1, sizeof(*m->orders)), .n = m->n};
    if (m->n > 0)
        memcpy(to->orders, m->orders, m->n * sizeof(*m->orders));
}

void agent_send_orders(struct cell *c, struct agent *g)
{
    struct link_order *orders = NULL;
    size_t n = core_node_orders(c->core, g->name, &orders);
    check_orders(c, g, orders, n);
    struct mail m = {.orders = mem_zero(n + 1, sizeof(*m.orders)), .n = n};
    for (size_t i = 0; i < n; i++) {
        keep_order(c, &m.orders[i], &orders[i]);
        link_order_clear(&orders[i]);
    }
    free(orders);
    put_mail(g, &m);
    if (cell_chance(c, c->repeat))
        put_mail(g, &m);
    free(m.orders);
}

/* ---- the link ---- */

static void drop_mails(struct agent *g)
{
    for (size_t i = 0; i < g->n_mails; i++)
        free(g->mails[i].orders);
    g->n_mails = 0;
}

void agent_cut(struct cell *c, struct agent *g, bool tell)
{
    bool was = g->linked;
    g->linked = g->mute = false;
    drop_mails(g);
    if (was && tell)
        core_node_link_lost(c->core, cell_time(c), g->name);
}

static size_t list_reports(const struct agent *g, struct link_report *reports)
{
    size_t n = 0;
    for (size_t i = 0; i < SHIMS_MAX; i++)
        if (g->shims[i].used)
            reports[n++] = g->shims[i].report; /* borrowed */
    return n;
}

void agent_hello(struct cell *c, struct agent *g)
{
    struct link_inventory inventory = {.slots = g->slots, .cores = 8, .memory = INT64_C(64) << 30};
    struct link_report reports[SHIMS_MAX];
    char boot[32];
    (void)snprintf(boot, sizeof(boot), "boot-%lld", (long long)g->boot);
    (void)snprintf(inventory.address, sizeof(inventory.address), "127.0.0.1");
    (void)snprintf(inventory.rack, sizeof(inventory.rack), "%s", g->rack);
    (void)snprintf(inventory.pod, sizeof(inventory.pod), "%s", g->pod);
    struct core_hello hello = {g->name, boot, &inventory, reports, list_reports(g, reports)};
    drop_mails(g);
    g->linked = true;
    g->mute = false;
    g->beat_ms = c->mono_ms;
    c->down[g->index] = false;
    cell_note(c, "%s says hello with %zu attempts", g->name, hello.n_reports);
    core_node_hello(c->core, cell_time(c), &hello);
}

/* Some earlier report arrives once more, late. */
static void replay(struct cell *c, struct agent *g, const struct link_report *newest)
{
    if (!c->replays)
        return;
    if (g->old.job != 0 && cell_chance(c, c->repeat))
        core_node_report(c->core, cell_time(c), g->name, &g->old);
    if (g->old.job == 0 || cell_chance(c, 300))
        link_report_copy(&g->old, newest);
}

bool agent_report(struct cell *c, struct agent *g)
{
    size_t from = (size_t)cell_pick(c, SHIMS_MAX);
    for (size_t i = 0; i < SHIMS_MAX && agent_speaks(g); i++) {
        struct shim *s = &g->shims[(from + i) % SHIMS_MAX];
        if (!s->used || !s->unsent || cell_chance(c, c->lose))
            continue;
        cell_note(c, "%s reports %lld.%lld %s", g->name, (long long)s->job, (long long)s->attempt,
                  report_phase_name(s->report.phase));
        core_node_report(c->core, cell_time(c), g->name, &s->report);
        if (cell_chance(c, c->repeat))
            core_node_report(c->core, cell_time(c), g->name, &s->report);
        replay(c, g, &s->report);
        s->unsent = false;
        s->unacked = true;
        return true;
    }
    return false;
}

void agent_reset(struct cell *c, struct agent *g)
{
    (void)c;
    for (size_t i = 0; i < SHIMS_MAX; i++)
        if (g->shims[i].used)
            drop_shim(&g->shims[i]);
    link_report_clear(&g->old);
    g->old.job = 0;
    g->boot++;
    g->leaving = false;
    drop_mails(g);
}
