/* Which announced checkpoints are still there. */
#include "tests/unit/core/world.h"

static const char train[] = "name: t\n"
                            "train:\n"
                            "  model: {arch: gpt2, layers: 2, hidden: 32, heads: 2, context: 32}\n"
                            "  data: {path: x.txt}\n"
                            "  steps: 200\n"
                            "  batch: {global: 16, micro: 4}\n"
                            "parallel: {dp: 4}\n"
                            "checkpoint: {directory: ckpt, every: 10, keep: 3}\n"
                            "restart: {max: 9, window: 1h, backoff: 1s}\n";

/* What the store holds of the job, newest first, so that no order is taken for granted; repeated announcements once, the newest. */
static size_t stored(const struct world *w, int64_t id, struct checkpoint_record *list)
{
    size_t n = 0;
    for (size_t i = w->n_checkpoints; i > 0; i--) {
        const struct checkpoint_record *c = &w->checkpoints[i - 1];
        size_t k = 0;
        while (k < n && list[k].step != c->step)
            k++;
        if (c->job == id && k == n)
            list[n++] = *c;
    }
    return n;
}

static void assert_kept(const struct world *w, int64_t id, const char *wanted)
{
    struct checkpoint_record list[64];
    char text[256] = "", one[32];
    size_t n = core_checkpoints_kept(w->core, id, list, stored(w, id, list));
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(one, sizeof(one), "%s%lld", i > 0 ? " " : "", (long long)list[i].step);
        strncat(text, one, sizeof(text) - strlen(text) - 1);
    }
    assert_string_equal(text, wanted);
}

static void fail_and_restart(struct world *w, int64_t id)
{
    world_exit(w, id, 0, 1, 0, false);
    world_pump(w);
    world_pass(w, 30000);
    assert_job(w, id, JOB_RUNNING);
}

static void test_purged_checkpoints_are_not_listed(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_submit(w, train);
    assert_kept(w, id, "");
    world_train(w, id, 1, 30, 100, 10);
    assert_kept(w, id, "10 20 30");
    world_train(w, id, 31, 50, 100, 10);
    assert_kept(w, id, "30 40 50");
    fail_and_restart(w, id);
    assert_kept(w, id, "30 40 50");
    world_train(w, id, 51, 60, 100, 10);
    assert_kept(w, id, "40 50 60");
    world_restart(w);
    assert_kept(w, id, "40 50 60");
    world_free(w);
}

/* Attempt 2 found 50 and 40 damaged and went on from 30: the two were set aside, and what was purged before stays away. */
static void test_checkpoints_set_aside_are_not_listed(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_submit(w, train);
    world_train(w, id, 1, 50, 100, 10);
    fail_and_restart(w, id);
    world_train(w, id, 31, 34, 100, 10);
    assert_kept(w, id, "30");
    world_say_step(w, id, "CHECKPOINT_DURABLE", 35);
    assert_kept(w, id, "30 35");
    world_train(w, id, 36, 40, 100, 10);
    assert_kept(w, id, "30 35 40");
    fail_and_restart(w, id);
    world_train(w, id, 41, 50, 100, 10);
    assert_kept(w, id, "35 40 50");
    world_free(w);
}

static void say_checkpoint(struct world *w, int64_t id, int64_t step, const char *loss)
{
    char text[96];
    (void)snprintf(text, sizeof(text), "CHECKPOINT_DURABLE=%lld%s%s", (long long)step,
                   loss ? "\nCHECKPOINT_LOSS=" : "", loss ? loss : "");
    world_train(w, id, step - 9, step, 100, 0);
    world_tell(w, id, 0, text);
}

/* Two of the newest, every 40th, and the best two of those whose loss is known: as the trainer's own purge, over attempts too. */
static void test_every_and_best(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    char *yaml = str_printf("%s", train), *keep = strstr(yaml, "keep: 3}");
    memcpy(keep, "keep: 2}", 8);
    char *rules =
        str_printf("%.*skeep: 2, keep_every: 40, keep_best: 2}%s", (int)(keep - yaml), yaml, keep + 8);
    char *steps = strstr(rules, "path: x.txt}");
    char *whole = str_printf("%.*spath: x.txt, holdout: 0.1}\n  eval: {every: 10}%s", (int)(steps - rules),
                             rules, steps + strlen("path: x.txt}"));
    int64_t id = world_submit(w, whole);
    static const char *const losses[] = {"3", NULL, "1.5", "2", NULL, "2.5", "1.75", "4", "5", "6"};
    for (int64_t i = 0; i < 10; i++)
        say_checkpoint(w, id, 10 * (i + 1), losses[i]);
    assert_kept(w, id, "30 40 70 80 90 100");
    fail_and_restart(w, id);
    say_checkpoint(w, id, 110, "0.5");
    assert_kept(w, id, "30 40 80 100 110");
    world_restart(w);
    assert_kept(w, id, "30 40 80 100 110");
    free(whole);
    free(rules);
    free(yaml);
    world_free(w);
}

static void test_other_programs_keep_what_they_like(void **state)
{
    (void)state;
    struct world *w = world_new(2, 2);
    int64_t id = world_run(w, 2, "restart: {max: 5, window: 1h, backoff: 1s}\n");
    world_train(w, id, 1, 50, 100, 10);
    assert_kept(w, id, "50 40 30 20 10");
    assert_int_equal(core_checkpoints_kept(w->core, 99, NULL, 0), 0);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_purged_checkpoints_are_not_listed),
        cmocka_unit_test(test_checkpoints_set_aside_are_not_listed),
        cmocka_unit_test(test_every_and_best),
        cmocka_unit_test(test_other_programs_keep_what_they_like),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
