/* sim_check: many small clusters, each with its own seed, made to go wrong for a while; after every micro-step the invariants of
 * check.c hold; then all faults end, and everything must come to its end. A seed that fails is printed with the command that runs it again.
 *
 *   sim_check [--seeds N] [--from S]    N seeds from S on (1,000 from 1)
 *   sim_check --seed S [--trace]        one seed, with all that happens */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/cell.h"

enum { STEPS = 700, WISHES_S = 100, CALM_S = 1500, SAVE_S = 10, END_ROUNDS = 400 };

/* ---- while things go wrong ---- */

static struct agent *any_agent(struct cell *c)
{
    return &c->agents[cell_pick(c, (int64_t)c->n_agents)];
}

/* Every agent gets on with what it has, once: so that gangs come to run at all. */
static void flow(struct cell *c)
{
    for (size_t i = 0; i < c->n_agents; i++) {
        (void)agent_read_mail(c, &c->agents[i]);
        (void)agent_work(c, &c->agents[i]);
        (void)agent_report(c, &c->agents[i]);
    }
    cell_turn(c);
}

static void micro_step(struct cell *c)
{
    int64_t dice = cell_pick(c, 100);
    c->step++;
    if (dice < 18)
        act(c);
    else if (dice < 32)
        (void)agent_read_mail(c, any_agent(c));
    else if (dice < 46 && !cell_chance(c, c->late))
        (void)agent_work(c, any_agent(c));
    else if (dice < 60)
        (void)agent_report(c, any_agent(c));
    else if (dice < 64)
        cell_pass(c, 10 + cell_pick(c, 300));
    else if (dice < 80 && !cell_chance(c, c->late))
        flow(c);
    else
        cell_turn(c);
}

/* ---- afterwards ---- */

static bool busy_agent(struct cell *c, struct agent *g)
{
    bool any = false;
    while (agent_read_mail(c, g))
        any = true;
    while (agent_work(c, g))
        any = true;
    while (agent_report(c, g))
        any = true;
    return any;
}

enum { ROUNDS_MAX = 300 };

/* All that can happen at this moment. */
static void settle(struct cell *c)
{
    for (int round = 0; round < ROUNDS_MAX; round++) {
        bool any = false;
        for (size_t i = 0; i < c->n_agents; i++)
            any = busy_agent(c, &c->agents[i]) || any;
        const struct core_changes *changes = core_changes(c->core);
        any = any || changes->n_jobs + changes->n_attempts + changes->n_nodes + changes->n_order_nodes > 0;
        if (!any && core_next_wakeup(c->core) > c->mono_ms)
            return;
        cell_turn(c);
        check_all(c);
    }
    cell_fail(c, "the core does not come to rest");
}

/* of: 1 = every job, 2 = those with an even number. */
static bool finish_running(struct cell *c, int64_t of)
{
    bool any = false;
    for (size_t i = 0; i < c->n_agents; i++)
        for (size_t k = 0; k < SHIMS_MAX; k++) {
            struct shim *s = &c->agents[i].shims[k];
            if (!s->used || s->job % of != 0 || shim_running(s) == 0 || s->todo != TODO_NOTHING)
                continue;
            shim_end_ranks(c, s, 0, 0);
            any = true;
        }
    return any;
}

/* What waits for something that this cluster does not have (any more) is cancelled; that must work at once. */
static void cancel_waiting(struct cell *c)
{
    enum core_refusal why;
    struct err err = {""};
    for (int64_t id = 1; id < c->next_job; id++) {
        enum job_state state = c->jobs[id].state;
        if (state != JOB_PENDING && state != JOB_RESTARTING && state != JOB_PREEMPTED)
            continue; /* check_end says more */
        if (core_job_request(c->core, cell_time(c), id, CORE_CANCEL, "ann", &why, &err) != 0)
            cell_fail(c, "job %lld can neither start nor be cancelled: %s", (long long)id, err.text);
    }
    cell_turn(c);
}

/* Half of the running jobs end, and nobody waits: what is left may grow. */
static void make_room(struct cell *c)
{
    (void)finish_running(c, 2);
    settle(c);
    cancel_waiting(c);
    settle(c);
}

/* saving: every job saves a checkpoint now and then. */
static void calm(struct cell *c, int seconds, bool saving)
{
    settle(c);
    for (int s = 0; s < seconds; s++) {
        c->step++;
        if (saving && s % SAVE_S == 0)
            act_save(c);
        cell_pass(c, 1000);
        settle(c);
    }
}

static void end_all(struct cell *c)
{
    for (int round = 0; round < END_ROUNDS; round++) {
        c->step++;
        bool any = finish_running(c, 1);
        cell_pass(c, 1000);
        settle(c);
        if (!any && round > 3)
            break;
    }
    check_calm(c);
    cancel_waiting(c);
    settle(c);
    cell_pass(c, 1000);
    settle(c);
}

struct totals {
    int64_t jobs, attempts, ran, grown, events, steps;
};

static void run_seed(uint64_t seed, const char *program, bool trace, struct totals *totals)
{
    struct cell *c = cell_new(seed, program, trace);
    for (int i = 0; i < STEPS; i++) {
        micro_step(c);
        check_all(c);
    }
    act_heal(c);
    calm(c, WISHES_S, false);
    check_wishes(c);
    act_let_go(c);
    if (cell_pick(c, 2))
        make_room(c);
    c->calm_ms = c->now_ms;
    calm(c, CALM_S, true);
    check_calm(c);
    end_all(c);
    check_end(c);
    totals->jobs += c->next_job - 1;
    totals->attempts += (int64_t)c->n_attempts;
    for (size_t i = 0; i < c->n_attempts; i++) {
        totals->ran += c->attempts[i].r.running_ms > 0;
        totals->grown += c->attempts[i].r.outcome == OUTCOME_RESIZED;
    }
    totals->events += c->next_event - 1;
    totals->steps += c->step;
    cell_free(c);
}

/* ---- the command line ---- */

static uint64_t number(const char *text)
{
    char *end = NULL;
    errno = 0;
    unsigned long long n = text ? strtoull(text, &end, 10) : 0;
    if (!text || errno != 0 || end == text || *end != '\0') {
        (void)fprintf(stderr, "usage: sim_check [--seeds N] [--from S] | --seed S [--trace]\n");
        exit(2);
    }
    return n;
}

int main(int argc, char **argv)
{
    uint64_t from = 1, count = 1000;
    bool trace = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--trace") == 0) {
            trace = true;
        } else if (strcmp(argv[i], "--seed") == 0) {
            from = number(argv[++i]);
            count = 1;
        } else if (strcmp(argv[i], "--from") == 0) {
            from = number(argv[++i]);
        } else if (strcmp(argv[i], "--seeds") == 0) {
            count = number(argv[++i]);
        } else {
            (void)number(NULL);
        }
    }
    struct totals t = {0};
    for (uint64_t seed = from; seed < from + count; seed++)
        run_seed(seed, argv[0], trace, &t);
    printf("sim-check: %" PRIu64 " seeds: %" PRId64 " steps, %" PRId64 " jobs, %" PRId64 " attempts (%" PRId64
           " ran, %" PRId64 " were stopped to grow), %" PRId64 " events: nothing wrong\n",
           count, t.steps, t.jobs, t.attempts, t.ran, t.grown, t.events);
    return 0;
}
