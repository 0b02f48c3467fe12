/* Seeded random faults: every event may be lost, repeated or late, nodes and the controller come and go, users interfere.
 *
 * world.h checks the invariants at every commit: no slot given twice, never two attempts of one job, no `go` before all are ready, no
 * acknowledged job lost. Then everything is healed, and every job must come to its end. */
#include "common/mem.h"
#include "tests/unit/core/world.h"

enum { SEEDS = 500, STEPS = 60, NODES = 4, SLOTS = 2, JOBS_MAX = 24 };

static int64_t pick(struct world *w, int64_t n)
{
    return (int64_t)(world_random(w) % (uint64_t)n);
}

static int64_t pick_job(struct world *w)
{
    return w->next_job > 1 ? 1 + pick(w, w->next_job - 1) : 0;
}

static struct agent *pick_agent(struct world *w)
{
    return &w->agents[pick(w, NODES)];
}

/* A shim of the job's newest attempt with running ranks, and one of these. */
static struct shim *pick_running(struct world *w, int64_t id, struct link_rank **rank)
{
    const struct attempt_record *a = id ? world_attempt(w, id) : NULL;
    for (size_t i = 0; a && i < NODES; i++) {
        struct shim *s = world_shim(&w->agents[i], id, a->number);
        for (size_t k = 0; s && s->report.phase == REPORT_RUNNING && k < s->report.n_ranks; k++)
            if (s->report.ranks[k].state == RANK_RUNNING && (!*rank || pick(w, 3) == 0)) {
                *rank = &s->report.ranks[k];
                return s;
            }
    }
    return NULL;
}

static void submit(struct world *w)
{
    static const char *const kinds[] = {
        "", "priority: 2\n", "checkpoint: {directory: ck%d}\nrestart: {max: 3, window: 1h, backoff: 1s}\n",
        "limits: {time: 90s}\nrestart: {max: 1}\n"};
    if (w->next_job > JOBS_MAX)
        return;
    char *more = str_printf("%s", kinds[pick(w, 4)]);
    char *at = strstr(more, "%d"); /* each its own directory */
    if (at) {
        at[0] = (char)('a' + w->next_job / 10);
        at[1] = (char)('0' + w->next_job % 10);
    }
    world_run(w, 1 + (int)pick(w, NODES * SLOTS - 1), more);
    free(more);
}

static void end_a_rank(struct world *w)
{
    static const int codes[] = {0, 0, 0, 1, 1, 93, 94, 95};
    struct link_rank *rank = NULL;
    struct shim *s = pick_running(w, pick_job(w), &rank);
    if (!s)
        return;
    rank->state = RANK_EXITED;
    rank->code = codes[pick(w, 8)];
    rank->signal = pick(w, 6) == 0 ? 9 : 0;
    rank->finalized = rank->connected && rank->code == 0 && pick(w, 4) != 0;
    rank->ended_ms = w->now_ms;
    bool running = false;
    for (size_t i = 0; i < s->report.n_ranks; i++)
        running = running || s->report.ranks[i].state == RANK_RUNNING;
    shim_set(s, running ? REPORT_RUNNING : REPORT_GONE);
}

static void lose_a_shim(struct world *w)
{
    struct link_rank *rank = NULL;
    struct shim *s = pick_running(w, pick_job(w), &rank);
    if (!s)
        return;
    shim_end_ranks(w, s, 0, 9);
    shim_set(s, REPORT_LOST);
}

static void steps(struct world *w)
{
    int64_t id = pick_job(w);
    if (!id || world_job(w, id)->state != JOB_RUNNING)
        return;
    if (pick(w, 2))
        world_say(w, id, 0, "CHECKPOINT_ON", "SIGUSR1");
    int64_t step = world_job(w, id)->progress.step;
    if (world_job(w, id)->state == JOB_RUNNING)
        world_say_step(w, id, "STEP", step < 0 ? 1 : step + 1 - pick(w, 3) % (step + 1));
    if (pick(w, 3) == 0 && world_job(w, id)->state == JOB_RUNNING)
        world_say_step(w, id, "CHECKPOINT_DURABLE", 1 + pick(w, 50));
}

static void wish(struct world *w)
{
    static const enum core_job_verb verbs[] = {CORE_CANCEL,  CORE_HOLD,    CORE_RELEASE,
                                               CORE_RELEASE, CORE_REQUEUE, CORE_REQUEUE};
    enum core_refusal why;
    struct err err = {""};
    int64_t id = pick_job(w);
    if (id && core_job_request(w->core, world_time(w), id, verbs[pick(w, 6)], "ann", &why, &err) != 0)
        assert_true(err.text[0] != '\0');
}

