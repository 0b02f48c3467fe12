/* The controller is killed after any commit: what follows is the same as if nothing had happened. */
#include "common/mem.h"
#include "tests/unit/core/world.h"

static const char train[] = "name: t\n"
                            "train:\n"
                            "  model: {arch: gpt2, layers: 2, hidden: 32, heads: 2, context: 32}\n"
                            "  data: {path: x.txt}\n"
                            "  steps: 200\n"
                            "  batch: {global: 16, micro: 4}\n"
                            "parallel: {dp: 4}\n"
                            "checkpoint: {directory: ckpt, every: 10}\n"
                            "restart: {max: 2, window: 1h, backoff: 1s}\n";

static void drain(struct world *w, const char *node)
{
    enum core_refusal why;
    struct err err = {""};
    assert_int_equal(core_drain(w->core, world_time(w), node, "disk", 0, false, &why, &err), 0);
    world_pump(w);
}

static void undrain(struct world *w, const char *node)
{
    enum core_refusal why;
    struct err err = {""};
    assert_int_equal(core_undrain(w->core, world_time(w), node, &why, &err), 0);
    world_pump(w);
}

/* ---- scenarios ---- */

static void rank_failure(struct world *w)
{
    int64_t id = world_submit(w, train);
    world_train(w, id, 1, 12, 100, 10);
    world_exit(w, id, 2, 1, 0, false);
    world_pump(w);
    world_pass(w, 1500);
    world_train(w, id, 11, 14, 100, 10);
    world_finish(w, id);
    assert_int_equal(w->jobs[id].state, JOB_COMPLETED);
    assert_int_equal(w->jobs[id].attempt, 2);
}

static void refusal(struct world *w)
{
    w->agents[0].refuse = true;
    int64_t id = world_run(w, 4, "");
    world_pass(w, 500);
    assert_int_equal(w->jobs[id].state, JOB_RUNNING);
    assert_int_equal(w->jobs[id].attempt, 2);
}

static void slow_stop(struct world *w)
{
    int64_t id = world_run(w, 4, "");
    world_rank_shim(w, id, 0)->stubborn = true;
    world_verb(w, id, CORE_HOLD);
    world_pass(w, 500);
    shim_end_ranks(w, world_rank_shim(w, id, 0), 0, 9);
    world_pump(w);
    assert_int_equal(w->jobs[id].state, JOB_HELD);
    world_verb(w, id, CORE_RELEASE);
    world_pass(w, 500);
    world_verb(w, id, CORE_REQUEUE);
    world_pass(w, 500);
    world_verb(w, id, CORE_CANCEL);
    world_pass(w, 500);
    assert_int_equal(w->jobs[id].state, JOB_CANCELLED);
    assert_int_equal(w->jobs[id].attempt, 3);
}

static void draining(struct world *w)
{
    int64_t id = world_submit(w, train);
    world_say(w, id, 0, "CHECKPOINT_ON", "SIGUSR1");
    world_train(w, id, 1, 12, 100, 10);
    drain(w, "node1");
    world_pass(w, 500);
    assert_int_equal(w->jobs[id].attempt, 1);
    world_say_step(w, id, "CHECKPOINT_DURABLE", 13);
    world_pass(w, 500);
    assert_int_equal(w->jobs[id].attempt, 2);
    undrain(w, "node1");
    world_train(w, id, 14, 16, 100, 0);
    assert_int_equal(w->jobs[id].state, JOB_RUNNING);
}

static void budget(struct world *w)
{
    int64_t id = world_run(w, 4, "restart: {max: 1, window: 1h, backoff: 1s}\n");
    for (int i = 0; i < 2; i++) {
        world_exit(w, id, 1, 3, 0, false);
        world_pump(w);
        world_pass(w, 1200);
    }
    assert_int_equal(w->jobs[id].state, JOB_FAILED);
    world_verb(w, id, CORE_REQUEUE);
    world_pass(w, 100);
    assert_int_equal(w->jobs[id].state, JOB_RUNNING);
}

static void no_progress(struct world *w)
{
    int64_t id = world_run(w, 4, "checkpoint: {directory: ck}\nrestart: {max: 9, window: 1h, backoff: 1s}\n");
    world_train(w, id, 1, 10, 100, 10);
    for (int i = 0; i < 4; i++) {
        world_exit(w, id, 1, 3, 0, false);
        world_pump(w);
        world_pass(w, 8800);
    }
    assert_int_equal(w->jobs[id].state, JOB_FAILED);
    assert_says(w->jobs[id].reason, "no progress");
}

static void queue(struct world *w)
{
    int64_t a = world_run(w, 4, ""), b = world_run(w, 6, ""), c = world_run(w, 8, "priority: 3\n");
    world_pass(w, 300);
    world_finish(w, a);
    world_pass(w, 300);
    assert_int_equal(w->jobs[c].state, JOB_RUNNING);
    world_finish(w, c);
    world_pass(w, 300);
    assert_int_equal(w->jobs[b].state, JOB_RUNNING);
}

