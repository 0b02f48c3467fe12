/* cell: see cell.h. */
#include "tests/sim/cell.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

struct core_time cell_time(const struct cell *c)
{
    return (struct core_time){c->now_ms, c->mono_ms};
}

int64_t cell_pick(struct cell *c, int64_t n)
{
    return (int64_t)random_below(&c->random, (uint64_t)n);
}

bool cell_chance(struct cell *c, int thousandths)
{
    return !c->healed && cell_pick(c, 1000) < thousandths;
}

/* ---- what happened, and the end of a run that went wrong ---- */

void cell_note(struct cell *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *text = str_vprintf(fmt, args);
    va_end(args);
    char *line = str_printf("%5" PRId64 " %8.3f s  %s\n", c->step, (double)(c->mono_ms - 5000) / 1e3, text);
    size_t n = strlen(line);
    if (c->trace)
        (void)fputs(line, stdout);
    if (c->log_len + n + 1 > c->log_room) {
        c->log_room = 2 * c->log_room + n + 4096;
        c->log = mem_grow(c->log, c->log_room, 1);
    }
    memcpy(c->log + c->log_len, line, n + 1);
    c->log_len += n;
    free(line);
    free(text);
}

enum { LINES_SHOWN = 40 };

static const char *tail_of(const struct cell *c)
{
    const char *at = c->log + c->log_len;
    for (int lines = 0; at > c->log && lines <= LINES_SHOWN; at--)
        lines += at[-1] == '\n';
    while (at > c->log && at[-1] != '\n')
        at--;
    return at;
}

void cell_fail(struct cell *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *text = str_vprintf(fmt, args);
    va_end(args);
    if (!c->trace && c->log)
        printf("%s", tail_of(c));
    printf("FAILED: seed %" PRIu64 ", step %" PRId64 ": %s\nreplay: %s --seed %" PRIu64 " --trace\n", c->seed,
           c->step, text, c->program, c->seed);
    (void)fflush(stdout);
    exit(1);
}

/* ---- requests ---- */

static void drop_requests(struct cell *c)
{
    for (size_t i = 0; i < c->n_requests; i++) {
        free(c->requests[i].yaml);
        free(c->requests[i].key);
    }
    c->n_requests = 0;
}

static void promise_submit(struct cell *c, struct request *q)
{
    struct promise *p = &c->promises[q->job];
    if (p->yaml)
        return; /* the same key again */
    *p = (struct promise){.yaml = q->yaml, .key = q->key, .cancelled_at = -1, .held_at = -1};
    q->yaml = q->key = NULL;
}

static void promise_verb(struct cell *c, const struct request *q)
{
    struct promise *p = &c->promises[q->job];
    int64_t attempt = c->jobs[q->job].attempt;
    if (q->revives)
        p->cancelled_at = p->held_at = -1;
    if (q->verb == CORE_CANCEL)
        p->cancelled_at = attempt;
    p->ever_held = p->ever_held || q->verb == CORE_HOLD;
    if (q->verb == CORE_HOLD)
        p->held_at = attempt;
    if (q->verb == CORE_RELEASE)
        p->held_at = -1;
}

static void answer(struct cell *c)
{
    for (size_t i = 0; i < c->n_requests; i++) {
        struct request *q = &c->requests[i];
        if (q->kind == ASK_SUBMIT)
            promise_submit(c, q);
        else if (q->kind == ASK_VERB)
            promise_verb(c, q);
        else
            c->drain_promised[q->agent] = q->kind == ASK_DRAIN;
    }
    drop_requests(c);
}

/* ---- the controller ---- */

/* Reports that were told in this turn are kept for good now; an acknowledgement may be lost. */
static void acknowledge(struct cell *c)
{
    for (size_t i = 0; i < c->n_agents; i++)
        for (size_t k = 0; k < SHIMS_MAX; k++) {
            struct shim *s = &c->agents[i].shims[k];
            if (!s->used || !s->unacked)
                continue;
            check_acknowledged(c, &c->agents[i], s);
            s->unacked = false;
            s->unsent = s->unsent || cell_chance(c, c->repeat);
        }
}

/* What was told and not committed is told again. */
static void forget_told(struct cell *c)
{
    for (size_t i = 0; i < c->n_agents; i++)
        for (size_t k = 0; k < SHIMS_MAX; k++) {
            struct shim *s = &c->agents[i].shims[k];
            s->unsent = s->unsent || s->unacked;
            s->unacked = false;
        }
}

/* With nothing uncommitted, the new core must hold the slots that the old one held, kept ones included. */
static void check_same_slots(struct cell *c, const int64_t before[AGENTS_MAX])
{
    core_turn(c->core, cell_time(c));
    for (size_t i = 0; i < c->n_agents; i++) {
        const char *name = c->agents[i].name;
        int64_t now = core_node_free_slots(c->core, name);
        if (now != before[i])
            cell_fail(c, "%s has %lld free slots after the controller's restart, and had %lld before", name,
                      (long long)now, (long long)before[i]);
    }
}