static void drain_or_not(struct world *w)
{
    enum core_refusal why;
    struct err err = {""};
    const char *name = pick_agent(w)->name;
    if (pick(w, 2))
        core_drain(w->core, world_time(w), name, "why not", pick(w, 2) ? w->now_ms + 4000 : 0,
                   pick(w, 3) == 0, &why, &err);
    else
        core_undrain(w->core, world_time(w), name, &why, &err);
}

static void break_link(struct world *w)
{
    struct agent *g = pick_agent(w);
    if (g->linked && pick(w, 2)) {
        g->linked = false;
        core_node_link_lost(w->core, world_time(w), g->name);
    } else {
        g->mute = !g->mute;
    }
}

static void mend_link(struct world *w)
{
    struct agent *g = pick_agent(w);
    g->mute = false;
    if (!g->linked || pick(w, 4) == 0) /* a second hello while the link is alive is fine */
        agent_hello(w, g);
}

/* The machine is reset: everything on it is gone, and nobody will ever report it. */
static void reset_node(struct world *w)
{
    struct agent *g = pick_agent(w);
    for (size_t i = 0; i < WORLD_SHIMS; i++)
        if (g->shims[i].used) {
            link_report_clear(&g->shims[i].report);
            g->shims[i].used = false;
        }
    link_report_clear(&g->old);
    if (g->linked)
        core_node_link_lost(w->core, world_time(w), g->name);
    g->linked = false;
    g->mute = false;
}

static void temper(struct world *w)
{
    struct agent *g = pick_agent(w);
    g->refuse = pick(w, 3) == 0;
    g->slow = pick(w, 6) == 0;
}

static void restart(struct world *w)
{
    world_restart(w);
}

static void wait_a_while(struct world *w)
{
    world_pass(w, 100 + pick(w, 4000));
}

static void act(struct world *w)
{
    static void (*const acts[])(struct world *) = {
        submit,    submit,     end_a_rank,  end_a_rank,   end_a_rank,   steps,
        steps,     wish,       lose_a_shim, drain_or_not, break_link,   mend_link,
        mend_link, reset_node, temper,      restart,      wait_a_while, wait_a_while};
    acts[pick(w, sizeof(acts) / sizeof(acts[0]))](w);
    if (pick(w, 3))
        world_pump(w);
}

static void heal(struct world *w)
{
    enum core_refusal why;
    struct err err = {""};
    w->lose = w->repeat = 0;
    for (size_t i = 0; i < NODES; i++) {
        w->agents[i].refuse = w->agents[i].slow = w->agents[i].mute = false;
        agent_hello(w, &w->agents[i]);
        core_undrain(w->core, world_time(w), w->agents[i].name, &why, &err);
    }
    for (int64_t id = 1; id < w->next_job; id++)
        core_job_request(w->core, world_time(w), id, CORE_RELEASE, "ann", &why, &err);
    world_pump(w);
}

static void finish_running(struct world *w)
{
    for (int64_t id = 1; id < w->next_job; id++) {
        struct link_rank *rank = NULL;
        for (struct shim *s; world_job(w, id)->state == JOB_RUNNING && (s = pick_running(w, id, &rank));
             rank = NULL)
            shim_end_ranks(w, s, 0, 0);
    }
    world_pass(w, 1000);
}

static const struct job_record *unfinished(const struct world *w)
{
    for (int64_t id = 1; id < w->next_job; id++)
        if (!job_state_final(world_job(w, id)->state))
            return world_job(w, id);
    return NULL;
}

static void check_all_end(struct world *w, uint64_t seed)
{
    heal(w);
    for (int i = 0; i < 900 && unfinished(w); i++)
        finish_running(w);
    const struct job_record *j = unfinished(w);
    if (j)
        fail_msg("seed %llu: job %lld is still %s: %s\n%s", (unsigned long long)seed, (long long)j->id,
                 job_state_name(j->state), j->reason, w->log);
    for (size_t i = 0; i < NODES; i++)
        assert_int_equal(core_node_free_slots(w->core, w->agents[i].name), SLOTS);
}

static void test_random_faults(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world *w = world_new(NODES, SLOTS);
        w->random = seed * 0x9e3779b97f4a7c15u;
        w->lose = (int)pick(w, 300);
        w->repeat = (int)pick(w, 300);
        w->mpi = pick(w, 2);
        for (int i = 0; i < STEPS; i++)
            act(w);
        check_all_end(w, seed);
        world_free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_faults),
    };
    return cmocka_run_group_tests_name("core random", tests, NULL, NULL);
}
