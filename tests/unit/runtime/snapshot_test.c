/* A rank's part of a checkpoint in memory: it is the file that checkpoint_write_shard would have made of what the arrays held when it was staged. */

#include "tests/unit/scratch.h"

#include <stdatomic.h>

#include "runtime/snapshot.h"

enum { ROWS = 37, COLUMNS = 53, MANY = 3 << 20 };

struct numbers {
    float matrix[ROWS * COLUMNS], *vector;
    struct checkpoint_piece pieces[3];
    struct checkpoint_array arrays[3];
};

static void fill(struct numbers *n, float by)
{
    for (int i = 0; i < ROWS * COLUMNS; i++)
        n->matrix[i] = (float)i * by;
    for (int i = 0; i < MANY; i++)
        n->vector[i] = (float)i * by;
}

/* A block of columns, all of a vector that is copied in several parts, and an array without a piece. */
static struct numbers *make(void)
{
    struct numbers *n = mem_zero(1, sizeof *n);
    n->vector = mem_zero(MANY, sizeof *n->vector);
    n->pieces[0] = (struct checkpoint_piece){{0, 5}, {ROWS, 20}, n->matrix + 5, COLUMNS};
    n->pieces[1] = (struct checkpoint_piece){{3, 20}, {4, COLUMNS}, n->matrix + 3 * COLUMNS + 20, COLUMNS};
    n->pieces[2] = (struct checkpoint_piece){{0, 0}, {MANY, 1}, n->vector, 1};
    n->arrays[0] = (struct checkpoint_array){"matrix", {ROWS, COLUMNS}, 2, n->pieces, 2, {NULL, NULL}};
    n->arrays[1] = (struct checkpoint_array){"nothing", {4, 0}, 1, NULL, 0, {NULL, NULL}};
    n->arrays[2] = (struct checkpoint_array){"vector", {MANY, 0}, 1, &n->pieces[2], 1, {NULL, NULL}};
    fill(n, 1.5f);
    return n;
}

static void drop(struct numbers *n)
{
    free(n->vector);
    free(n);
}

static void assert_same_files(const char *a, const char *b)
{
    char one[DIGEST_SIZE], two[DIGEST_SIZE];
    uint64_t bytes[2];
    struct err err;
    assert_int_equal(digest_file(a, &bytes[0], one, &err), 0);
    assert_int_equal(digest_file(b, &bytes[1], two, &err), 0);
    assert_int_equal(bytes[0], bytes[1]);
    assert_string_equal(one, two);
}

static void test_old_values(bool shared)
{
    struct err err;
    struct numbers *n = make();
    struct manifest_file file;
    atomic_bool stop = false;
    char hash[DIGEST_SIZE], *folder = scratch_path(shared ? "shared" : "plain");
    assert_int_equal(fs_mkdirs(folder, 0755, &err), 0);
    struct snapshot *im = snapshot_new(n->arrays, 3, shared, &err);
    assert_non_null(im);
    assert_int_equal(snapshot_fd(im) >= 0, shared);
    assert_int_equal(checkpoint_write_shard(folder, 3, n->arrays, 3, &file, &err), 0);
    snapshot_stage(im);
    fill(n, -7); /* training goes on */
    char *path = str_printf("%s/image", folder), *other = str_printf("%s/%s", folder, file.name);
    assert_int_equal(snapshot_write(im, path, &stop, hash, &err), 0);
    assert_same_files(path, other);
    assert_string_equal(hash, file.hash);
    assert_int_equal(snapshot_bytes(im), file.bytes);
    snapshot_hash(im, hash);
    assert_string_equal(hash, file.hash);
    snapshot_free(im);
    free(other);
    free(path);
    free(folder);
    drop(n);
}

static void what_is_overwritten_after_staging_is_saved_as_it_was(void **state)
{
    (void)state;
    test_old_values(false);
    test_old_values(true);
}

static void the_second_staging_replaces_the_first(void **state)
{
    (void)state;
    struct err err;
    struct numbers *n = make();
    char first[DIGEST_SIZE], second[DIGEST_SIZE], again[DIGEST_SIZE];
    struct snapshot *im = snapshot_new(n->arrays, 3, false, &err);
    snapshot_stage(im);
    snapshot_hash(im, first);
    fill(n, 2);
    snapshot_stage(im);
    snapshot_hash(im, second);
    fill(n, 1.5f);
    snapshot_stage(im);
    snapshot_hash(im, again);
    assert_string_not_equal(first, second);
    assert_string_equal(first, again);
    snapshot_free(im);
    drop(n);
}

static void what_cannot_be_finished_leaves_no_file(void **state)
{
    (void)state;
    struct err err;
    struct numbers *n = make();
    atomic_bool stop = true;
    char hash[DIGEST_SIZE], *path = scratch_path("unfinished");
    struct snapshot *im = snapshot_new(n->arrays, 3, false, &err);
    snapshot_stage(im);
    assert_int_equal(snapshot_write(im, path, &stop, hash, &err), -1);
    assert_non_null(strstr(err.text, "the run ends"));
    assert_int_equal(access(path, F_OK), -1);
    stop = false;
    assert_int_equal(snapshot_write(im, "/nowhere/at/all", &stop, hash, &err), -1);
    assert_non_null(strstr(err.text, "/nowhere/at/all"));
    assert_int_equal(snapshot_write(im, path, &stop, hash, &err), 0);
    assert_int_equal(snapshot_write(im, path, &stop, hash, &err), -1); /* it is there */
    assert_int_equal(access(path, F_OK), 0);
    snapshot_free(im);
    snapshot_free(NULL);
    free(path);
    drop(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_overwritten_after_staging_is_saved_as_it_was),
        cmocka_unit_test(the_second_staging_replaces_the_first),
        cmocka_unit_test(what_cannot_be_finished_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