static void kill_after_commit(struct cell *c)
{
    int64_t before[AGENTS_MAX] = {0};
    /* else the next turn changes something by itself */
    bool at_rest = core_next_wakeup(c->core) > c->mono_ms;
    for (size_t i = 0; i < c->n_agents; i++)
        before[i] = core_node_free_slots(c->core, c->agents[i].name);
    cell_kill(c);
    if (at_rest)
        check_same_slots(c, before);
}

void cell_kill(struct cell *c)
{
    cell_note(c, "controller killed");
    core_free(c->core);
    drop_requests(c);
    forget_told(c);
    c->config.seed++;
    c->core = core_new(&c->config, cell_time(c));
    store_load(c);
    for (size_t i = 0; i < c->n_agents; i++)
        agent_cut(c, &c->agents[i], false);
}

static void copy_names(const struct core_changes *changes, struct cell *c, bool *wanted)
{
    for (size_t i = 0; i < changes->n_order_nodes; i++)
        wanted[cell_agent(c, changes->order_nodes[i])->index] = true;
}

void cell_turn(struct cell *c)
{
    bool wanted[AGENTS_MAX] = {false};
    core_turn(c->core, cell_time(c));
    if (cell_chance(c, c->kill)) {
        cell_kill(c); /* nothing of this turn was committed */
        return;
    }
    store_commit(c);
    copy_names(core_changes(c->core), c, wanted);
    core_changes_clear(c->core);
    answer(c);
    if (cell_chance(c, 50))
        check_verdicts(c, false);
    if (cell_chance(c, c->kill)) {
        kill_after_commit(c); /* what was committed holds, whether or not somebody was told */
        return;
    }
    acknowledge(c);
    for (size_t i = 0; i < c->n_agents; i++)
        if (wanted[i] && c->agents[i].linked)
            agent_send_orders(c, &c->agents[i]);
}

/* ---- time ---- */

static void beat(struct cell *c)
{
    for (size_t i = 0; i < c->n_agents; i++) {
        struct agent *g = &c->agents[i];
        if (!agent_speaks(g) || c->mono_ms - g->beat_ms < 1000)
            continue;
        g->beat_ms = c->mono_ms;
        core_node_heartbeat(c->core, cell_time(c), g->name);
    }
}

void cell_pass(struct cell *c, int64_t ms)
{
    while (ms > 0) {
        int64_t part = ms < 250 ? ms : 250;
        ms -= part;
        c->now_ms += part;
        c->mono_ms += part;
        beat(c);
        if (core_next_wakeup(c->core) <= c->mono_ms)
            cell_turn(c);
    }
}

/* ---- making one ---- */

static void make_agent(struct cell *c, size_t i)
{
    struct agent *g = &c->agents[i];
    g->index = i;
    (void)snprintf(g->name, sizeof(g->name), "node%zu", i);
    (void)snprintf(g->rack, sizeof(g->rack), "rack%zu", i / 4);
    (void)snprintf(g->pod, sizeof(g->pod), "pod%zu", i / 8);
    g->up = true;
    g->slots = 1 + cell_pick(c, cell_pick(c, 2) ? SLOTS_MAX : 2);
    c->n_slots += g->slots;
}

static void draw_badness(struct cell *c)
{
    static const int kills[] = {0, 0, 5, 20, 100};
    c->lose = (int)cell_pick(c, 300);
    c->repeat = (int)cell_pick(c, 300);
    c->kill = kills[cell_pick(c, 5)];
    c->late = (int)cell_pick(c, 700);
    c->replays = cell_pick(c, 2);
    c->mpi = cell_pick(c, 2);
    c->loses = cell_pick(c, 3) == 0;
}

struct cell *cell_new(uint64_t seed, const char *program, bool trace)
{
    struct cell *c = mem_zero(1, sizeof(*c));
    c->seed = seed;
    c->program = program;
    c->trace = trace;
    c->random = random_stream(seed, 77);
    core_config_defaults(&c->config);
    c->config.seed = seed;
    c->now_ms = CELL_UTC;
    c->mono_ms = 5000;
    c->next_job = c->next_event = 1;
    c->saves = 1000; /* beyond all that is said before */
    draw_badness(c);
    c->n_agents = 2 + (size_t)cell_pick(c, AGENTS_MAX - 1);
    c->core = core_new(&c->config, cell_time(c));
    for (size_t i = 0; i < c->n_agents; i++) {
        make_agent(c, i);
        agent_hello(c, &c->agents[i]);
    }
    cell_turn(c);
    return c;
}

void cell_free(struct cell *c)
{
    drop_requests(c);
    for (size_t i = 0; i < c->n_agents; i++)
        agent_reset(c, &c->agents[i]);
    for (size_t i = 0; i <= JOBS_MAX; i++) {
        free(c->promises[i].yaml);
        free(c->promises[i].key);
    }
    core_free(c->core);
    store_free(c);
    free(c->log);
    free(c);
}