static void node_loss(struct world *w)
{
    int64_t id = world_submit(w, train);
    world_train(w, id, 1, 12, 100, 10);
    w->agents[1].alive = false;
    world_unlink(w, &w->agents[1]);
    world_pass(w, 16500); /* as long as a restarted controller may take */
    assert_int_equal(w->jobs[id].state, JOB_RUNNING);
    assert_int_equal(w->jobs[id].attempt, 2);
}

/* ---- the same end ---- */

static char *picture(const struct world *w, bool times)
{
    char *all = str_dup("");
    for (int64_t id = 1; id < w->next_job; id++) {
        const struct job_record *j = &w->jobs[id];
        char *next = str_printf("%s%lld %s \"%s\" attempt %lld restarts %lld failure %lld code %d step %lld "
                                "ckpt %lld productive %lld\n",
                                all, (long long)id, job_state_name(j->state), j->reason,
                                (long long)j->attempt, (long long)j->restarts,
                                (long long)j->first_failure_rank, j->exit_code, (long long)j->progress.step,
                                (long long)j->progress.checkpoint_step, (long long)j->productive_ms);
        free(all);
        all = next;
    }
    for (size_t i = 0; i < w->n_attempts; i++) {
        const struct attempt_record *a = &w->attempts[i];
        const struct lost_time *l = &a->lost;
        char *next =
            str_printf("%s  %lld.%lld %s %s \"%s\" on %s:%lld..%s asked %lld", all, (long long)a->job,
                       (long long)a->number, attempt_state_name(a->state), attempt_outcome_name(a->outcome),
                       a->reason, a->placement[0].node, (long long)a->placement[0].slot,
                       a->placement[a->world - 1].node, (long long)a->checkpoint_request);
        char *line =
            times ? str_printf("%s %lld..%lld lost %lld %lld %lld %lld %lld\n", next, (long long)a->from_step,
                               (long long)a->to_step, (long long)l->detect, (long long)l->stop,
                               (long long)l->place, (long long)l->load, (long long)l->replay)
                  : str_printf("%s\n", next);
        free(next);
        free(all);
        all = line;
    }
    return all;
}

struct scenario {
    const char *name;
    void (*play)(struct world *w);
    bool times; /* the accounts are the same too (a lost node is noticed later by a new controller) */
};

static const struct scenario scenarios[] = {
    {"rank failure", rank_failure, true},
    {"refusal", refusal, true},
    {"slow stop", slow_stop, true},
    {"draining", draining, true},
    {"budget", budget, true},
    {"no progress", no_progress, true},
    {"queue", queue, true},
    {"lost node", node_loss, false},
};

static char *play(const struct scenario *s, int64_t restart_at, int64_t *commits)
{
    struct world *w = world_new(4, 2);
    w->commits = 0;
    w->restart_at = restart_at;
    s->play(w);
    char *end = picture(w, s->times);
    *commits = w->commits;
    world_free(w);
    return end;
}

static void compare(const struct scenario *s, int64_t restart_at, const char *wanted)
{
    int64_t commits = 0;
    char *end = play(s, restart_at, &commits);
    if (strcmp(end, wanted) != 0)
        fail_msg("%s, killed after commit %lld:\n%s\ninstead of\n%s", s->name, (long long)restart_at, end,
                 wanted);
    free(end);
}

static void test_killed_after_any_commit(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        int64_t commits = 0;
        char *wanted = play(&scenarios[i], 0, &commits);
        assert_true(commits > 5);
        for (int64_t at = 1; at <= commits; at++)
            compare(&scenarios[i], at, wanted);
        free(wanted);
    }
}

static void test_killed_after_every_commit(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        int64_t commits = 0;
        char *wanted = play(&scenarios[i], 0, &commits);
        if (scenarios[i].play != node_loss) /* a controller that is always new never gives a node up */
            compare(&scenarios[i], -1, wanted);
        free(wanted);
    }
}

/* Loading alone changes no job and no attempt. */
static void test_loading_changes_nothing(void **state)
{
    (void)state;
    struct world *w = world_new(4, 2);
    rank_failure(w);
    world_run(w, 4, "");
    world_run(w, 8, "");
    world_restart(w);
    core_turn(w->core, world_time(w));
    const struct core_changes *c = core_changes(w->core);
    assert_int_equal(c->n_jobs, 0);
    assert_int_equal(c->n_attempts, 0);
    assert_int_equal(c->next_job, w->next_job);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_after_any_commit),
        cmocka_unit_test(test_killed_after_every_commit),
        cmocka_unit_test(test_loading_changes_nothing),
    };
    return cmocka_run_group_tests_name("core restart", tests, NULL, NULL);
}
