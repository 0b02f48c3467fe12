#include <math.h>
#include <sys/stat.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "tests/unit/scratch.h"

#include "checkpoint/checkpoint.h"
#include "checkpoint/shelf.h"

static char *dir; /* of the present test */

static int fresh(void **state)
{
    static int n;
    (void)state;
    char *name = str_printf("shelf%d", n++);
    dir = scratch_path(name);
    free(name);
    return fs_mkdirs(dir, 0755, NULL);
}

static int forget(void **state)
{
    (void)state;
    free(dir);
    return 0;
}

/* A checkpoint of one number, committed. */
static void commit_with(int64_t step, float value, double held_loss)
{
    struct err err;
    struct manifest_file file;
    struct checkpoint_piece piece = {{0, 0}, {1, 1}, &value, 1};
    struct checkpoint_array array = {.name = "x", .shape = {1}, .dims = 1, .pieces = &piece, .n_pieces = 1};
    struct checkpoint_record record = {NULL, 0};
    struct manifest_state at = {
        .step = step, .tp = 1, .pp = 1, .cp = 1, .dp = 1, .ep = 1, .held_loss = held_loss};
    char *folder = shelf_begin(dir, step, 0, &err);
    assert_non_null(folder);
    if (checkpoint_write_shard(folder, 0, &array, 1, &file, &err) == 0)
        record = checkpoint_describe(&array, 1, &file);
    if (!record.bytes || checkpoint_seal(folder, &record, NULL, 1, &at, &err) != 0 ||
        shelf_commit(dir, folder, step, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(access(folder, F_OK), -1);
    free(record.bytes);
    free(folder);
}

static void commit(int64_t step, float value)
{
    commit_with(step, value, NAN);
}

static void purge(int64_t keep, int64_t *verified)
{
    const struct retention_policy policy = {.keep = keep};
    shelf_purge(dir, &policy, 0, verified);
}

static float value_of(int64_t step)
{
    float value = -1;
    struct checkpoint_piece piece = {{0, 0}, {1, 1}, &value, 1};
    struct checkpoint_array array = {.name = "x", .shape = {1}, .dims = 1, .pieces = &piece, .n_pieces = 1};
    char *path = shelf_path(dir, step);
    assert_int_equal(checkpoint_load(path, &array, 1, NULL), CHECKPOINT_OK);
    free(path);
    return value;
}

static void assert_steps(const char *expected)
{
    int64_t *steps, n = shelf_list(dir, &steps, NULL);
    char found[256] = "";
    for (int64_t i = 0; i < n; i++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%ld ", steps[i]);
    assert_string_equal(found, expected);
    free(steps);
}

static void damage(int64_t step)
{
    char *folder = shelf_path(dir, step), *path = str_printf("%s/rank-00000.safetensors", folder);
    char *text = NULL;
    size_t len;
    text = fs_read(path, 1u << 20, &len, NULL);
    scratch_flip(path, len - 1);
    free(text);
    free(path);
    free(folder);
}

static void test_list_and_latest(void **state)
{
    (void)state;
    static const char *const strangers[] = {"step-5",        "step-00000007x",
                                            "step--0000007", ".step-00000009.0.1.tmp",
                                            "steps",         "step-99999999999999999999"};
    assert_steps("");
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        char *path = str_printf("%s/%s", dir, strangers[i]);
        fs_mkdirs(path, 0755, NULL);
        free(path);
    }
    commit(20, 1);
    commit(100, 1);
    commit(123456789, 1);
    commit(3, 1);
    assert_steps("123456789 100 20 3 ");
    char *path = str_printf("%s/latest", dir), *text = scratch_read(path);
    assert_string_equal(text, "step-00000003\n");
    free(text);
    free(path);
}

static void test_same_step_is_replaced(void **state)
{
    (void)state;
    commit(20, 1);
    commit(20, 2);
    assert_steps("20 ");
    assert_true(value_of(20) == 2);
}

static void test_purge_keeps_the_newest(void **state)
{
    (void)state;
    int64_t verified = 0;
    for (int64_t step = 10; step <= 60; step += 10) {
        commit(step, 1);
        purge(3, &verified);
    }
    assert_steps("60 50 40 ");
    assert_true(verified >= 40);
    purge(1, &verified);
    assert_steps("60 ");
    assert_int_equal(verified, 60);
}

/* An incomplete one does not count, and the last one known to be good goes only after a newer one has been read back. */
static void test_purge_never_takes_the_last_good_one(void **state)
{
    (void)state;
    int64_t verified = 10;
    commit(10, 1);
    commit(20, 1);
    damage(20); /* its size is right, its content is not */
    purge(1, &verified);
    assert_steps("20 10 ");
    assert_int_equal(verified, 10);
    commit(30, 1);
    purge(1, &verified);
    assert_steps("30 ");
    assert_int_equal(verified, 30);
    commit(40, 1);
    char *path = str_printf("%s/step-00000040/manifest.json", dir);
    assert_int_equal(unlink(path), 0);
    free(path);
    purge(1, &verified);
    assert_steps("40 30 ");
}

static void test_incomplete_ones_do_not_count(void **state)
{
    (void)state;
    int64_t verified = 20;
    commit(10, 1);
    commit(20, 1);
    commit(30, 1);
    char *path = str_printf("%s/step-00000030/rank-00000.safetensors", dir);
    assert_int_equal(unlink(path), 0);
    free(path);
    purge(2, &verified);
    assert_steps("30 20 10 ");
}

static void test_purge_without_any_good_one(void **state)
{
    (void)state;
    int64_t verified = 0;
    commit(10, 1);
    commit(20, 1);
    damage(20);
    purge(1, &verified);
    assert_steps("20 10 ");
}

/* Every 40th stays, and the two with the lowest held-out loss: of 10 that nobody evaluated none. */
static void test_purge_keeps_every_and_best(void **state)
{
    (void)state;
    static const double losses[] = {3, NAN, 1.5, 2, NAN, 2.5, 1.75, 4, 5, 6};
    const struct retention_policy policy = {.keep = 2, .keep_every = 40, .keep_best = 2};
    int64_t verified = 0;
    for (int64_t i = 1; i <= 10; i++) {
        commit_with(10 * i, 1, losses[i - 1]);
        shelf_purge(dir, &policy, 0, &verified);
    }
    assert_steps("100 90 80 70 40 30 ");
    char *path = shelf_path(dir, 30), *none = shelf_path(dir, 31);
    assert_true(manifest_held_loss(path) == 1.5);
    assert_true(isnan(manifest_held_loss(none)));
    free(none);
    free(path);
}

/* What nobody could read back in full stays with the last that could, although the policy has no place for it. */
static void test_best_is_no_way_round_verified(void **state)
{
    (void)state;
    const struct retention_policy policy = {.keep = 1, .keep_best = 1};
    int64_t verified = 10;
    commit_with(10, 1, 9);
    commit_with(20, 1, 1);
    commit_with(30, 1, 2);
    damage(30);
    shelf_purge(dir, &policy, 0, &verified);
    assert_steps("30 20 10 ");
    assert_int_equal(verified, 10);
    commit_with(40, 1, 3);
    shelf_purge(dir, &policy, 0, &verified);
    assert_steps("40 20 ");
    assert_int_equal(verified, 40);
}

/* One that is being read stays until it no longer is. */
static void test_purge_spares(void **state)
{
    (void)state;
    const struct retention_policy policy = {.keep = 1};
    int64_t verified = 0;
    commit(10, 1);
    commit(20, 2);
    commit(30, 3);
    shelf_purge(dir, &policy, 10, &verified);
    assert_steps("30 10 ");
    shelf_purge(dir, &policy, 0, &verified);
    assert_steps("30 ");
}

/* Where two names cannot be exchanged at once a death may leave the replaced checkpoint under a hidden name. */
static void test_sweep_puts_back(void **state)
{
    (void)state;
    struct manifest_state at;
    struct err err;
    commit(10, 1);
    commit(20, 2);
    char *ten = shelf_path(dir, 10), *twenty = shelf_path(dir, 20);
    char *hidden = str_printf("%s/.step-00000010.3.77.tmp.old", dir),
         *second = str_printf("%s/.step-00000020.3.77.tmp.old", dir);
    assert_int_equal(rename(ten, hidden), 0);
    assert_int_equal(fs_mkdirs(second, 0755, &err), 0);
    shelf_sweep(dir);
    assert_steps("20 10 ");
    assert_int_equal(checkpoint_verify(ten, 0, 1, &at, &err), 0);
    assert_int_equal(checkpoint_verify(twenty, 0, 1, &at, &err), 0);
    assert_int_equal(access(hidden, F_OK), -1);
    assert_int_equal(access(second, F_OK), -1);
    free(second);
    free(hidden);
    free(twenty);
    free(ten);
}

static void test_sweep(void **state)
{
    (void)state;
    struct err err;
    commit(10, 1);
    char *folder = shelf_begin(dir, 20, 5, &err), *other = str_printf("%s/.step-notes", dir);
    fs_mkdirs(other, 0755, NULL);
    static const char *const torn[] = {"latest.tmp.12", "claim.tmp.345", "metrics.csv.tmp.6"};
    static const char *const kept[] = {"latest.tmp.", "claim.tmp.mine", "metrics.csv.2026.old"};
    char *paths[2][3];
    for (size_t i = 0; i < 3; i++) {
        scratch_write(paths[0][i] = str_printf("%s/%s", dir, torn[i]), "x", 1);
        scratch_write(paths[1][i] = str_printf("%s/%s", dir, kept[i]), "x", 1);
    }
    shelf_sweep(dir);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(access(paths[0][i], F_OK), -1);
        assert_int_equal(access(paths[1][i], F_OK), 0);
        free(paths[0][i]);
        free(paths[1][i]);
    }
    assert_int_equal(access(folder, F_OK), -1);
    assert_int_equal(access(other, F_OK), 0);
    assert_steps("10 ");
    free(other);
    free(folder);
}

static void assert_latest(const char *line)
{
    char *path = str_printf("%s/latest", dir);
    if (line) {
        char *text = scratch_read(path);
        assert_string_equal(text, line);
        free(text);
    } else {
        assert_int_equal(access(path, F_OK), -1);
    }
    free(path);
}

/* `latest` is a hint: without it the checkpoint is there all the same. */
static void test_commit_without_latest(void **state)
{
    (void)state;
    char *latest = str_printf("%s/latest", dir);
    commit(10, 1);
    unlink(latest);
    assert_int_equal(mkdir(latest, 0755), 0);
    commit(20, 1);
    assert_steps("20 10 ");
    rmdir(latest);
    free(latest);
}

static void test_set_aside(void **state)
{
    (void)state;
    struct err err;
    commit(10, 1);
    commit(20, 1);
    commit(30, 1);
    char *metrics = str_printf("%s/metrics.csv", dir);
    scratch_write(metrics, "rows", 4);
    free(metrics);
    assert_int_equal(shelf_set_aside(dir, 30, &err), 0);
    assert_latest("step-00000030\n");
    assert_int_equal(shelf_set_aside(dir, 10, &err), 2);
    assert_steps("10 ");
    assert_latest("step-00000010\n");
    char *command = str_printf("ls %s/set-aside/*/", dir), line[32];
    FILE *ls = popen(command, "re");
    assert_non_null(fgets(line, sizeof line, ls));
    assert_string_equal(line, "metrics.csv\n");
    assert_non_null(fgets(line, sizeof line, ls));
    assert_string_equal(line, "step-00000020\n");
    pclose(ls);
    free(command);
    assert_int_equal(shelf_set_aside(dir, 0, &err), 1);
    assert_latest(NULL);
}

/* Whoever died between a commit and `latest` left an old one, or none. */
static void test_latest_is_put_right(void **state)
{
    (void)state;
    struct err err;
    char *path = str_printf("%s/latest", dir);
    commit(10, 1);
    commit(20, 2);
    scratch_write(path, "step-00000010\n", 14);
    assert_int_equal(shelf_set_aside(dir, 20, &err), 0);
    assert_latest("step-00000020\n");
    unlink(path);
    assert_int_equal(shelf_set_aside(dir, 20, &err), 0);
    assert_latest("step-00000020\n");
    free(path);
}

static void test_unwritable(void **state)
{
    (void)state;
    struct err err;
    int64_t *steps;
    assert_null(shelf_begin("/proc/nowhere", 1, 0, &err));
    assert_contains(err.text, "/proc/nowhere");
    assert_int_equal(shelf_list("/proc/nowhere", &steps, &err), -1);
    assert_int_equal(shelf_commit(dir, "/nonexistent", 1, &err), -1);
    assert_contains(err.text, "cannot rename /nonexistent");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_list_and_latest, fresh, forget),
        cmocka_unit_test_setup_teardown(test_same_step_is_replaced, fresh, forget),
        cmocka_unit_test_setup_teardown(test_purge_keeps_the_newest, fresh, forget),
        cmocka_unit_test_setup_teardown(test_purge_never_takes_the_last_good_one, fresh, forget),
        cmocka_unit_test_setup_teardown(test_incomplete_ones_do_not_count, fresh, forget),
        cmocka_unit_test_setup_teardown(test_purge_without_any_good_one, fresh, forget),
        cmocka_unit_test_setup_teardown(test_purge_keeps_every_and_best, fresh, forget),
        cmocka_unit_test_setup_teardown(test_best_is_no_way_round_verified, fresh, forget),
        cmocka_unit_test_setup_teardown(test_purge_spares, fresh, forget),
        cmocka_unit_test_setup_teardown(test_sweep_puts_back, fresh, forget),
        cmocka_unit_test_setup_teardown(test_sweep, fresh, forget),
        cmocka_unit_test_setup_teardown(test_commit_without_latest, fresh, forget),
        cmocka_unit_test_setup_teardown(test_set_aside, fresh, forget),
        cmocka_unit_test_setup_teardown(test_latest_is_put_right, fresh, forget),
        cmocka_unit_test_setup_teardown(test_unwritable, fresh, forget),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
