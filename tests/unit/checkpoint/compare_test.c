/* Two checkpoints, tensor by tensor: the same content in other cuts is equal, and each kind of difference shows in its tensor only. */
#include <math.h>

#include "checkpoint/compare.h"
#include "tests/unit/checkpoint/cuts.h"

struct found {
    struct compare_tensor tensors[16];
    size_t n;
};

static void keep(void *arg, const struct compare_tensor *t)
{
    struct found *f = arg;
    assert_true(f->n < 16);
    f->tensors[f->n++] = *t;
}

static void seen(void *arg, size_t bytes)
{
    *(size_t *)arg += bytes;
}

static struct found *compare(const char *a, const char *b, size_t *bytes)
{
    struct err err = {""};
    static struct found f;
    struct manifest *m[] = {manifest_read(a, &err), manifest_read(b, &err)};
    assert_non_null(m[0]);
    assert_non_null(m[1]);
    const struct compare_side sides[] = {{a, m[0]}, {b, m[1]}};
    const struct digest_watch watch = {seen, bytes};
    f.n = 0;
    if (compare_checkpoints(sides, keep, &f, bytes ? &watch : NULL, &err) != 0)
        fail_msg("%s", err.text);
    manifest_free(m[0]);
    manifest_free(m[1]);
    return &f;
}

/* A checkpoint of vectors and matrices by hand, of one rank. */
static char *save_arrays(const char *name, const struct checkpoint_array *arrays, size_t n)
{
    struct err err = {""};
    struct manifest_file file;
    char *folder = scratch_path(name);
    assert_int_equal(fs_mkdirs(folder, 0755, &err), 0);
    if (checkpoint_write_shard(folder, 0, arrays, n, &file, &err) != 0)
        fail_msg("%s", err.text);
    struct checkpoint_record record = checkpoint_describe(arrays, n, &file);
    if (checkpoint_seal(folder, &record, NULL, 1, &state_100, &err) != 0)
        fail_msg("%s", err.text);
    free(record.bytes);
    return folder;
}

static void test_other_cuts_are_equal(void **state)
{
    (void)state;
    char *one = save("one", ROWS, 1), *four = save("four", FLAT_COLUMNS, 4);
    size_t bytes = 0;
    struct found *f = compare(one, four, &bytes);
    assert_int_equal(f->n, TENSORS);
    assert_int_equal(bytes, 2 * (120 + 7 + 10 + 9) * sizeof(float));
    for (size_t i = 0; i < f->n; i++) {
        assert_int_equal(f->tensors[i].kind, COMPARE_BOTH);
        assert_int_equal(f->tensors[i].unequal, 0);
        assert_true(f->tensors[i].largest == 0);
        assert_true(f->tensors[i].norm[0] == f->tensors[i].norm[1] && f->tensors[i].norm[0] > 0);
    }
    assert_string_equal(f->tensors[0].name, "b");
    assert_int_equal(f->tensors[0].numbers, 7);
    free(one);
    free(four);
}

static void test_differences(void **state)
{
    (void)state;
    float x[] = {3, 4, 0, -1}, y[] = {3, 4.5F, -0.0F, -1}, bad[] = {3, NAN, 0, INFINITY};
    struct checkpoint_piece px = {{0, 0}, {4, 1}, x, 1}, py = {{0, 0}, {4, 1}, y, 1},
                            pbad = {{0, 0}, {4, 1}, bad, 1}, square = {{0, 0}, {2, 2}, x, 2};
    const struct checkpoint_array
        first[] = {{.name = "a", .shape = {4}, .dims = 1, .pieces = &px, .n_pieces = 1},
                   {.name = "bad", .shape = {4}, .dims = 1, .pieces = &pbad, .n_pieces = 1},
                   {.name = "mine", .shape = {4}, .dims = 1, .pieces = &px, .n_pieces = 1},
                   {.name = "s", .shape = {4}, .dims = 1, .pieces = &px, .n_pieces = 1}},
        second[] = {{.name = "a", .shape = {4}, .dims = 1, .pieces = &py, .n_pieces = 1},
                    {.name = "bad", .shape = {4}, .dims = 1, .pieces = &px, .n_pieces = 1},
                    {.name = "s", .shape = {2, 2}, .dims = 2, .pieces = &square, .n_pieces = 1},
                    {.name = "yours", .shape = {4}, .dims = 1, .pieces = &px, .n_pieces = 1}};
    char *a = save_arrays("first", first, 4), *b = save_arrays("second", second, 4);
    const struct compare_tensor *t = compare(a, b, NULL)->tensors;
    assert_int_equal(compare(a, b, NULL)->n, 5);
    assert_int_equal(t[0].unequal, 2); /* 0 and -0 are not the same bits */
    assert_true(t[0].largest == 0.5 && t[0].magnitude == 4.5);
    assert_true(t[0].norm[0] == sqrt(26) && t[0].norm[1] == sqrt(9 + 4.5 * 4.5 + 1));
    assert_int_equal(t[1].unequal, 2);
    assert_true(isinf(t[1].largest));
    assert_int_equal(t[2].kind, COMPARE_ONLY_FIRST);
    assert_string_equal(t[2].name, "mine");
    assert_int_equal(t[3].kind, COMPARE_SHAPES);
    assert_int_equal(t[3].shape[0][0], 4);
    assert_int_equal(t[3].shape[1][1], 2);
    assert_int_equal(t[4].kind, COMPARE_ONLY_SECOND);
    free(a);
    free(b);
}

/* More numbers than one band has, in rows and in one row; a single number differs near the end. */
static void test_bands(void **state)
{
    (void)state;
    enum { N = (1 << 20) + 5000 };
    float *x = mem_zero(2 * N, sizeof *x);
    for (size_t i = 0; i < 2 * (size_t)N; i++)
        x[i] = 1;
    struct checkpoint_piece tall = {{0, 0}, {N, 2}, x, 2}, wide = {{0, 0}, {2, N}, x, N};
    const struct checkpoint_array arrays[] = {
        {.name = "tall", .shape = {N, 2}, .dims = 2, .pieces = &tall, .n_pieces = 1},
        {.name = "wide", .shape = {2, N}, .dims = 2, .pieces = &wide, .n_pieces = 1}};
    char *a = save_arrays("bands1", arrays, 2);
    x[2 * N - 3] = 1.25F;
    char *b = save_arrays("bands2", arrays, 2);
    const struct compare_tensor *t = compare(a, b, NULL)->tensors;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(t[i].numbers, 2 * N);
        assert_int_equal(t[i].unequal, 1);
        assert_true(t[i].largest == 0.25 && t[i].norm[0] == sqrt(2.0 * N));
    }
    free(a);
    free(b);
    free(x);
}

/* What Hugging Face's names had in format 1 is found under today's; every tensor of a fixture is there. */
static void test_format_1_under_its_own_names(void **state)
{
    (void)state;
    static const char folder[] = "tests/fixtures/checkpoint/format1-llama";
    struct err err = {""};
    struct manifest *m = manifest_read(folder, &err);
    const struct compare_side sides[] = {{folder, m}, {folder, m}};
    struct found *f = mem_zero(1, sizeof *f);
    assert_non_null(m);
    f->n = 0;
    size_t n = m->n_tensors;
    m->n_tensors = 16; /* as many as the test keeps */
    assert_int_equal(compare_checkpoints(sides, keep, f, NULL, &err), 0);
    for (size_t i = 0; i < f->n; i++)
        assert_true(f->tensors[i].kind == COMPARE_BOTH && f->tensors[i].unequal == 0);
    assert_int_equal(f->n, 16);
    m->n_tensors = n;
    free(f);
    manifest_free(m);
}

static void test_models(void **state)
{
    (void)state;
    struct manifest_model a = state_100.model, b = a;
    assert_null(manifest_model_differences(&a, &b));
    b.layers = 3;
    b.tied = false;
    b.rope_theta = 1e4;
    char *text = manifest_model_differences(&a, &b);
    assert_string_equal(text, "layers 2 and 3, tied 1 and 0, rope_theta 500000 and 10000");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_cuts_are_equal),
        cmocka_unit_test(test_differences),
        cmocka_unit_test(test_bands),
        cmocka_unit_test(test_format_1_under_its_own_names),
        cmocka_unit_test(test_models),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
